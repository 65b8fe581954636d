"""Work in order: what an earlier look found is void, and does not pile up."""

from math import inf

from engine.agenda import SWEEP_AT, Agenda
from engine.utterance import Utterance
from engine.work import ONE_STREAM, Stage, Work
from tests.engine.speaking import segment, utterance


def speaking(slot: int) -> Utterance:
    return utterance(segment(), slot=slot)


def chunk(each: Utterance, start: float = 1.0) -> Work:
    return Work(each, Stage.CODEC, 1, start)


def test_only_what_the_last_look_found_counts() -> None:
    agenda, each = Agenda(ONE_STREAM), speaking(0)
    agenda.add(agenda.gathering, 1.0, chunk(each), agenda.outdate(0))

    agenda.add(agenda.gathering, 2.0, chunk(each), agenda.outdate(0))

    entry = agenda.first(agenda.gathering)
    assert entry and entry[0] == 2.0
    agenda.outdate(0)
    assert agenda.first(agenda.gathering) is None


def test_ties_are_broken_by_slot() -> None:
    agenda = Agenda(ONE_STREAM)
    for slot in (2, 0, 1):
        agenda.add(agenda.gathering, 1.0, chunk(speaking(slot)), agenda.outdate(slot))

    entry = agenda.first(agenda.gathering)

    assert entry and entry[1] == 0


def test_whose_time_has_come_is_taken_out_once() -> None:
    agenda, early, late = Agenda(ONE_STREAM), speaking(0), speaking(1)
    agenda.remind(early, 1.0, agenda.outdate(0))
    agenda.remind(late, 2.0, agenda.outdate(1))

    assert agenda.wake_at() == 1.0
    assert list(agenda.due(1.5)) == [early]
    assert not list(agenda.due(1.5))
    agenda.outdate(1)
    assert agenda.wake_at() == inf


def test_what_is_void_does_not_pile_up() -> None:
    agenda, each = Agenda(ONE_STREAM), speaking(0)

    for number in range(10 * SWEEP_AT):
        look = agenda.outdate(0)
        agenda.add(agenda.gathering, 2000.0 - number, chunk(each), look)
        agenda.remind(each, 100.0 + number, look)

    assert len(agenda.gathering) <= SWEEP_AT + 2
    assert len(agenda._timers) <= SWEEP_AT + 2
    assert agenda.wake_at() == 100.0 + number


def test_a_chunk_that_gathers_is_looked_at_when_it_is_due() -> None:
    agenda, early, late = Agenda(ONE_STREAM), speaking(0), speaking(1)
    agenda.add(agenda.gathering, 1.0, chunk(early), agenda.outdate(0))
    agenda.remind(late, 2.0, agenda.outdate(1))

    assert agenda.wake_at() == 1.0
    assert list(agenda.due(1.5)) == [early]
    assert agenda.wake_at() == 2.0
