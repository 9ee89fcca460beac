"""A tally that grew message by message says what a look at the whole list says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from compactor.formats.openai import leading_system
from compactor.models import Kind, Message
from compactor.tally import NOTHING, Tally
from compactor.view import settled
from tests.unit.chat import by_length, stored
from tests.unit.conversations import conversations

STOOD = (Kind.ORIGINAL, Kind.SUMMARY, Kind.FOLDED, Kind.LIMITED)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Conversations, some messages behind the leading system ones replaced, some told by a fold."""
    messages = stored(draw(conversations()), by_length)
    lead = leading_system(message.value for message in messages)
    kinds = draw(st.lists(st.sampled_from(STOOD), min_size=len(messages), max_size=len(messages)))
    # The first message of a run is never folded: it carries the fold.
    return [
        message if index < lead else replace(message, kind=Kind.FOLD if index == lead else kind)
        for index, (message, kind) in enumerate(zip(messages, kinds, strict=True))
    ]


@given(histories(), st.lists(st.integers(1, 9), max_size=9))
def test_it_grows_to_what_a_look_at_all_says(messages: list[Message], pieces: list[int]) -> None:
    tally, start = NOTHING, 0
    for size in [*pieces, len(messages)]:
        tally = tally.after(messages[start : start + size])
        start += size
    shown = [message for message in messages if not message.folded]
    lead = leading_system(message.value for message in messages)
    assert tally == Tally(
        length=len(messages),
        tokens=sum(message.tokens for message in messages),
        replaced=sum(message.replaced for message in messages),
        lead=lead,
        lead_tokens=sum(message.tokens for message in messages[:lead]),
        settled=settled(shown),
        reply=next((message for message in reversed(messages) if message.role == "assistant"), None),
        shown=tuple(message.value for message in shown),
    )


def test_what_is_shown_are_the_very_values_of_the_messages() -> None:
    messages = stored([{"role": "user", "content": "a"}], by_length)
    assert NOTHING.after(messages).shown[0] is messages[0].value
