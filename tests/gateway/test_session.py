"""One session over a real socket: what is said, in which order, and with what sound."""

from __future__ import annotations

import time

import pytest

from engine.api import Status
from gateway.protocol.chunk import Chunk, Flag
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted
from tests.waiting import until

TEXT = "Hello wide world."


def sound(items: list[object]) -> list[Chunk]:
    return [item for item in items if isinstance(item, Chunk)]


async def test_hello_tells_what_was_agreed(serve):
    served = await serve()

    async with greeted(served.voice_url, codec="opus", acks=True) as wire:
        hello = wire.hello

        assert wire.socket.subprotocol == "voice.v1"
        assert hello["protocol"] == "voice.v1"
        assert hello["audio"]["codec"] == "opus"
        assert (hello["audio"]["packet_ms"], hello["audio"]["pre_skip"]) == (20, 312)
        assert hello["ack"] == {"interval_ms": 100, "max_per_s": 20}
        assert hello["limits"]["text"] == 10_000
        assert hello["voices"] == ["alba", "bruno"]


async def test_utterance_runs_from_started_to_done(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        began = time.monotonic()
        await wire.send("say", utterance="u", text=TEXT, last=True)

        done, before = await wire.until("done")
        took = time.monotonic() - began

    assert before[0] == {"type": "started", "utterance": "u", "n": 1, "queue_ms": 0}
    chunks = sound(before)
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.n for chunk in chunks] == [1] * len(chunks)
    assert Flag.FIRST in chunks[0].flags
    assert [Flag.LAST in chunk.flags for chunk in chunks].index(True) == len(chunks) - 1
    assert (done["reason"], done["text_to"], done["last_seq"]) == ("complete", 17, 16)
    assert done["audio_ms"] == 17 * 80
    assert 0 <= done["first_audio_ms"] <= 1000 * took


@pytest.mark.parametrize("codec", ["opus", "pcm_s16le"])
@pytest.mark.parametrize(
    ("sizes", "last_empty"),
    [
        ([1920] * 3, True),
        ([1920] * 3, False),
        ([480], False),
        ([1], False),
        ([777, 1920, 13], False),
        ([13, 5, 7], True),
        ([30_000, 1], False),
    ],
)
async def test_every_sample_is_accounted_for(serve, codec, sizes, last_empty):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url, codec=codec) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await until(lambda: engine.opened == 1)
        name = engine.last().options.utterance
        for index, samples in enumerate(sizes):
            engine.say(
                name, samples, text_to=index, last=not last_empty and index == len(sizes) - 1
            )
        if last_empty:
            engine.say(name, 0, text_to=17, last=True)
        engine.end(name)

        done, before = await wire.until("done")

    chunks, start = sound(before), 0
    for chunk in chunks:
        assert chunk.start == start
        start = chunk.end
    assert start == 2 * sum(sizes)
    assert done["audio_ms"] == pytest.approx(sum(sizes) / 24, abs=0.001)
    assert Flag.LAST in chunks[-1].flags


async def test_end_without_a_last_sound_still_drains_the_encoder(serve):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url, codec="opus") as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await until(lambda: engine.opened == 1)
        engine.say(engine.last().options.utterance, 1_000, text_to=5)
        engine.end(engine.last().options.utterance, "max_audio")

        done, before = await wire.until("done")

    assert done["reason"] == "max_audio"
    assert sum(chunk.duration for chunk in sound(before)) == 2_000


async def test_text_comes_in_pieces_joined_exactly(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hel")
        await wire.send("text", utterance="u", text="lo ")
        await wire.send("text", utterance="u", text="you.", last=True)

        await wire.until("done")

    assert served.engine.last().text == "Hello you."


async def test_nothing_is_opened_before_there_is_something_to_say(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=" … ")
        await wire.send("ping", id=1)
        await wire.answer("pong", id=1)
        before = served.engine.opened

        await wire.send("text", utterance="u", text="Yes.", last=True)
        await wire.until("done")

    assert before == 0
    assert served.engine.last().text == " … Yes."


async def test_say_settles_how_it_is_spoken(serve):
    served = await serve()
    hello = {"voice": "bruno", "language": "German", "seed": 3, "acks": True, "want": ["stats"]}
    async with greeted(served.voice_url, **hello) as wire:
        await wire.send("say", utterance="a", text="x", last=True)
        await wire.send("say", utterance="b", text="x", last=True, voice="alba", seed=4)
        await wire.until("done", utterance="b")

    first, second = (spoken.options for spoken in served.engine.spoken.values())
    assert (first.voice, first.language, first.seed, first.status) == ("bruno", "German", 3, True)
    assert (second.voice, second.language, second.seed) == ("alba", "German", 4)
    assert (first.acks, first.max_lead, first.max_audio) == (True, 3.0, 600.0)


async def test_without_acks_the_lead_is_small(serve):
    served = await serve()
    async with greeted(served.voice_url, player={"max_lead_ms": 9_000}) as wire:
        await wire.send("say", utterance="a", text="x", last=True, max_audio_ms=2_000)
        await wire.until("done")

    assert served.engine.last().options.max_lead == 2.0
    assert served.engine.last().options.max_audio == 2.0


async def test_queued_utterance_follows_the_one_before(serve, clock):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="a", text="one", last=True)
        await wire.send("say", utterance="b", text="two", last=True, mode="parallel")
        await wire.send("say", utterance="c", text="three", last=True)
        await until(lambda: engine.opened == 3)
        first, _, third = (spoken.options for spoken in engine.spoken.values())
        engine.say(first.utterance, 24_000, text_to=3)
        await wire.answer("started", utterance="a")
        await wire.take()
        clock.now += 0.25
        engine.say(third.utterance, 1_920, text_to=1)

        started = await wire.answer("started", utterance="c")

    assert third.after == first.utterance
    assert [spoken.options.after for spoken in engine.spoken.values()][1] is None
    assert started["queue_ms"] == 750


async def test_replace_stops_everything_else_first(serve):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="a", text="one")
        await wire.send("say", utterance="b", text="two")
        await wire.send("say", utterance="c", text="three", mode="replace")

        _, before = await wire.until("cancelled", utterance="b")
        stopped = len(engine.cancelled)

    assert [item["utterance"] for item in before] == ["a"]
    assert stopped == 2


async def test_flush_is_answered_when_its_sound_was_sent(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hello")
        await wire.send("flush", utterance="u")

        flushed, before = await wire.until("flushed")

    assert (flushed["text_to"], flushed["audio_ms"]) == (5, 400)
    assert sum(chunk.duration for chunk in sound(before)) == 400 * 48
    assert Flag.SEGMENT_END in sound(before)[-1].flags
    assert served.engine.last().flushes == 1


async def test_flush_of_nothing_is_answered_at_once(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=" ")
        await wire.send("flush", utterance="u")

        flushed = await wire.answer("flushed")

    assert (flushed["text_to"], flushed["audio_ms"], served.engine.opened) == (1, 0, 0)


async def test_resting_text_is_spoken_soon_after_a_sentence(serve):
    served = await serve(text_pause=0.02, text_wait=60.0)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text='He said "yes." ')

        await wire.until("started")

    assert served.engine.last().flushes == 1
    assert not served.engine.last().finished


async def test_half_a_sentence_rests_longer(serve):
    served = await serve(text_pause=0.02, text_wait=60.0)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="half", text="He said", mode="parallel")
        await wire.send("say", utterance="whole", text="He said so.", mode="parallel")
        await wire.until("started", utterance="whole")

    assert [spoken.flushes for spoken in served.engine.spoken.values()] == [0, 1]


async def test_half_a_sentence_is_spoken_at_last(serve):
    served = await serve(text_pause=60.0, text_wait=0.02)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="He said")
        await wire.until("started")

    assert served.engine.last().flushes == 1


async def test_utterance_without_text_ends_by_itself(serve):
    served = await serve(text_idle=0.05, text_pause=0.01)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="a", text="Yes.")
        await wire.send("say", utterance="b")

        items = [await wire.take()]
        while (
            len([item for item in items if isinstance(item, dict) and item["type"] == "done"]) < 2
        ):
            items.append(await wire.take())

    told = [(item["type"], item["utterance"]) for item in items if isinstance(item, dict)]
    ends = [item["reason"] for item in items if isinstance(item, dict) and item["type"] == "done"]
    assert told.count(("warning", "a")) == told.count(("warning", "b")) == 1
    assert sorted(ends) == ["complete", "empty"]
    assert served.engine.last().finished


async def test_marks_tell_each_word_once(serve):
    served = await serve()
    async with greeted(served.voice_url, want=["marks"]) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)

        _, before = await wire.until("done")

    marks = [item for item in before if isinstance(item, dict) and item["type"] == "marks"]
    words = [mark for message in marks for mark in message["items"]]
    assert [TEXT[mark["from"] : mark["to"]] for mark in words] == ["Hello", "wide", "world."]
    assert [(mark["start_ms"], mark["end_ms"]) for mark in words] == [
        (0, 400),
        (480, 800),
        (880, 1360),
    ]
    assert {message["method"] for message in marks} == {"proportional"}


async def test_stats_pass_on_what_the_scheduler_believes(serve):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url, want=["stats"], acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        engine._dispatch(Status(engine.last().options.utterance, 1.5, 0.25, "acked"))

        stats = await wire.answer("stats")

    assert stats == {
        "type": "stats",
        "n": 1,
        "seq": -1,
        "lead_ms": 1500,
        "slack_ms": 250,
        "jitter_ms": 0,
        "model": "acked",
    }
