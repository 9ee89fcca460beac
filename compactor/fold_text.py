"""What a fold is made from, and what stands in its messages beside the summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from compactor.folded import skeleton
from compactor.folds import Fold
from compactor.formats.openai import calls, media_of, text_of, with_text
from compactor.models import Kind, Replacement, recall_id, run_id
from compactor.plans import Snapshot
from compactor.tokens import Encode, count_message, count_text
from compactor.wording import Wording, tool_name, wording_beside, wording_for

_SHOWN_TOOLS: Final = 6
_LEAD: Final = 80  # characters of arguments that a call's line shows at most
_SKIPPED: Final = re.compile(r"…+ \d+ \w+ …+")  # says how many lines an extract left out
_CALLS_SHARE: Final = 0.4  # of the room for a text at most lists the calls


class FoldText:
    """One planned fold with the messages of its steps as they were pushed."""

    def __init__(self, fold: Fold, snapshot: Snapshot) -> None:
        self._fold, self._messages = fold, snapshot.messages
        known = snapshot.originals or {}
        self._originals: dict[int, Mapping[str, Any]] = {
            index: (known.get(message.position, message) if message.replaced else message).value
            for step in fold.steps
            for index in step.indexes
            for message in (snapshot.messages[index],)
        }

    def _text(self, index: int) -> str:
        """What a message held; of an older fold the lines that it told, without its header."""
        text = text_of(self._originals[index])
        if self._messages[index].kind is not Kind.FOLD:
            return text
        return "\n".join(line for line in text.split("\n")[1:] if not _SKIPPED.fullmatch(line))

    def whole(self) -> str:
        """The steps as one text: what the assistant wrote, each call with its arguments, and what came back."""
        parts: list[str] = []
        for step in self._fold.steps:
            parts.append(text_of(self._originals[step.start]))
            # Of arguments that were elided since, the originals too.
            for call, result in zip(calls(self._originals[step.start]), step.results, strict=True):
                parts.append(f"{tool_name(call.name)}({call.arguments})")
                parts.append("" if result is None else text_of(self._originals[result]))
        return "\n".join(part for part in parts if part.strip())

    def results(self) -> str:
        """What the calls gave, and what the assistant wrote between them; the text of the first step stays as it is."""
        texts = (self._text(index) for index in sorted(self._fold.indexes))
        return "\n".join(text for text in texts if text.strip())

    def tools(self) -> str:
        """The tools that were called, the first ones by name."""
        tools = Counter(tool_name(call.name) for step in self._fold.steps for call in step.calls)
        names = [f"{name} x{count}" if count > 1 else name for name, count in list(tools.items())[:_SHOWN_TOOLS]]
        return ", ".join(names + (["…"] if len(tools) > _SHOWN_TOOLS else []))

    @property
    def media(self) -> int:
        """How many images and files the messages held."""
        return sum(media_of(self._originals[index]) for index in self._fold.indexes)

    def header(self, words: Wording) -> str:
        """How many steps of which tools these were, how large, and where the originals are."""
        first, last = min(self._fold.indexes), max(self._fold.indexes)
        return words.fold.format(
            steps=len(self._fold.steps),
            tools=self.tools(),
            before=self._fold.told,
            ids=run_id(self._messages[first].position, self._messages[last].position),
        )

    def calls(self, clean: Callable[[str], str], *, room: int, encode: Encode) -> str:
        """A line for each call but the first step's, with what fits a share of `room` tokens of its arguments.

        Those of older folds are among what these tell.
        """
        steps = [step for step in self._fold.steps[1:] if not self._messages[step.start].folded]
        asked = [(tool_name(call.name), clean(call.arguments)) for step in steps for call in step.calls]
        for lead in (_LEAD, _LEAD // 2, _LEAD // 4):
            lines = [f"- {name} {_beginning(arguments, lead)}".rstrip() for name, arguments in asked]
            text = "\n".join(lines)
            if count_text(text, encode) <= _CALLS_SHARE * room:
                return text
        return ""

    def rest(self, encode: Encode) -> list[Replacement]:
        """The replacements beside the holder: notes in the results of its step, skeletons of all other steps."""
        replacements: list[Replacement] = []
        holder = recall_id(self._messages[self._fold.holder].position)
        chat = wording_for(next((text_of(m.value) for m in self._messages if m.role == "user"), ""))
        for index in self._fold.notes:
            message = self._messages[index]
            words = wording_beside(text_of(self._originals[index]), chat)
            note = words.fold_note.format(other=holder, id=recall_id(message.position))
            value = with_text(message.value, note)
            after = count_message(value, encode)
            replacements.append(Replacement(message.position, value, Kind.FOLD, message.tokens, after))
        for index in self._fold.hidden:
            message = self._messages[index]
            bare = skeleton(message.value)
            replacements.append(Replacement(message.position, bare, Kind.FOLDED, message.tokens, 0))
        return replacements


def _beginning(text: str, chars: int) -> str:
    line = " ".join(text.split())
    line = line[1:-1].strip() if line.startswith("{") and line.endswith("}") else line
    return line if len(line) <= chars else f"{line[:chars].rstrip()}…"
