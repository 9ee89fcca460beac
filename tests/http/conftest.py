"""A service for the tests of one file, and callers of two tenants."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from cryptography.fernet import Fernet

from compactor.embedded import EmbeddedServer
from compactor.settings import read_settings
from tests.http.service import Bot, Service, serving


@pytest.fixture(scope="module")
def service(server: EmbeddedServer) -> Iterator[Service]:
    """A service on the shared server, in a namespace of its own."""
    settings = read_settings(
        redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}", config_keys=Fernet.generate_key().decode()
    )
    with serving(settings) as running:
        yield running


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test uses."""
    return f"acme-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def bot(service: Service, tenant: str) -> Bot:
    """A caller whose key is the whole tenant's."""
    return service.bot(tenant)
