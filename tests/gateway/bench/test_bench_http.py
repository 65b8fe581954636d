"""Listeners of the OpenAI route against scripted servers: every figure is exact in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.bench.arrivals import Habits, Plan
from gateway.bench.http_speech import HttpListener
from gateway.bench.take import Reply
from gateway.bench.target import Target
from gateway.sound.ogg import OggOpus
from gateway.sound.opus import OpusEncoder
from tests.gateway.bench.scripted import END, HEAD, Script, Server, chunk
from tests.gateway.bench.sounds_made import silence, sine
from tests.gateway.clocks import VirtualClock

URL = "http://127.0.0.1:1"
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 33\r\n\r\n"
    b'{"error": {"code": "overloaded"}}'
)


async def reply_to(
    *scripts: Script, habits: Habits | None = None, plan: Plan | None = None, **fields: Any
) -> Reply:
    """The reply to one request at second 1."""
    clock = VirtualClock(1.0)
    server = Server(clock, *scripts)
    target = Target(url=URL, **fields)
    listener = HttpListener(target, habits or Habits(), clock=clock, connect=server.connect)
    take = await listener.speak("Twenty characters ok", plan or Plan())
    return take.reply(number=0, due=0.0, lag=None, characters=20)


async def test_times_are_those_of_the_reads() -> None:
    script = [
        (1.1, HEAD),
        (1.25, chunk(silence(0.5) + sine(0.25))),
        (1.75, chunk(sine(0.25))),
        (2.5, END),
    ]

    reply = await reply_to(script)

    assert reply.first_playable == 0.25
    assert reply.audible == pytest.approx(0.25 + 0.5, abs=0.0101)
    assert (reply.end, reply.sound, reply.underruns) == (1.5, 1.0, 0)
    assert reply.lead == (0.75 + 0.5) / 2


async def test_underruns_and_their_silence_are_exact() -> None:
    script = [
        (1.0, HEAD + chunk(sine(0.25))),
        (1.25, chunk(sine(0.25))),  # in time to the moment
        (2.0, chunk(sine(0.25))),  # 0.5 s late
        (2.375, chunk(sine(0.25))),  # 0.125 s late
        (2.375, END),
    ]

    reply = await reply_to(script)

    assert (reply.underruns, reply.dry) == (2, 0.625)


async def test_gap_inside_the_silence_before_speech_delays_the_audible_sound() -> None:
    script = [
        (1.5, HEAD + chunk(silence(0.25))),
        (3.0, chunk(silence(0.25) + sine(0.25))),
        (3.0, END),
    ]

    reply = await reply_to(script)

    assert reply.audible == pytest.approx(2.0 + 0.25, abs=0.0101)


async def test_half_a_sample_is_not_playable() -> None:
    pcm = sine(0.25)
    script = [(1.5, HEAD + chunk(pcm[:1])), (2.0, chunk(pcm[1:])), (2.0, END)]

    reply = await reply_to(script)

    assert reply.first_playable == 1.0
    assert reply.sound == 0.25


async def test_output_latency_is_part_of_what_is_audible() -> None:
    script = [(1.5, HEAD + chunk(sine(0.25)) + END)]

    plain, late = [await reply_to(script, habits=Habits(latency=ear)) for ear in (0.0, 0.125)]

    assert late.audible == plain.audible + 0.125
    assert late.first_playable == plain.first_playable


async def test_refusal_is_no_failure() -> None:
    reply = await reply_to([(1.5, REFUSAL)])

    assert (reply.outcome, reply.code, reply.end) == ("refused", "overloaded", 0.5)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([(1.5, HEAD + chunk(sine(0.25))), (2.0, None)], "disconnected"),
        ([(1.5, HEAD + END)], "no_audio"),
        ([(1.5, b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno")], "http 500"),
        ([(1.5, b"SSH-2.0-server\r\n\r\n")], "answer: want a status line"),
    ],
)
async def test_broken_answers_are_failures(script: Script, code: str) -> None:
    reply = await reply_to(script)

    assert reply.outcome == "failed"
    assert reply.code.startswith(code)


async def test_server_that_cannot_be_reached_is_a_failure() -> None:
    async def refuse(url: str) -> Any:
        raise ConnectionRefusedError

    listener = HttpListener(Target(url=URL), Habits(), clock=VirtualClock(), connect=refuse)

    take = await listener.speak("Hello.", Plan())

    assert (take.outcome, take.code) == ("failed", "connect")


async def test_silent_server_is_given_up() -> None:
    reply = await reply_to([], patience=0.01)

    assert (reply.outcome, reply.code) == ("failed", "timeout")


async def test_connection_is_kept_for_the_next_reply_unless_the_server_closes() -> None:
    clock = VirtualClock()
    whole = [(0.5, HEAD + chunk(sine(0.1)) + END)]
    closing = [(1.0, HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + END)]
    server = Server(clock, whole, closing, whole)
    listener = HttpListener(Target(url=URL), Habits(), clock=clock, connect=server.connect)

    for _ in range(3):
        await listener.speak("Hello.", Plan())

    assert [len(wire.requests) for wire in server.wires] == [2, 1]


async def test_interruption_closes_the_connection_and_counts_what_was_heard() -> None:
    script = [(1.0, HEAD + chunk(sine(2.0))), (2.0, b"")]

    reply = await reply_to(script, plan=Plan(barge_in_at=0.5))

    assert reply.outcome == "cancelled"
    assert (reply.sound, reply.heard) == (2.0, 1.0)  # the clock stood at second 2 by then
    assert reply.heard_characters == pytest.approx(20 * 1.0 / 2.0)


async def test_request_asks_for_what_the_target_says() -> None:
    clock = VirtualClock()
    server = Server(clock, [(0.1, HEAD + END)])
    target = Target(url=f"{URL}/base", voice="rms", codec="opus", token="t", fields={"seed": 3})
    listener = HttpListener(target, Habits(), clock=clock, connect=server.connect)

    await listener.speak("Grüße", Plan())

    head, _, body = server.wires[0].requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /base/v1/audio/speech HTTP/1.1\r\n")
    assert b"Authorization: Bearer t" in head
    assert json.loads(body) == {
        "model": "tts-1",
        "input": "Grüße",
        "voice": "rms",
        "response_format": "opus",
        "stream": True,
        "seed": 3,
    }


async def test_ogg_opus_has_the_same_length_and_onset_as_its_samples() -> None:
    encoder = OpusEncoder()
    muxer = OggOpus(pre_skip=encoder.pre_skip, serial=1)
    pcm = silence(0.24) + sine(0.503)
    first = muxer.start() + muxer.add(encoder.encode(pcm[:9_600]))
    rest = muxer.add(encoder.encode(pcm[9_600:]))
    rest += muxer.finish(encoder.finish(), samples=len(pcm) // 2)
    script = [(1.0, HEAD + chunk(first)), (1.0, chunk(rest) + END)]

    reply = await reply_to(script, codec="opus")

    assert reply.sound == len(pcm) / 48_000
    assert reply.audible == pytest.approx(0.24, abs=0.0101)
