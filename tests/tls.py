"""An authority of one test, and a server before a Redis that ends TLS with a certificate of it."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import select
import socket
import ssl
import threading
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_certificates(folder: Path) -> tuple[Path, Path]:
    """An authority's certificate, and a chain with key for 127.0.0.1 that it signed."""
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
    root = _unsigned(issuer, issuer, authority).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    usage = x509.KeyUsage(*(name in (5, 6) for name in range(9)))  # signs certificates and lists of revoked ones
    root = root.add_extension(usage, critical=True)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = _unsigned(subject, issuer, server).add_extension(address, critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    leaf = leaf.add_extension(signer, critical=False)
    root = root.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
    pem = serialization.Encoding.PEM
    told, kept = folder / "ca.pem", folder / "server.pem"
    told.write_bytes(root.sign(authority, hashes.SHA256()).public_bytes(pem))
    key = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    kept.write_bytes(leaf.sign(authority, hashes.SHA256()).public_bytes(pem) + key)
    return told, kept


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    return x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), now - day, now + day)


class EncryptedPort:
    """Takes TLS connections on a port of its own, and hands on what they hold to the server on `target`."""

    def __init__(self, target: int, certificate: Path) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.connections = 0
        self._is_open = True
        self._threads = [threading.Thread(target=self._accept)]

    def _accept(self) -> None:
        while True:
            taken, _ = self._listener.accept()
            if not self._is_open:
                taken.close()
                return
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=(taken,)))
            self._threads[-1].start()

    def _serve(self, taken: socket.socket) -> None:
        with contextlib.suppress(OSError), taken:  # a refused certificate ends the handshake, a client its connection
            taken.settimeout(10)
            with (
                self._context.wrap_socket(taken, server_side=True) as outer,
                socket.create_connection(("127.0.0.1", self._target)) as inner,
            ):
                while self._is_open and _handed_on(outer, inner):
                    pass

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        socket.create_connection(("127.0.0.1", self.port)).close()  # ends the wait for the next one
        for thread in self._threads:
            thread.join(10)
        self._listener.close()


def _handed_on(outer: ssl.SSLSocket, inner: socket.socket) -> bool:
    """Hands on what came from either side; False at an end. One thread for both, as OpenSSL wants it."""
    ready = [outer] if outer.pending() else select.select([outer, inner], [], [], 0.1)[0]
    for source in ready:
        data = source.recv(65_536)
        if not data:
            return False
        (inner if source is outer else outer).sendall(data)
    return True
