"""The player in a real browser against a scripted gateway: what is heard is what was sent."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from tests.web.browser import Player
from tests.web.fake_gateway import WHOLE, FakeGateway, Script
from tests.web.sounds import (
    RATE,
    coded,
    decoded,
    silences,
    snr,
    sounding,
    steepest,
    tone,
)

TAIL_FADE = 120  # samples; an end that is not silent fades
STOP_FADE = 720  # samples
DRY_FADE = 240  # samples, into and out of a stall
ROUNDING = 8  # samples: positions are told in tenths of a millisecond

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_every_sample_of_pcm_is_played_once_and_in_order(
    player: Player, gateway: FakeGateway
) -> None:
    sound = coded(1.5)
    gateway.script = Script(pcm=sound)
    await player.open(gateway.url, decoder="pcm")
    await player.record()

    finished = await player.finished(await player.speak_stocked())
    _, recording = await player.recording()

    assert finished["reason"] == "complete"
    assert np.array_equal(sounding(recording), sound[:-1])


@pytest.mark.parametrize("decoder", ["webcodecs", "wasm"])
async def test_opus_sounds_like_libopus_and_lasts_as_long_as_announced(
    player: Player, gateway: FakeGateway, decoder: str
) -> None:
    await player.open(gateway.url, decoder=decoder)
    await player.record()

    finished = await player.finished(await player.speak_stocked())
    _, recording = await player.recording()

    spoken = gateway.spoken["u1"]
    reference = decoded(spoken.packets, spoken.ticks)
    sound = sounding(recording)
    lead = int(np.flatnonzero(reference)[0])
    assert finished["rendered_ms"] == finished["heard_ms"] == pytest.approx(spoken.ticks / 48)
    assert snr(sound, reference[lead : lead + len(sound)]) > 90
    assert np.max(np.abs(reference[lead + len(sound) :]), initial=0) < 1e-6
    assert (await player.evaluate("() => voice.stats().report.decoder")) == decoder


async def test_utterances_after_one_another_do_not_spoil_each_other(
    player: Player, gateway: FakeGateway
) -> None:
    await player.open(gateway.url)
    await player.record()
    references = []
    for seed in (1, 2, 3):
        gateway.script = Script(seconds=0.8, seed=seed)
        utterance = await player.speak_stocked()
        await player.finished(utterance)
        spoken = gateway.spoken[utterance]
        references.append(decoded(spoken.packets, spoken.ticks))

    frame, recording = await player.recording()

    starts = [e["frame"] - frame for e in await player.events("play") if e["event"] == "start"]
    for start, reference in zip(starts, references, strict=True):
        body = len(reference) - TAIL_FADE
        assert snr(recording[start : start + body], reference[:body]) > 80


async def test_a_stop_fades_in_15_ms_and_says_what_was_heard(
    player: Player, gateway: FakeGateway
) -> None:
    sound = tone(6.0)
    gateway.script = Script(pcm=sound, ladder=WHOLE)
    await player.open(gateway.url, decoder="pcm")
    await player.record()
    await player.speak()

    (result,) = await player.interrupt(after_ms=500)
    await player.passes(0.3)
    frame, recording = await player.recording()

    start, stop = await player.events("play")
    assert (start["event"], stop["event"]) == ("start", "cancelled")
    heard = stop["frame"] - start["frame"]
    fade = 0.5 + 0.5 * np.cos(np.pi * np.arange(1, STOP_FADE + 1) / STOP_FADE)
    sound[heard - STOP_FADE : heard] *= fade
    sound[heard:] = 0
    played = recording[start["frame"] - frame :]
    assert len(played) > heard + 0.2 * RATE
    assert np.allclose(played, np.resize(sound, len(played)), atol=1 / 32_768)
    assert stop["pos_ms"] == pytest.approx(heard / 48, abs=0.1)
    assert gateway.received("cancel")[0]["played_ms"] == stop["pos_ms"]
    assert result["heard"]["audio_ms"] == stop["pos_ms"]


async def test_after_a_barge_in_only_the_new_utterance_sounds(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(pcm=tone(6.0), ladder=WHOLE)
    await player.open(gateway.url)
    await player.record()
    first = await player.speak()
    await player.wait_event("play", event="start")

    gateway.script = Script(seconds=0.6, ladder=WHOLE, seed=2)
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
    gates = {1: asyncio.Event(), 2: asyncio.Event()}
    gateway.script = Script(pcm=sound, ladder=(12, 24, 1000), gates=gates)
    await player.open(gateway.url, decoder="pcm")
    await player.record()
    utterance = await player.speak()
    for stalls, gate in enumerate(gates.values(), 1):
        await player.wait_event("play", event="stall", stalls=stalls)
        gate.set()

    finished = await player.finished(utterance)
    frame, recording = await player.recording()

    events = await player.events("play")
    kinds = [event["event"] for event in events]
    assert kinds == ["start", "stall", "resume", "stall", "resume", "end"]
    frames = [event["frame"] - frame for event in events]
    gaps = [resume - stall for stall, resume in (frames[1:3], frames[3:5])]
    assert finished["stalls"] == 2
    assert finished["stalled_ms"] == pytest.approx(sum(gaps) / 48, abs=0.1)
    assert not any(recording[a:b].any() for a, b in (frames[1:3], frames[3:5]))
    stretches = [recording[a:b] for a, b in (frames[:2], frames[2:4], frames[4:])]
    assert_same_but_faded(stretches, sound)
    assert len(silences(sounding(recording), least=48)) == 2
    assert steepest(recording) < 3 * steepest(sound)


def assert_same_but_faded(
    stretches: list[npt.NDArray[np.float32]], sound: npt.NDArray[np.float32]
) -> None:
    """Joined, the stretches are the sound; only where one meets silence it may be quieter."""
    joined = np.concatenate(stretches)
    assert len(joined) == len(sound)
    same = np.isclose(joined, sound, atol=1 / 32_768)
    seams = np.cumsum([len(stretch) for stretch in stretches])[:-1]
    for seam in seams:
        same[seam - DRY_FADE : seam + DRY_FADE] = True
    assert same.all()
    assert (np.abs(joined) <= np.abs(sound) + 1 / 32_768).all()


async def test_acks_say_what_the_player_reports_and_end_with_ended(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(pcm=tone(2.0), ladder=WHOLE)
    await player.open(gateway.url)

    await player.finished(await player.speak())
    await gateway.receives("ack", lambda ack: ack["state"] == "ended")

    acks = gateway.received("ack")
    played = [ack["played_ms"] for ack in acks]
    assert played == sorted(played)
    assert (acks[-1]["state"], played[-1]) == ("ended", pytest.approx(2000, abs=0.1))
    assert all(abs(ack["played_ms"] + ack["buffered_ms"] - 2000) < 0.2 for ack in acks)
    (start,) = [e for e in await player.events("play") if e["event"] == "start"]
    origin = start["at"] - next(ack["t_ms"] for ack in acks if ack["state"] == "playing")
    reports = [e for e in await player.events("report") if e["state"] == "playing"]
    rendered = [report["rendered_ms"] for report in reports]
    assert all(100 <= b - a < 111 for a, b in pairwise(rendered)), "by the audio clock"
    for report in reports:
        ack = next(a for a in reversed(acks) if a["t_ms"] + origin <= report["at"] + 0.2)
        assert report["at"] - (ack["t_ms"] + origin) < 86, "every report finds or makes a fresh ack"
        assert ack["played_ms"] <= report["heard_ms"]
        if report["at"] - (ack["t_ms"] + origin) < 0.2 and "reason" not in ack:
            assert ack["played_ms"] == report["heard_ms"]
            assert ack["latency_ms"] == pytest.approx(
                report["rendered_ms"] - report["heard_ms"], abs=0.2
            )


async def test_the_ear_is_where_the_output_clock_says_and_never_ahead_of_the_sound(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(pcm=tone(2.0), ladder=WHOLE)
    await player.open(gateway.url)

    await player.finished(await player.speak())

    (start,) = [e for e in await player.events("play") if e["event"] == "start"]
    reports = [e for e in await player.events("report") if e["state"] == "playing"]
    readings = await player.evaluate("() => readings")
    on_a_line = 0
    for before, report in pairwise(reports):
        assert before["heard_ms"] <= report["heard_ms"] <= report["rendered_ms"]
        rendered = start["frame"] + report["rendered_ms"] * 48
        assert rendered <= report["clock"] * RATE + 128 + ROUNDING, "so much time has passed"
        ear = start["frame"] + report["heard_ms"] * 48
        spans = [ears(reading, report["at"], report["source"]) for reading in readings]
        line = any(low - ROUNDING <= ear <= high + ROUNDING for low, high in spans)
        kept = report["heard_ms"] in (before["heard_ms"], report["rendered_ms"])
        assert line or kept, "moves by a reading, or rests because a reading jumped"
        on_a_line += line
    assert on_a_line > 0


def ears(reading: dict[str, float], at: float, source: str) -> tuple[float, float]:
    """The frames between which the ear is at `at`, ms, going by one reading of the clock."""
    if source == "timestamp":
        ear = RATE * (reading["contextTime"] + (at - reading["performanceTime"]) / 1000)
        return ear, ear
    latencies = (0.0, 0.5)  # smoothed over all readings: only bounds are known
    newest = RATE * (reading["current"] + (at - reading["now"]) / 1000)
    return newest - RATE * latencies[1], newest - RATE * latencies[0]


async def test_pause_keeps_the_place_and_resume_goes_on(
    player: Player, gateway: FakeGateway
) -> None:
    gateway.script = Script(pcm=tone(2.0), ladder=WHOLE)
    await player.open(gateway.url)
    await player.at_start("voice.pause()")

    await player.speak()
    paused = await player.wait_event("play", event="pause")
    await gateway.receives("ack", lambda ack: ack["state"] == "paused" and "reason" not in ack)
    await player.passes(0.3)
    await player.evaluate("() => voice.resume()")
    finished = await player.finished("u1")

    (resumed,) = [e for e in await player.events("play") if e["event"] == "resume"]
    assert resumed["frame"] - paused["frame"] > 0.2 * RATE
    assert resumed["pos_ms"] == paused["pos_ms"] < 2000
    assert (finished["stalls"], finished["heard_ms"]) == (0, pytest.approx(2000, abs=0.2))


async def test_streamed_text_arrives_in_pieces_and_is_spoken(
    player: Player, gateway: FakeGateway
) -> None:
    await player.open(gateway.url)

    await player.evaluate(
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
