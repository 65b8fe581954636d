"""The player when things go wrong: bad packets, lost connections, busy pages, stopped clocks."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import until
from tests.web.browser import Player
from tests.web.fake_gateway import LIMIT, WHOLE, FakeGateway, Script
from tests.web.sounds import (
    PRE_SKIP,
    decoded,
    snr,
    steepest,
    tone,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_busy_page_stops_neither_sound_nor_acks(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=2.6, ladder=(50,))
    await player.open(gateway.url)

    status, blocked = await player.evaluate(
        """() => {
            said.u1 = voice.speak("Hello there");
            const known = events.length;
            const request = new XMLHttpRequest();
            request.open("GET", "/ended", false); // answered when all was heard
            request.send();
            return [request.status, events.length === known];
        }"""
    )

    played = [ack["played_ms"] for ack in gateway.received("ack")]
    assert (status, blocked) == (200, True)
    assert played[-1] == pytest.approx(2600, abs=0.2)
    assert len({ms for ms in played if 0 < ms < 2600}) >= 3
    assert (await player.finished("u1"))["reason"] == "complete"


@pytest.mark.parametrize("decoder", ["webcodecs", "wasm"])
@pytest.mark.parametrize("packet", [b"\xff\xff\xfe", b""], ids=["corrupt", "empty"])
async def test_a_bad_packet_is_20_ms_of_silence_and_nothing_moves(
    player: Player, gateway: FakeGateway, decoder: str, packet: bytes
) -> None:
    bad = 20
    gateway.script = Script(seconds=1.2, replaced={bad: packet})
    await player.open(gateway.url, decoder=decoder)
    await player.record()

    finished = await player.finished(await player.speak_stocked())
    frame, recording = await player.recording()

    player.errors.clear()  # libopus reports the packet on the console
    start = (await player.wait_event("play", event="start"))["frame"] - frame
    spoken = gateway.spoken["u1"]
    reference = decoded(spoken.packets, spoken.ticks)
    sound = recording[start : start + len(reference)]
    before, after = bad * 960 - PRE_SKIP, (bad + 1) * 960 - PRE_SKIP
    assert finished["dropped_ms"] == 20
    assert finished["rendered_ms"] == pytest.approx(spoken.ticks / 48, abs=0.1)
    assert snr(sound[:before], reference[:before]) > 80
    assert not sound[before + 240 : after].any()
    assert (
        snr(sound[after + 9600 :], reference[after + 9600 :]) > 30
    )  # the codec recovers in 200 ms
    assert steepest(sound) < 3 * steepest(reference)


async def test_a_cut_connection_plays_what_arrived_and_comes_back(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=3.0, cut_after=2)
    await player.open(gateway.url)

    first = await player.speak()
    await player.wait_event("state", state="reconnecting")
    gateway.script = Script(seconds=0.4)
    again = await player.finished(await player.speak())
    finished = await player.finished(first)

    assert finished["reason"] == "connection_lost"
    assert gateway.spoken["u1"].n == gateway.spoken["u2"].n  # numbers begin anew
    assert again["heard_ms"] == pytest.approx(400, abs=0.2)
    received = pytest.approx((28 * 960 - PRE_SKIP) / 48, abs=0.1)
    assert finished["heard_ms"] == finished["received_ms"] == received
    assert again["reason"] == "complete"
    states = [event["state"] for event in await player.events("state")]
    assert states == ["connecting", "connected", "reconnecting", "connecting", "connected"]


async def test_a_failed_utterance_plays_what_arrived_and_the_session_lives(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=3.0, fail_after=1)
    await player.open(gateway.url)

    finished = await player.finished(await player.speak())

    assert (finished["reason"], finished["code"]) == ("failed", "generation_failed")
    received = pytest.approx((12 * 960 - PRE_SKIP) / 48, abs=0.1)
    assert finished["heard_ms"] == finished["received_ms"] == received
    gateway.script = Script(seconds=0.4)
    assert (await player.finished(await player.speak()))["reason"] == "complete"


async def test_a_minute_at_once_is_decoded_no_more_than_4_s_ahead(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=60.0, rate=0.0, first=0.0)
    await player.open(gateway.url)
    await player.speak()
    await player.wait_event("done", id="u1")
    await player.holds("events.some(({ decoded_ms: decoded }) => decoded > 2000)")
    await player.passes(0.5)

    (result,) = await player.interrupt(after_ms=500)
    reports = await player.events("report")

    assert result["received_ms"] == 60_000
    assert 2000 < max(report["decoded_ms"] for report in reports) <= 4000


async def test_a_stopped_audio_clock_reads_as_paused_and_is_no_stall(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(pcm=tone(2.0), ladder=WHOLE)
    await player.open(gateway.url)
    await player.at_start("voice.audio.context.suspend()")
    await player.speak()
    await player.wait_event("play", event="start")
    await player.holds("voice.audio.context.state === 'suspended'")
    known = len(gateway.received("ack"))

    def latest() -> list[tuple[str, str | None]]:
        """State and reason of the last three acks since the clock stopped."""
        acks = gateway.received("ack")[known:]
        return [(ack["state"], ack.get("reason")) for ack in acks[-3:]]

    await until(lambda: latest() == 3 * [("paused", "clock")], within=LIMIT)
    places = {ack["played_ms"] for ack in gateway.received("ack")[-3:]}
    await player.evaluate("() => voice.audio.context.resume()")
    finished = await player.finished("u1")

    assert len(places) == 1 and max(places) < 2000
    assert (finished["stalls"], finished["reason"]) == (0, "complete")


async def test_a_connection_that_showed_jitter_earns_a_hold(
    player: Player, gateway: FakeGateway
) -> None:
    calm, jittery = asyncio.Event(), asyncio.Event()
    await player.open(gateway.url)

    gateway.script = Script(seconds=0.4, ladder=(4,), rate=0.0, gates={1: calm}, lags={3: 0.5})
    first = await player.speak()
    await player.wait_event("play", event="start", id=first)
    calm.set()
    await player.finished(first)
    gateway.script = Script(seconds=0.4, ladder=(4,), rate=0.0, gates={1: jittery})
    second = await player.speak()
    await player.wait_event("report", id=second, state="waiting")
    jittery.set()
    await player.finished(second)

    reports = await player.events("report")
    held = [report for report in reports if report["state"] == "waiting"]
    assert {report["id"] for report in held} == {second}, "without jitter sound starts at once"
    assert all(report["decoded_ms"] > 50 and report["heard_ms"] == 0 for report in held)
