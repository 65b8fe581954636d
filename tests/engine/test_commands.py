"""What the loop is told in one turn: read together, told apart."""

import pytest

from engine.api import Append, Cancel, Command, Ended, Event, Finish, Flush, Open, Status
from engine.config import EngineConfig
from engine.flights import Flight
from engine.loop import STATUS_INTERVAL, EngineLoop
from engine.silent import SilentStages
from engine.text.feed import TextFeed
from tests.engine.speaking import NoTrim

TEXT = "Once there was a king."


class Reading(SilentStages):
    """Pretended stages that keep the pieces of text they read, by who began first."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots=slots, rows=4, clock=lambda: 0.0, sleep=lambda _: None)
        self.pieces: list[list[str]] = []

    def text(self) -> TextFeed:
        mine: list[str] = []
        self.pieces.append(mine)

        def read(text: str) -> list[int]:
            mine.append(text)
            return [len(word) for word in text.split()]

        return TextFeed(read, limit_seconds=12.0, normalise=False)


def settled(*turns: list[Command], slots: int = 4) -> tuple[list[list[str]], list[Event]]:
    """Return the pieces of text that were read of each utterance, and the events."""
    stages, events = Reading(slots), list[Event]()
    loop = EngineLoop(stages, EngineConfig(), emit=events.append, trim=NoTrim)
    for number, commands in enumerate(turns):
        loop.settle(commands, number * STATUS_INTERVAL)
    return stages.pieces, events


def test_text_that_comes_with_its_end_is_read_in_one_piece() -> None:
    pieces, _ = settled([Open("u", "tone"), Append("u", TEXT), Finish("u")])

    assert pieces == [[TEXT]]


def test_an_end_that_comes_later_finds_the_text_read() -> None:
    pieces, _ = settled([Open("u", "tone"), Append("u", TEXT)], [Finish("u")])

    assert len(pieces[0]) == 2
    assert "".join(pieces[0]) == TEXT


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

    assert ["".join(each) for each in pieces] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("commands", "read", "ends"),
    [
        ([Append("u", "One."), Cancel("u"), Append("u", "Two.")], [[]], ["cancelled"]),
        ([Cancel("u"), Open("u", "tone"), Append("u", "Two."), Finish("u")],
         [[], ["Two."]], ["cancelled"]),
        ([Append("u", "One."), Finish("u"), Append("u", "Two.")], [["One."]], []),
        ([Append("v", "Never opened."), Append("u", "One."), Finish("u")], [["One."]], []),
    ],
)  # fmt: skip
def test_what_comes_in_one_turn_is_obeyed_in_order(
    commands: list[Command], read: list[list[str]], ends: list[str]
) -> None:
    pieces, events = settled([Open("u", "tone"), *commands])

    assert pieces == read
    assert [each.reason for each in events if isinstance(each, Ended)] == ends


def test_text_of_one_who_waits_is_read_once_there_is_room() -> None:
    waiting: list[Command] = [Open("u", "tone"), Append("u", "One."), Finish("u")]

    pieces, _ = settled(
        [Open("first", "tone"), Append("first", "A."), *waiting], [Cancel("first")], slots=1
    )

    assert pieces[1:] == [["One."]]


def test_an_observer_hears_a_command_before_what_it_causes() -> None:
    heard: list[str] = []

    class Ear:
        def finished(self, flight: Flight, now: float) -> None:
            """No batch is launched here."""

        def command(self, command: Command, now: float) -> None:
            heard.append(type(command).__name__)

        def event(self, event: Event, now: float) -> None:
            heard.append(type(event).__name__)

    loop = EngineLoop(
        Reading(4), EngineConfig(), emit=lambda event: None, trim=NoTrim, observer=Ear()
    )
    loop.settle([Open("u", "tone"), Cancel("u"), Open("u", "tone")], 0.0)

    assert heard == ["Open", "Cancel", "Ended", "Open"]


def test_everyone_who_asked_is_told_in_every_interval() -> None:
    first, second = (Open(name, "tone", status=True) for name in "ab")

    _, events = settled([first], [second], [], [])

    told = [each.utterance for each in events if isinstance(each, Status)]
    assert (told.count("a"), told.count("b")) == (4, 3)
