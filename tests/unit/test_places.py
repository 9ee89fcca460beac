"""The worker's sweeps of places: no error ends them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from compactor.exceptions import StoreUnavailableError
from compactor.settings import read_settings
from workers import places


class Ended(BaseException):
    """Ends the endless sweeps of the test."""


def test_a_sweep_that_fails_is_said_and_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[BaseException] = [StoreUnavailableError("away"), ValueError("garbled"), Ended()]

    class Publisher:
        def drive(self, flow: Any) -> None:
            flow.close()
            raise ends.pop(0)

    monkeypatch.setattr(places, "publisher", Publisher)
    monkeypatch.setattr(places, "SWEEP_EVERY", 0.001)
    with caplog.at_level(logging.WARNING, "compactor"), pytest.raises(Ended):
        places.sweep_for_ever(read_settings())
    assert caplog.messages == ["places: not swept (StoreUnavailableError)", "places: not swept (ValueError)"]
