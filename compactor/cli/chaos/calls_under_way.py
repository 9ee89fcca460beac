"""Which calls to a model server are under way: its client has sent them and has not read the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compactor.testing import ModelServer

_CONNECTIONS: Final = Path("/proc/net/tcp")
_ESTABLISHED: Final = "01"


def under_way(model: ModelServer) -> frozenset[int]:
    """The client ports of the calls that stand in the sockets, and of those that the server is answering.

    Where the system does not tell what its sockets hold, only the latter.
    """
    return frozenset(model.answering.copy()) | _unread(model.port)


def _unread(port: int) -> frozenset[int]:
    """The client ports of connections to `port` with bytes that their reader has not taken yet."""
    if not _CONNECTIONS.exists():
        return frozenset()
    found: set[int] = set()
    for line in _CONNECTIONS.read_text().splitlines()[1:]:
        _, local, remote, state, queues, *_ = line.split()
        ends = _port(local), _port(remote)
        if port in ends and state == _ESTABLISHED and int(queues.partition(":")[2], 16):
            found.add(ends[1] if ends[0] == port else ends[0])
    return frozenset(found)


def _port(address: str) -> int:
    return int(address.partition(":")[2], 16)
