"""Learning what a provider counts: from the usage of its replies, and from its refusals."""

from __future__ import annotations

from collections.abc import Callable

from compactor.commands.anchor import keep_anchor
from compactor.correction import Anchor, billed_tokens, overflowed, read_anchor, reported, written
from compactor.effects import Flow, run
from compactor.exceptions import ConfigurationError, StoreUnavailableError
from compactor.provider_errors import read_overflow
from compactor.reader import SessionReader

_ATTEMPTS = 4  # at an anchor that other processes move meanwhile


class Correcting:
    """What one session learns of its model; each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def report_usage(self, sent: int, usage: object) -> Flow[bool]:
        """Learns what a list of `sent` tokens, as we count, was billed as; False for a usage not to be believed.

        A bill over the configured window is the sum of several calls, as agent frameworks hand out.
        """
        billed = billed_tokens(usage)
        if billed > self._reader.config.limit or reported(None, sent, billed) is None:
            return False
        return (yield from self._learn(lambda anchor: reported(anchor, sent, billed)))

    def report_overflow(self, sent: int, error: object) -> Flow[bool]:
        """Learns from the refusal of a list of `sent` tokens, as we count: the window and the size that it names.

        One that names neither tells that the list was over the window.

        Raises `error` again when it is none, and ConfigurationError when that cannot be raised.
        """
        overflow = read_overflow(error)
        if overflow is None:
            if isinstance(error, BaseException):
                raise error
            raise ConfigurationError(
                "report_overflow: expected the error of a model call that refused a prompt as too long, as an "
                "exception, a JSON body or its text."
            )

        believed, window = self._reader.correction, self._reader.config.limit

        def learned(anchor: Anchor | None) -> Anchor:
            return overflowed(
                anchor,
                sent,
                expected=believed.expected(sent),
                limit=min(believed.limit or window, window),
                named=overflow.size,
                window=overflow.window,
            )

        return (yield from self._learn(learned))

    def _learn(self, change: Callable[[Anchor | None], Anchor | None]) -> Flow[bool]:
        """Stores the changed anchor; without Redis this process alone has learned it. False: nothing was."""
        reader = self._reader
        for _ in range(_ATTEMPTS):
            known = reader.around.anchors.get((reader.session, reader.model), "")
            anchor = change(read_anchor(known))
            if anchor is None:
                return False
            new = written(anchor)
            try:
                stands = yield from run(keep_anchor(reader.keys, model=reader.model, known=known, anchor=new))
            except StoreUnavailableError:
                reader.learn(new)
                return True
            reader.learn(stands or "")
            if stands is None or stands == new:
                return stands == new
        return False
