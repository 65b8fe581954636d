"""The judge: a player that knows when sound was there, and networks that keep order."""

from random import Random

import pytest

from engine.simulation.listeners import Listener, Player, Population
from engine.simulation.network import NETWORKS, Link, Network


def playing(*chunks: tuple[float, float], start_buffer: float = 0.0) -> Player:
    """A player that received `(moment, seconds)`."""
    player = Player(start_buffer)
    for moment, length in chunks:
        player.receive(length, moment)
    return player


def test_sound_on_time_is_no_stall() -> None:
    player = playing((1.0, 0.5), (1.5, 0.5))

    assert player.stalls == 0
    assert player.rendered(1.75) == pytest.approx(0.75)


def test_late_sound_is_silence_of_that_length() -> None:
    player = playing((1.0, 0.5), (1.7, 0.5))

    assert player.stalls == 1
    assert player.silence == pytest.approx(0.2)
    assert player.rendered(1.9) == pytest.approx(0.7)


def test_playback_waits_for_the_start_buffer() -> None:
    player = playing((1.0, 0.08), start_buffer=0.12)
    assert player.state(1.05) == "waiting"

    player.receive(0.08, 1.1)

    assert player.state(1.1) == "playing"
    assert player.dry_at == pytest.approx(1.26)


def test_reply_shorter_than_the_start_buffer_is_heard() -> None:
    player = playing((1.0, 0.08), start_buffer=0.12)

    player.finish(1.05)

    assert player.rendered(2.0) == pytest.approx(0.08)
    assert player.state(2.0) == "ended"


def test_nothing_stalls_while_paused() -> None:
    player = playing((0.0, 0.5))
    player.pause(0.2)

    player.receive(0.5, 5.0)
    player.resume(6.0)

    assert player.stalls == 0
    assert player.rendered(6.1) == pytest.approx(0.3)
    assert player.dry_at == pytest.approx(6.8)


def test_interrupted_listener_hears_nothing_more() -> None:
    player = playing((0.0, 1.0))

    player.stop(0.4)
    player.receive(1.0, 0.5)

    assert player.rendered(9.0) == pytest.approx(0.4)


def test_dry_player_has_stalled_unless_all_was_received() -> None:
    player = playing((0.0, 0.5))
    assert player.state(0.6) == "stalled"

    player.finish(0.6)

    assert player.state(0.6) == "ended"


@pytest.mark.parametrize("name", list(NETWORKS))
def test_networks_keep_order_and_are_never_faster_than_light(name: str) -> None:
    link = Link(NETWORKS[name], Random(4))
    sent = [number * 0.01 for number in range(2000)]

    arrived = [link.arrives(moment) for moment in sent]

    assert arrived == sorted(arrived)
    assert all(a >= s + NETWORKS[name].delay for a, s in zip(arrived, sent, strict=True))


def test_stall_holds_everything_up() -> None:
    link = Link(Network(stalls=1.0, stall=1.0), Random(4))

    held = max(link.arrives(number * 0.01) - number * 0.01 for number in range(2000))

    assert held > 0.5


def test_population_has_the_shares_it_names() -> None:
    population = Population(pauses=0.1, barges_in=0.25, greedy=0.1, silent=0.2)

    drawn = [population.draw(Random(number)) for number in range(4000)]

    def share(wanted: object) -> float:
        return sum(1 for each in drawn if wanted(each)) / len(drawn)  # type: ignore[operator]

    assert share(lambda each: each.pause_after is not None) == pytest.approx(0.1, abs=0.02)
    assert share(lambda each: each.barge_in_after is not None) == pytest.approx(0.25, abs=0.02)
    assert share(lambda each: each.reports == "greedy") == pytest.approx(0.1, abs=0.02)
    assert share(lambda each: each.reports == "none") == pytest.approx(0.2, abs=0.02)


def test_listener_without_reports_promises_none() -> None:
    assert Listener().acks
    assert not Listener(reports="none").acks
