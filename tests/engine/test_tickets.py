"""What a launch returns: facts in the order of a batch's works, however they came about."""

from engine.stages.tickets import FinishedTicket, JoinedTicket, SplicedTicket, event_of
from engine.work import Outcome

SPEECH, ENDS = Outcome(), Outcome(end_of_speech=True)
PCM = [Outcome(pcm=bytes([number])) for number in range(3)]


class Given:
    """A ticket of something that a device was given."""

    def __init__(self, event: object, *outcomes: Outcome) -> None:
        self.event = event
        self._outcomes = outcomes

    def done(self) -> bool:
        return False

    def wait(self, timeout: float) -> None:
        """Nothing to wait for."""

    def outcomes(self) -> tuple[Outcome, ...]:
        return self._outcomes


def test_works_that_were_not_launched_have_the_outcome_known_before() -> None:
    ticket = SplicedTicket(Given("event", PCM[0], PCM[1]), [False, True, False, True], ENDS)

    assert ticket.outcomes() == [ENDS, PCM[0], ENDS, PCM[1]]
    assert not ticket.done()
    assert event_of(ticket) == "event"


def test_nothing_launched_is_over_at_once() -> None:
    ticket = SplicedTicket(FinishedTicket([]), [False, False], ENDS)

    assert ticket.done()
    assert ticket.outcomes() == [ENDS, ENDS]
    assert event_of(ticket) is None


def test_several_launches_are_over_with_the_last_that_the_device_was_given() -> None:
    failed = FinishedTicket([SPEECH])
    ticket = JoinedTicket([Given("first", PCM[0]), Given("second", PCM[1]), failed])

    assert event_of(ticket) == "second"
    assert ticket.outcomes() == [PCM[0], PCM[1], SPEECH]
    assert event_of(JoinedTicket([failed])) is None
