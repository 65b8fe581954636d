"""The player when things go wrong: bad packets, lost connections, busy pages, stopped clocks."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.web.browser import Player
from tests.web.fake_gateway import FakeGateway, Script
from tests.web.sounds import (
    PRE_SKIP,
    decoded,
    snr,
    steepest,
)

TAIL_FADE = 120  # samples; an end that is not silent fades

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_busy_page_stops_neither_sound_nor_acks(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=2.6, ladder=(4, 8, 8), rate=0.6)
    await player.open(gateway.url)
    await player.speak()
    await player.wait_event("play", event="start")

    await player.page.evaluate(
        """async () => {
            for (let i = 0; i < 2; i++) {
                const until = performance.now() + 900;
                while (performance.now() < until);
                await new Promise((done) => setTimeout(done, 20));
            }
        }"""
    )
    finished = await player.finished("u1")

    times = [ack["t_ms"] for ack in gateway.received("ack") if ack["state"] == "playing"]
    assert finished["stalls"] == 0
    assert max(np.diff(times)) < 300


@pytest.mark.parametrize("decoder", ["webcodecs", "wasm"])
@pytest.mark.parametrize("packet", [b"\xff\xff\xfe", b""], ids=["corrupt", "empty"])
async def test_a_bad_packet_is_20_ms_of_silence_and_nothing_moves(
    player: Player, gateway: FakeGateway, decoder: str, packet: bytes
) -> None:
    bad = 20
    gateway.script = Script(seconds=1.2, replaced={bad: packet})
    await player.open(gateway.url, decoder=decoder)
    await player.record(4)

    finished = await player.finished(await player.speak())
    frame, recording = await player.recording()

    player.errors.clear()  # libopus reports the packet on the console
    start = (await player.events("play"))[0]["frame"] - frame
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
    assert finished["heard_ms"] == finished["received_ms"] > 500
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
    assert finished["heard_ms"] == finished["received_ms"] > 200
    gateway.script = Script(seconds=0.4)
    assert (await player.finished(await player.speak()))["reason"] == "complete"


async def test_a_minute_at_once_is_decoded_no_more_than_4_s_ahead(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=60.0, rate=0.0, first=0.0)
    await player.open(gateway.url)
    await player.speak()
    await player.wait_event("play", event="start")
    await asyncio.sleep(0.7)

    reports = await player.events("report")
    await player.interrupt()

    assert reports[-1]["buffered_ms"] > 50_000
    assert 2000 < max(report["decoded_ms"] for report in reports) <= 4000


async def test_a_stopped_audio_clock_reads_as_paused_and_is_no_stall(
    player: Player, gateway: FakeGateway
) -> None:
    await player.open(gateway.url)
    await player.speak()
    await player.wait_event("play", event="start")
    await asyncio.sleep(0.3)

    await player.page.evaluate("() => voice.audio.context.suspend()")
    suspended = len(gateway.received("ack"))
    await asyncio.sleep(0.8)
    meanwhile = gateway.received("ack")[suspended + 1 :]
    await player.page.evaluate("() => voice.audio.context.resume()")
    finished = await player.finished("u1")

    assert {(ack["state"], ack.get("reason")) for ack in meanwhile[-3:]} == {("paused", "clock")}
    assert (finished["stalls"], finished["reason"]) == (0, "complete")


async def test_a_connection_that_showed_jitter_earns_a_hold(
    player: Player, gateway: FakeGateway
) -> None:
    late = {seq: 0.1 for seq in range(3, 14, 3)}
    gateway.script = Script(seconds=1.0, ladder=(4,), rate=0.75, lags=late)
    await player.open(gateway.url)

    first = (await player.finished(await player.speak()))["times"]
    second = (await player.finished(await player.speak()))["times"]

    holds = [times["started"] - times["arrived"] for times in (first, second)]
    assert holds[1] > 50  # the second chunk comes 60 ms after the first
    assert holds[0] < 50
