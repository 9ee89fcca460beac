"""Sessions and queue over TLS, with a certificate of one's own authority; another's is refused and said so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor import ConfigurationError, StoreUnavailableError
from compactor.cli.broker import Broker
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from tests.integration.clients import Connect
from tests.integration.conversations import ROOMY, SMALL, conversation, user
from tests.tls import EncryptedPort, write_certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def port(server: EmbeddedServer, authority: tuple[Path, Path]) -> Iterator[EncryptedPort]:
    with EncryptedPort(server.port, authority[1]) as listening:
        yield listening


def test_sessions_and_queue_work_encrypted(
    connect: Connect, settings: Settings, port: EncryptedPort, authority: tuple[Path, Path]
) -> None:
    url = f"rediss://127.0.0.1:{port.port}/0?ssl_ca_certs={authority[0]}"
    encrypted = read_settings(redis_url=url, namespace=settings.namespace)
    session = connect(encrypted).session("t/1", SMALL)
    session.push(conversation(9))
    assert session.prepare().verdict.compaction == "queued"
    assert session.originals() == conversation(9)
    seen = port.connections
    broker = Broker(encrypted)
    assert broker.queue_length() == 1
    broker.close()
    assert port.connections > seen > 1


def test_a_certificate_of_nobody_known_is_said(connect: Connect, port: EncryptedPort) -> None:
    session = connect(read_settings(redis_url=f"rediss://127.0.0.1:{port.port}/0")).session("t/1", ROOMY)
    with pytest.raises(StoreUnavailableError, match="ssl_ca_certs"):
        session.push(user("hello"))


@pytest.mark.parametrize("url", ["rediss://h/0", "rediss+cluster://h", "rediss+sentinel://h/s"])
def test_a_file_of_certificates_that_is_not_there_is_said_at_once(connect: Connect, url: str) -> None:
    with pytest.raises(ConfigurationError, match="ssl_ca_certs names a file that is not there"):
        connect(read_settings(redis_url=f"{url}?ssl_ca_certs=/nowhere/ca.pem", broker_url="redis://h/0"))
