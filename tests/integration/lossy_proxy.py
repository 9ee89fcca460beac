"""A TCP proxy on loopback that lets a command through and loses or holds back its reply, and counts round trips."""

from __future__ import annotations

import contextlib
import hashlib
import select
import socket
import threading
from typing import Self

from compactor.store import SCRIPTS


def script_mark(name: str) -> bytes:
    """The bytes by which a request that runs one of our scripts is known."""
    return hashlib.sha1(SCRIPTS[name].encode(), usedforsecurity=False).hexdigest().encode()


class LossyProxy:
    """Stands between a client and the server on `port`; use it as a context manager.

    `turns` counts requests (what a client sent before it read a reply). `lost` counts the replies
    that were thrown away, together with their connection, after the server had executed the command.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._mark, self._to_lose = b"", 0
        self._stalled = b""
        self._flowing = threading.Event()
        self.turns = 0
        self.lost = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def lose(self, script: str, replies: int = 1) -> None:
        """Loses the next replies to calls of one of our scripts."""
        with self._lock:
            self._mark, self._to_lose = script_mark(script), replies

    def stall(self, mark: bytes) -> None:
        """Holds back every reply to a request that contains `mark`, until `release`."""
        self._stalled = mark

    def release(self) -> None:
        """Hands out what was held back."""
        self._stalled = b""
        self._flowing.set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
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
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._port)) as server:
            with self._lock:
                self._open |= {client, server}
            try:
                self._forward(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        request = b""
        while True:
            ready, _, _ = select.select([client, server], [], [])
            source = server if server in ready else client
            data = source.recv(65_536)
            if not data:
                return
            if source is client:
                self._count(new=not request)
                request += data
                server.sendall(data)
            elif self._loses(request, data):
                return
            else:
                if self._stalled and self._stalled in request:
                    self._flowing.wait(10)
                request = b""
                client.sendall(data)

    def _count(self, *, new: bool) -> None:
        with self._lock:
            self.turns += new

    def _loses(self, request: bytes, reply: bytes) -> bool:
        with self._lock:
            if not self._to_lose or self._mark not in request or b"NOSCRIPT" in reply:  # that one was not executed
                return False
            self._to_lose -= 1
            self.lost += 1
            return True
