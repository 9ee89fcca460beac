"""A bot of `compactor chaos` sees when its lists are wrong, and survives the death of its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compactor import Compactor, Session
from compactor.cli.chaos.board import Board
from compactor.cli.chaos.bot import Bot, Part, Place
from compactor.cli.chaos.journal import Entry, Fate, Journal, read_journal
from compactor.cli.chaos.seed import drawn
from compactor.settings import Settings
from tests.integration.conversations import ROOMY, assistant, user

NAME = "chaos/1"
PART = Part(
    bot=0, session=NAME, limit=8, strategy="balanced", alone=True, opens=True, chinese=False, reuses_ids=False
)  # fmt: skip
MakeBot = Callable[[], Bot]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def blocking(settings: Settings) -> Iterator[Compactor]:
    with Compactor(settings=settings) as memory:
        yield memory


@pytest.fixture
def outsider(blocking: Compactor) -> Session:
    """Somebody else who pushes to the bot's session."""
    return blocking.session(NAME, ROOMY)


@pytest.fixture
def bot(settings: Settings, path: Path, tmp_path: Path) -> Iterator[MakeBot]:
    """Makes the bot in its next life: a new client, and what its journal says."""
    with (
        Board(tmp_path / "board", 1) as board,
        Compactor(settings=settings) as memory,
        closing(Journal(path)) as journal,
    ):
        lives = iter(range(10))

        def make() -> Bot:
            life = next(lives)
            place = Place(memory, journal, board, 0, life)
            return Bot(PART, place, drawn("test", life), read_journal(path).entries)

        yield make


def faults(path: Path) -> list[str]:
    return [finding["fault"] for finding in read_journal(path).findings]


def talk(bot: Bot, steps: int = 12) -> None:
    for _ in range(steps):
        bot.step(may_push=True)


def test_a_bot_alone_finds_nothing(bot: MakeBot, path: Path) -> None:
    talk(bot(), 60)
    assert faults(path) == []
    assert {entry.fate for entry in read_journal(path).entries} == {Fate.STORED}


def test_a_message_of_somebody_else_is_noticed(bot: MakeBot, path: Path, outsider: Session) -> None:
    talker = bot()
    talk(talker)
    outsider.push(assistant("I am not yours."))
    talker.send()
    assert "duplicated" in faults(path)


def test_user_words_of_somebody_else_are_noticed(bot: MakeBot, path: Path, outsider: Session) -> None:
    talker = bot()
    talk(talker)
    outsider.push(user("I am not yours."))
    talker.send()
    assert "changed" in faults(path)


def test_a_missing_message_is_noticed(bot: MakeBot, path: Path, outsider: Session) -> None:
    talker = bot()
    talk(talker)
    outsider.clear()
    outsider.push(user("A new life."))
    talker.send()
    assert "lost" in faults(path)


@pytest.mark.parametrize(("key", "stored"), [(None, False), (None, True), ("name", False), ("name", True)])
def test_a_push_that_was_cut_by_a_kill_is_settled_in_the_next_life(
    key: str | None, stored: bool, bot: MakeBot, path: Path, outsider: Session
) -> None:
    talk(bot())
    cut = Entry(0, NAME, len(read_journal(path).entries), [user("[b0 999] cut")], key)
    with closing(Journal(path)) as journal:
        journal.tries(cut)
    if stored:
        outsider.push(cut.messages, idempotency_key=key)
    talk(bot(), 20)
    fates = {entry.number: entry.fate for entry in read_journal(path).entries}
    assert fates[cut.number] is (Fate.STORED if stored or key else Fate.ABSENT)
    assert outsider.originals().count(cut.messages[0]) == (1 if stored or key else 0)
    assert faults(path) == []


def test_a_line_torn_by_a_kill_is_left_out(bot: MakeBot, path: Path) -> None:
    talk(bot())
    whole = len(read_journal(path).entries)
    with path.open("ab") as file:
        file.write(b'{"b": 0, "s": "cha')
    talk(bot(), 1)
    assert len(read_journal(path).entries) >= whole
    with closing(Journal(path)) as journal:
        journal.tries(Entry(0, NAME, 99, [user("after")]))
    assert read_journal(path).entries[-1].number == 99


def test_while_pushes_are_held_back_a_bot_only_sends(bot: MakeBot, path: Path) -> None:
    talker = bot()
    talk(talker, 4)
    before = len(read_journal(path).entries)
    for _ in range(5):
        talker.step(may_push=False)
    assert len(read_journal(path).entries) == before
