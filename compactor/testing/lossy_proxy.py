"""A TCP proxy on loopback before a Redis: it loses replies, cuts requests, refuses, holds back, and counts."""

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

    `turns` counts requests (what a client sent before it read a reply), `moved` the bytes that came from
    either side. `lost` counts the replies that were thrown away, together with their connection, after the
    server had executed the command; `cut_off` those requests that never reached the server; `refused` the
    connections turned away.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._mark, self._to_lose = b"", 0
        self._cut_mark, self._to_cut = b"", 0
        self._stalled = b""
        self._flowing = threading.Event()
        self._refusing = False
        self.turns = 0
        self.moved = 0
        self.lost = 0
        self.cut_off = 0
        self.refused = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def lose(self, script: str | None = None, replies: int = 1) -> None:
        """Loses the next replies to calls of one of our scripts, or of any command."""
        with self._lock:
            self._mark, self._to_lose = _mark(script), replies

    def cut(self, script: str | None = None, requests: int = 1) -> None:
        """Closes the connection of the next requests before a byte of them reaches the server."""
        with self._lock:
            self._cut_mark, self._to_cut = _mark(script), requests

    def stall(self, mark: bytes) -> None:
        """Holds back every reply to a request that contains `mark`, until `release`."""
        self._stalled = mark

    def release(self) -> None:
        """Hands out what was held back."""
        self._stalled = b""
        self._flowing.set()

    def refuse(self) -> None:
        """The server seems to be away: open connections end, new ones are turned away, until `heal`."""
        self._refusing = True
        with self._lock:
            self._end_connections()

    def heal(self) -> None:
        """Takes connections again, and forgets what was still to be lost or cut."""
        self._refusing = False
        with self._lock:
            self._to_lose = self._to_cut = 0

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        with self._lock:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._end_connections()
        for thread in self._threads:
            thread.join(5)

    def _end_connections(self) -> None:
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _start(self, work: object, *args: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads = [running for running in self._threads if running.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    self.refused += 1
                    client.close()
                else:
                    self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._port)) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
            with self._lock:
                self.moved += len(data)
            if source is client:
                if not request and self._cuts(data):
                    return
                request += data
                server.sendall(data)
            elif self._loses(request, data):
                return
            else:
                if self._stalled and self._stalled in request:
                    self._flowing.wait(10)
                request = b""
                client.sendall(data)

    def _cuts(self, start: bytes) -> bool:
        """Counts a new request; whether it is one to be cut."""
        with self._lock:
            self.turns += 1
            if not self._to_cut or self._cut_mark not in start:
                return False
            self._to_cut -= 1
            self.cut_off += 1
            return True

    def _loses(self, request: bytes, reply: bytes) -> bool:
        with self._lock:
            if not self._to_lose or self._mark not in request or b"NOSCRIPT" in reply:  # that one was not executed
                return False
            self._to_lose -= 1
            self.lost += 1
            return True


def _mark(script: str | None) -> bytes:
    return script_mark(script) if script is not None else b""
