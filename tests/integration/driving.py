"""Drives a flow of commands on a real store."""

from __future__ import annotations

from typing import TypeVar

from compactor.effects import Flow, Run
from tests.integration.clients import StoreClient

T = TypeVar("T")


def answered(flow: Flow[T], store: StoreClient) -> T:
    """Runs a flow of commands to its answer; errors of a command are raised inside it."""
    try:
        effect = next(flow)
        while True:
            assert isinstance(effect, Run)
            try:
                answer = store.run(effect.command)
            except Exception as error:  # noqa: BLE001 # why: the flow decides what an error means
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value
