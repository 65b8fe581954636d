"""The player in a real browser against a scripted gateway: what is heard is what was sent."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.web.browser import Player
from tests.web.fake_gateway import FakeGateway, Script
from tests.web.sounds import (
    coded,
    decoded,
    silences,
    snr,
    sounding,
    steepest,
    tone,
)

TAIL_FADE = 120  # samples; an end that is not silent fades

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_every_sample_of_pcm_is_played_once_and_in_order(
    player: Player, gateway: FakeGateway
) -> None:
    sound = coded(1.5)
    gateway.script = Script(seconds=1.5, pcm=sound)
    await player.open(gateway.url, decoder="pcm")

    recording = await player.heard(1.5)

    assert np.array_equal(recording, sound[:-1])


@pytest.mark.parametrize("decoder", ["webcodecs", "wasm"])
async def test_opus_sounds_like_libopus_and_lasts_as_long_as_announced(
    player: Player, gateway: FakeGateway, decoder: str
) -> None:
    await player.open(gateway.url, decoder=decoder)
    await player.record(5)

    finished = await player.finished(await player.speak())
    recording = (await player.recording())[1]

    spoken = gateway.spoken["u1"]
    reference = decoded(spoken.packets, spoken.ticks)
    start = (await player.events("play"))[0]["frame"] - int(np.flatnonzero(recording)[0])
    sound = sounding(recording)
    lead = int(np.flatnonzero(reference)[0])
    assert finished["rendered_ms"] == finished["heard_ms"] == pytest.approx(spoken.ticks / 48)
    assert snr(sound, reference[lead : lead + len(sound)]) > 90, start
    assert np.max(np.abs(reference[lead + len(sound) :]), initial=0) < 1e-6
    assert (await player.page.evaluate("() => voice.stats().report.decoder")) == decoder


async def test_utterances_after_one_another_do_not_spoil_each_other(
    player: Player, gateway: FakeGateway
) -> None:
    await player.open(gateway.url)
    await player.record(8)
    references = []
    for seed in (1, 2, 3):
        gateway.script = Script(seconds=0.8, seed=seed)
        utterance = await player.speak()
        await player.finished(utterance)
        spoken = gateway.spoken[utterance]
        references.append(decoded(spoken.packets, spoken.ticks))

    frame, recording = await player.recording()

    starts = [e["frame"] - frame for e in await player.events("play") if e["event"] == "start"]
    for start, reference in zip(starts, references, strict=True):
        body = len(reference) - TAIL_FADE
        assert snr(recording[start : start + body], reference[:body]) > 80


async def test_stop_is_silent_within_15_ms_and_says_what_was_heard(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=4.0)
    await player.open(gateway.url)
    await player.record(4)
    await player.speak()
    await player.wait_event("play", event="start")
    await asyncio.sleep(0.7)

    results = await player.interrupt()
    await asyncio.sleep(0.3)
    frame, recording = await player.recording()

    events = await player.events("play")
    start = next(e["frame"] for e in events if e["event"] == "start") - frame
    stop = next(e for e in events if e["event"] == "cancelled")
    last = int(np.flatnonzero(recording)[-1]) + 1
    assert last - start == pytest.approx(stop["pos_ms"] * 48, abs=48)
    assert gateway.received("cancel")[0]["played_ms"] == pytest.approx(stop["pos_ms"], abs=0.2)
    assert results[0]["stopped_in_ms"] < 60  # 15 ms of fade and at most two callbacks, and slack
    assert results[0]["heard"]["audio_ms"] == pytest.approx(stop["pos_ms"], abs=0.2)


async def test_after_a_barge_in_only_the_new_utterance_sounds(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=4.0)
    await player.open(gateway.url)
    await player.record(5)
    first = await player.speak()
    await player.wait_event("play", event="start")
    await asyncio.sleep(0.3)

    gateway.script = Script(seconds=0.6, seed=2)
    second = await player.speak(mode="replace")
    result = await player.finished(second)
    frame, recording = await player.recording()

    events = await player.events("play")
    starts = {e["id"]: e["frame"] - frame for e in events if e["event"] == "start"}
    stopped = next(e["frame"] - frame for e in events if e["event"] == "cancelled")
    spoken = gateway.spoken[second]
    reference = decoded(spoken.packets, spoken.ticks)
    assert (await player.finished(first))["reason"] == "cancelled"
    assert result["reason"] == "complete"
    assert not recording[stopped : starts[second]].any()
    body = len(reference) - TAIL_FADE
    assert snr(recording[starts[second] :][:body], reference[:body]) > 80
    kinds = [m["type"] for m in gateway.messages if m["type"] in ("say", "cancel")]
    assert kinds == ["say", "cancel", "say"]


async def test_stalls_fade_are_counted_and_are_the_only_silence(
    player: Player, gateway: FakeGateway
) -> None:
    sound = tone(2.0)
    script = Script(seconds=2.0, pcm=sound, ladder=(4, 8, 16), rate=0.05, delays={2: 0.7, 4: 0.9})
    gateway.script = script
    await player.open(gateway.url, decoder="pcm")
    await player.record(6)

    finished = await player.finished(await player.speak())
    recording = sounding((await player.recording())[1])

    gaps = silences(recording, least=48)
    assert finished["stalls"] == len(gaps) == 2
    assert sum(length for _, length in gaps) / 48 == pytest.approx(finished["stalled_ms"], abs=6)
    assert steepest(recording) < 3 * steepest(sound)
    assert len(recording) == pytest.approx(len(sound) + finished["stalled_ms"] * 48, abs=12)


async def test_acks_are_honest_and_end_with_ended(player: Player, gateway: FakeGateway) -> None:
    await player.open(gateway.url)

    await player.finished(await player.speak())
    await asyncio.sleep(0.1)

    acks = gateway.received("ack")
    played = [ack["played_ms"] for ack in acks]
    assert played == sorted(played)
    assert played[-1] == pytest.approx(1200, abs=0.2)
    assert acks[-1]["state"] == "ended"
    assert {"n", "seq", "played_ms", "t_ms", "latency_ms"} <= acks[0].keys()
    moving = [ack for ack in acks if ack["state"] == "playing" and 100 < ack["played_ms"] < 1100]
    offsets = [ack["t_ms"] - ack["played_ms"] for ack in moving]
    assert len(moving) >= 8
    assert np.ptp(offsets) < 25  # a straight line: the ear moves in real time


async def test_pause_keeps_the_place_and_resume_goes_on(
    player: Player, gateway: FakeGateway
) -> None:
    await player.open(gateway.url)
    await player.speak()
    await player.wait_event("play", event="start")
    await asyncio.sleep(0.4)

    await player.page.evaluate("() => voice.pause()")
    await player.wait_event("play", event="pause")
    await asyncio.sleep(0.4)
    await player.page.evaluate("() => voice.resume()")
    finished = await player.finished("u1")

    states = [ack["state"] for ack in gateway.received("ack")]
    assert "paused" in states
    assert (finished["stalls"], finished["heard_ms"]) == (0, pytest.approx(1200, abs=0.2))


async def test_streamed_text_arrives_in_pieces_and_is_spoken(
    player: Player, gateway: FakeGateway
) -> None:
    await player.open(gateway.url)

    await player.page.evaluate(
        """() => {
            const utterance = voice.speak();
            said[utterance.id] = utterance;
            for (const piece of ["The ", "meeting ", "starts."]) utterance.appendText(piece);
            utterance.end();
        }"""
    )
    finished = await player.finished("u1")

    assert finished["reason"] == "complete"
    assert gateway.spoken["u1"].text == "The meeting starts."
