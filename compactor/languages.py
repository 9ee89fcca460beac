"""Whether a summary is in its source's language, and about it at all; by words and scripts alone."""

from __future__ import annotations

import re
from typing import Final

from compactor.wording import CHINESE, wording_for

_CJK: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_WORD: Final = re.compile(r"[A-Za-z]{2,}")
_FOREIGN_WORDS: Final = 4  # different ones that a source in Chinese lacks: a sentence has as many
_CJK_TO_WORDS: Final = 0.5  # characters a foreign word; fewer are names in a sentence of another language

_TERM: Final = re.compile(r"[a-z]{4,}|[0-9]{3,}|[\u3400-\u9fff\uf900-\ufaff]{2}")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？\n])")
_STEM: Final = 5  # letters that two forms of a word share
_RELATED: Final = 0.2  # of a text's terms are its source's, else it is about something else
# Words of any reply, as `_terms` cuts them: that they stand in the source, too, says nothing.
_FILLER: Final = frozenset({
    "about", "also", "answe", "been", "could", "doe", "done", "from", "have", "help", "here", "into", "know", "need",
    "note", "outpu", "pleas", "provi", "quest", "resul", "retur", "said", "show", "shown", "sure", "text", "than",
    "that", "their", "them", "then", "there", "these", "they", "thi", "those", "tool", "were", "what", "when",
    "where", "which", "while", "will", "with", "would", "your",
})  # fmt: skip


def is_another_language(text: str, source: str) -> bool:
    """Whether a text about a source in Chinese holds next to no Chinese, or the reverse."""
    if wording_for(source) is CHINESE:
        known = set(map(str.lower, _WORD.findall(source)))
        foreign = len(set(map(str.lower, _WORD.findall(text))) - known)
        return foreign >= _FOREIGN_WORDS and len(_CJK.findall(text)) < _CJK_TO_WORDS * foreign
    return wording_for(text) is CHINESE and not _CJK.search(source)


def is_about(text: str, source: str) -> bool:
    """Whether a text shares words, numbers or Chinese characters with its source, beyond those of any reply.

    The questions of the source do not count: who answers one repeats its words.
    """
    terms = _terms(text)
    told = "".join(part for part in _SENTENCE_END.split(source) if not part.rstrip().endswith(("?", "？")))
    return bool(terms) and len(terms & _terms(told)) >= _RELATED * len(terms)


def _terms(text: str) -> set[str]:
    """Beginnings of longer words, long numbers, and pairs of Chinese characters from both starting points."""
    lower = text.lower()
    found = {term.rstrip("s")[:_STEM] for term in _TERM.findall(lower)}
    found.update(_TERM.findall(re.sub(r"(?<![\u3400-\u9fff\uf900-\ufaff])[\u3400-\u9fff\uf900-\ufaff]", " ", lower)))
    return {term for term in found if term not in _FILLER}
