"""What counting hostile texts costs, for each character, next to the prose of Python's manual."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from pydoc_data.topics import topics
from typing import Final

from compactor.cli.bench_ground import Ground
from compactor.cli.bench_ratio import Ratio, at_most, timed
from compactor.tokens import count_text

_SIZE: Final = 200_000  # characters


def hostile_texts(ground: Ground) -> list[Ratio]:
    """The cost of each kind of text for a character, over that of prose."""
    prose = "\n".join(topics.values())[:_SIZE]

    def cost(text: str) -> float:
        return timed(lambda: count_text(text, ground.encode)) / len(text)

    cost(prose)
    rounds = max(3, ground.rounds // 12)
    return [
        at_most(f"counting {name} / prose, for each character", [(cost(text), cost(prose)) for _ in range(rounds)], 5.0)
        for name, text in _texts().items()
    ]


def _texts() -> Mapping[str, str]:
    drawn = random.Random(1)  # noqa: S311 # why: the same texts in every run, no secret
    return {
        "1M spaces": " " * 1_000_000,
        "a run of CJK": "".join(chr(drawn.randrange(0x4E00, 0x9FA5)) for _ in range(_SIZE)),
        "base64": base64.b64encode(drawn.randbytes(_SIZE * 3 // 4)).decode(),
        "emoji": "".join(drawn.choice("😀😃🚀🧪🇩🇪👩‍🔬") for _ in range(_SIZE)),
        "one letter": "a" * _SIZE,
    }
