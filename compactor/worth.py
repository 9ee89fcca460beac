"""What each sort of value is worth: the weights follow how often recorded agents used values of a sort later on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Sort(IntEnum):
    """What a value is, as far as its worth depends on it."""

    URL = 0
    EMAIL = 1
    PATH = 2
    FILE = 3
    DAY = 4
    TIME = 5
    MONEY = 6
    NUMBER = 7  # three to five digits
    LARGE = 8  # six digits and more
    DECIMAL = 9  # at most two digits of a fraction
    PRECISE = 10
    CODE = 11
    NAME = 12
    FAULT = 13
    WORD = 14  # the whole of a value in JSON
    PHRASE = 15
    LINE = 16  # the number of a line, where a file is shown with them
    ROUND_LINE = 17  # a tenth one: where agents begin and end when they ask for a part


# What a summary may not lose: what cannot be had again without asking the tool.
PROTECTED: Final = frozenset({Sort.URL, Sort.EMAIL, Sort.PATH, Sort.DAY, Sort.MONEY, Sort.CODE, Sort.FAULT})

Weights = Mapping[int, tuple[float, float, float]]  # of a value that occurs once, twice, more often

IN_JSON: Final[Weights] = {
    Sort.URL: (1, 1, 1), Sort.EMAIL: (1, 1, 1), Sort.PATH: (6, 6, 6), Sort.FILE: (3, 3, 3),
    Sort.DAY: (1.2, 2.5, 1.5), Sort.TIME: (0.8, 0.8, 1.5), Sort.MONEY: (2, 2, 2), Sort.NUMBER: (2, 2.5, 2),
    Sort.LARGE: (2, 3.5, 3), Sort.DECIMAL: (1.7, 1.7, 1.7), Sort.PRECISE: (0.3, 0.3, 0.3), Sort.CODE: (3, 4, 5),
    Sort.NAME: (3, 4, 3.5), Sort.FAULT: (3, 3, 3), Sort.WORD: (1.5, 0.5, 1.2), Sort.PHRASE: (2.8, 1.7, 2.4),
    Sort.LINE: (0.1, 0.1, 0.1), Sort.ROUND_LINE: (0.2, 0.2, 0.2),
}  # fmt: skip
IN_TEXT: Final[Weights] = {
    Sort.URL: (0.3, 2, 4), Sort.EMAIL: (0.3, 0.3, 0.3), Sort.PATH: (0.4, 0.8, 0.8), Sort.FILE: (0.1, 0.2, 0.2),
    Sort.DAY: (0.3, 0.3, 0.3), Sort.TIME: (0.3, 0.3, 0.3), Sort.MONEY: (1, 1, 1), Sort.NUMBER: (0.7, 1.4, 1.2),
    Sort.LARGE: (0.2, 0.8, 0.6), Sort.DECIMAL: (1.2, 1.2, 1.2), Sort.PRECISE: (0.2, 0.2, 0.2),
    Sort.CODE: (0.3, 0.9, 1.3), Sort.NAME: (0.6, 1, 1.5), Sort.FAULT: (1.3, 1.3, 1.3), Sort.WORD: (1, 1, 1),
    Sort.PHRASE: (1, 1, 1), Sort.LINE: (0.15, 0.15, 0.15), Sort.ROUND_LINE: (0.3, 0.3, 0.3),
}  # fmt: skip
_WANTED: Final = re.compile(r"(?i)(?:name|title|price|total|amount|balance|id)")
_SELDOM: Final = re.compile(
    r"(?i)address|street|zip|postal|city|country|^state$|province|phone|birth|^dob$|created|updated|modified"
)


def key_factor(key: str) -> float:
    """How much more a value under a JSON key is worth; parts of a postal address, say, are seldom asked for."""
    if _WANTED.fullmatch(key):
        return 1.75
    return 0.3 if _SELDOM.search(key) else 1.0
