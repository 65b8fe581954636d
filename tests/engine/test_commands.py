"""What the loop is told in one turn: read together, told apart."""

from engine.api import Append, Command, Event, Finish, Flush, Open, Status
from engine.config import EngineConfig
from engine.loop import STATUS_INTERVAL, EngineLoop
from engine.silent import SilentStages
from engine.text.feed import TextFeed
from tests.engine.speaking import NoTrim

TEXT = "Once there was a king."


class Reading(SilentStages):
    """Pretended stages that keep the pieces of text they read."""

    def __init__(self) -> None:
        super().__init__(slots=4, rows=4, clock=lambda: 0.0, sleep=lambda _: None)
        self.pieces: list[str] = []

    def text(self) -> TextFeed:
        return TextFeed(self._read, limit_seconds=12.0, normalise=False)

    def _read(self, text: str) -> list[int]:
        self.pieces.append(text)
        return [len(word) for word in text.split()]


def settled(*turns: list[Command]) -> tuple[list[str], list[Event]]:
    """Return the pieces of text that were read, and the events."""
    stages, events = Reading(), list[Event]()
    loop = EngineLoop(stages, EngineConfig(), emit=events.append, trim=NoTrim)
    for number, commands in enumerate(turns):
        loop.settle(commands, number * STATUS_INTERVAL)
    return stages.pieces, events


def test_text_that_comes_with_its_end_is_read_in_one_piece() -> None:
    pieces, _ = settled([Open("u", "tone"), Append("u", TEXT), Finish("u")])

    assert pieces == [TEXT]


def test_an_end_that_comes_later_finds_the_text_read() -> None:
    pieces, _ = settled([Open("u", "tone"), Append("u", TEXT)], [Finish("u")])

    assert len(pieces) == 2
    assert "".join(pieces) == TEXT


def test_text_of_two_in_one_turn_is_not_mixed_up() -> None:
    pieces, _ = settled(
        [
            Open("a", "tone"),
            Open("b", "tone"),
            Append("a", "One."),
            Append("b", "Two."),
            Finish("a"),
        ],
        [Flush("b")],
    )

    assert "".join(pieces) == "One.Two."


def test_everyone_who_asked_is_told_in_every_interval() -> None:
    first, second = (Open(name, "tone", status=True) for name in "ab")

    _, events = settled([first], [second], [], [])

    told = [each.utterance for each in events if isinstance(each, Status)]
    assert (told.count("a"), told.count("b")) == (4, 3)
