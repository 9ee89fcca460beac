"""A model server without manners: what it writes to the socket, and when, is the test's to say."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Self

from compactor.testing import summary

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


class RawServer:
    """Accepts on loopback and runs `serve(connection, closing)` in a thread for each request."""

    def __init__(self, serve: Callable[[socket.socket, threading.Event], None]) -> None:
        self._serve = serve
        self._closing = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.hung_up = threading.Event()
        self.accepted = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(1 << 20)
                self._serve(connection, self._closing)
            except OSError:
                self.hung_up.set()

    def __enter__(self) -> Self:
        self._threads.append(threading.Thread(target=self._accept, daemon=True))
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(5)


def silent(_connection: socket.socket, closing: threading.Event) -> None:
    """Never answers."""
    closing.wait()


def stalls_after_the_head(connection: socket.socket, closing: threading.Event) -> None:
    connection.sendall(HEAD + b"content-length: 1000\r\n\r\n{")
    closing.wait()


def drips(connection: socket.socket, closing: threading.Event) -> None:
    """A byte every now and then, for ever: no single read ever times out."""
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    while not closing.wait(0.05):
        connection.sendall(b"1\r\n \r\n")


def hangs_up(_connection: socket.socket, _closing: threading.Event) -> None:
    """Takes the request and closes."""


def hangs_up_half_way(connection: socket.socket, _closing: threading.Event) -> None:
    connection.sendall(HEAD + b'content-length: 1000\r\n\r\n{"choices": [')


def babbles(connection: socket.socket, _closing: threading.Event) -> None:
    """Megabytes without an end."""
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while True:
        connection.sendall(chunk)


def ends_late(pause: float) -> Callable[[socket.socket, threading.Event], None]:
    """Writes a summary in three parts, with pauses in seconds between them."""

    def serve(connection: socket.socket, closing: threading.Event) -> None:
        body = json.dumps(summary().body).encode()
        connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body))
        for part in (body[:10], body[10:]):
            closing.wait(pause)
            connection.sendall(part)

    return serve
