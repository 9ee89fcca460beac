"""Which calls count as under way when a worker is killed: sent, and their answer not read."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest

from compactor.cli.chaos.calls_under_way import under_way
from compactor.testing import Answer, ModelServer
from tests.acceptance.waiting import wait_until

BODY = b'{"messages": []}'


def sent(model: ModelServer) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=5)
    connection.request("POST", "/v1/chat/completions", BODY, {"content-type": "application/json"})
    return connection


def port(connection: HTTPConnection) -> int:
    assert isinstance(connection.sock, socket.socket)
    return int(connection.sock.getsockname()[1])


def test_a_call_is_under_way_while_the_model_answers_it() -> None:
    with ModelServer(lambda _body: Answer({}, delay=5.0)) as model:
        asking = sent(model)
        wait_until(lambda: model.in_flight == 1)
        assert under_way(model) == {port(asking)}
        asking.close()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="this system does not tell what its sockets hold")
def test_a_call_is_under_way_until_its_answer_is_read() -> None:
    with ModelServer() as model:
        asking = sent(model)
        wait_until(lambda: len(model.requests) == 1 and model.in_flight == 0)
        wait_until(lambda: under_way(model) == frozenset((port(asking),)))
        asking.getresponse().read()
        assert under_way(model) == frozenset()
        asking.close()
