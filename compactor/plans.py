"""What a plan is: a snapshot, the replacements chosen for it, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compactor.condense import Condensed, Form
from compactor.folds import Fold
from compactor.formats.openai import Call
from compactor.history import History
from compactor.models import Code, Message
from compactor.rules import FREE, STANDARD, Rules, Treatment

HEADER_TOKENS: Final = 50  # allowance for the header of a replacement
POINTER_TOKENS: Final = 60
SUPERSEDED_TOKENS: Final = 120  # a pointer, and the line that tells of a failure
FORM_TOKENS: Final = 35  # allowance for the sentence that says how to read a condensed text


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A history as one plan sees it; `total` is what a send counts now, fixed part included.

    `rules` say what may be done with which results, `phrases` must survive in whatever replaces one.
    `originals` holds, by position, what stood in the place of replaced messages, if it was read.
    """

    messages: Sequence[Message]
    total: int
    rules: Rules = STANDARD
    phrases: tuple[str, ...] = ()
    originals: Mapping[int, Message] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One planned replacement: a pointer to a newer result, a condensed text, a fold, or else a summary.

    `repeat_of` is the position of the same answer to the same call, `superseded_by` that of another
    answer to it, `recall_of` that of the original which the result shows again. `elided` of a message
    with calls: tokens that eliding its arguments is expected to free. Of a fold, `message` is the result
    that will carry it. `renews`: tokens of the provisional extract that stands in the place of `message`.
    """

    index: int
    message: Message
    call: Call
    repeat_of: int | None = None
    superseded_by: int | None = None
    recall_of: int | None = None
    condensed: Condensed | None = None
    elided: int = 0
    treatment: Treatment = FREE
    fold: Fold | None = None
    renews: int = 0

    @property
    def is_pointer(self) -> bool:
        return any(place is not None for place in (self.repeat_of, self.superseded_by, self.recall_of))

    @property
    def tokens(self) -> int:
        """What a send pays now for what this replaces."""
        return self.message.tokens if self.fold is None else self.fold.shown

    @property
    def told(self) -> int:
        """Tokens of the source: of a fold, those of its originals."""
        return self.message.tokens if self.fold is None else self.fold.told

    @property
    def indexes(self) -> frozenset[int]:
        """Every message that this replaces."""
        return frozenset([self.index]) if self.fold is None else self.fold.indexes

    @property
    def body_tokens(self) -> int:
        """What the body of a summary may cost: 15 % of the source, at least 60, at most 340."""
        if self.fold is not None:
            return self.fold.body_tokens
        return min(340, max(60, self.message.tokens * 15 // 100))

    @property
    def cost(self) -> int:
        """Tokens this item is expected to take."""
        if self.elided:
            return self.message.tokens - self.elided
        if self.repeat_of is not None or self.recall_of is not None:
            return POINTER_TOKENS
        if self.superseded_by is not None:
            return SUPERSEDED_TOKENS
        if self.condensed is not None:
            form = 0 if self.condensed.form is Form.JSON else FORM_TOKENS
            return int(self.message.tokens * self.condensed.part) + HEADER_TOKENS + form
        return self.body_tokens + HEADER_TOKENS

    @property
    def saving(self) -> int:
        """Tokens this item is expected to free."""
        return self.message.tokens - self.cost if self.fold is None else self.fold.saving


@dataclass(frozen=True, slots=True)
class Plan:
    """What to replace, oldest first; `need` is what must be freed to reach the target.

    `renewed` are provisional extracts that a model's summary replaces on the occasion.
    """

    items: tuple[Item, ...]
    need: int
    history: History

    last_position: int
    renewed: tuple[Item, ...] = ()

    @property
    def reaches(self) -> bool:
        """Whether it is expected to reach the target."""
        return sum(item.saving for item in self.items) >= self.need


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why there is no plan."""

    code: Code
    reason: str = ""
