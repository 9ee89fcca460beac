"""A TCP proxy on loopback that interferes with chosen requests or replies: holds them, or cuts the connection."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from dataclasses import dataclass, field
from typing import Literal, Self

FOR_GOOD = 1 << 30
Place = Literal["request", "half", "reply"]


@dataclass
class Fault:
    """What happens to traffic whose request contains all `marks`.

    At `request` the server never sees it, at `half` it sees only the first half of its bytes, at
    `reply` it was executed. `hold` keeps the connection open and silent for good, `cut` closes it.
    `met` is set at the first time, `seen` counts.
    """

    marks: tuple[bytes, ...]
    at: Place
    act: Literal["hold", "cut"] = "hold"
    times: int = FOR_GOOD
    seen: int = 0
    met: threading.Event = field(default_factory=threading.Event)

    def takes(self, request: bytes) -> bool:
        """Whether this request is one of those, which is then counted."""
        if self.seen >= self.times or not all(mark in request for mark in self.marks):
            return False
        self.seen += 1
        self.met.set()
        return True


class Gate:
    """Stands between clients and the server on `port`; use it as a context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.faults: list[Fault] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def add(self, fault: Fault) -> Fault:
        """Lets a fault loose; it stays until its times are used up or `clear`."""
        with self._lock:
            self.faults.append(fault)
        return fault

    def clear(self) -> None:
        """From now on everything passes; what is held stays held."""
        with self._lock:
            self.faults.clear()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._lock:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _start(self, work: object, *args: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            client,
            socket.create_connection(("127.0.0.1", self._port)) as server,
            selectors.DefaultSelector() as watched,
        ):
            watched.register(client, selectors.EVENT_READ)
            watched.register(server, selectors.EVENT_READ)
            with self._lock:
                self._open |= {client, server}
            try:
                self._forward(client, server, watched)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket, watched: selectors.BaseSelector) -> None:
        request = b""
        while True:
            ready = [key.fileobj for key, _ in watched.select()]
            source = server if server in ready else client
            data = source.recv(65_536)
            if not data:
                return
            if source is client:
                request += data
                if self._interferes("request", request):
                    return
                if self._interferes("half", request):
                    server.sendall(data[: len(data) // 2])
                    return
                server.sendall(data)
            else:
                if b"NOSCRIPT" not in data and self._interferes("reply", request):
                    return
                request = b""
                client.sendall(data)

    def _interferes(self, at: Place, request: bytes) -> bool:
        """Whether the connection ends here, after holding it when that is the fault."""
        with self._lock:
            fault = next((fault for fault in self.faults if fault.at == at and fault.takes(request)), None)
        if fault is not None and fault.act == "hold":
            self._over.wait()
        return fault is not None
