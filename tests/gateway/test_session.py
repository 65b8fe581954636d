"""One session over a real socket: what is said, in which order, and what is heard of it."""

from __future__ import annotations

import asyncio

import pytest

from engine.api import Playback, Status
from gateway.chunk import Chunk, Flag
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted, opened
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
        await wire.send("say", utterance="u", text=TEXT, last=True)

        done, before = await wire.until("done")

    assert before[0] == {"type": "started", "utterance": "u", "n": 1, "queue_ms": 0}
    chunks = sound(before)
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.n for chunk in chunks] == [1] * len(chunks)
    assert Flag.FIRST in chunks[0].flags
    assert [Flag.LAST in chunk.flags for chunk in chunks].index(True) == len(chunks) - 1
    assert (done["reason"], done["text_to"], done["last_seq"]) == ("complete", 17, 16)
    assert done["audio_ms"] == 17 * 80
    assert 0 <= done["first_audio_ms"] < 5_000


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


async def test_queued_utterance_follows_the_one_before(serve):
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
        engine.say(third.utterance, 1_920, text_to=1)

        started = await wire.answer("started", utterance="c")

    assert third.after == first.utterance
    assert [spoken.options.after for spoken in engine.spoken.values()][1] is None
    assert started["queue_ms"] == pytest.approx(1_000, abs=300)


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
    served = await serve(text_pause=0.01, text_wait=0.15)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="He said")
        await asyncio.sleep(0.05)
        early = served.engine.last().flushes
        await wire.until("started")

    assert (early, served.engine.last().flushes) == (0, 1)


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


# ---------------------------------------------------------------- acks


async def test_ack_reaches_the_engine_as_playback(serve):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        name = engine.last().options.utterance
        engine.say(name, 24_000, text_to=5)
        chunk = sound((await wire.until("pong", id=await ping(wire)))[1])[-1]
        t = 5_000.0
        timing = {"t_ms": t + 20, "rx_ms": t, "echo": chunk.sent_at}
        await wire.send(
            "ack", n=1, seq=chunk.seq, played_ms=20, latency_ms=30, state="paused", **timing
        )
        await until(lambda: bool(engine.last().playback))

    playback: Playback = engine.last().playback[0]
    assert (playback.utterance, playback.state) == (name, "paused")
    assert playback.rendered == pytest.approx(0.05)
    assert 0 <= playback.delay < 0.5


async def ping(wire) -> int:
    await wire.send("ping", id=77, t_ms=5)
    return 77


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"seq": 99, "played_ms": 0}, "seq"),
        ({"seq": 0, "played_ms": 60_000}, "played_ms"),
        ({"seq": 0, "played_ms": 0, "n": 9}, "n"),
        ({"seq": 0, "played_ms": 0, "latency_ms": 9_999}, "latency_ms"),
    ],
)
async def test_ack_of_what_was_never_sent_is_refused_by_name(serve, fields, param):
    served = await serve()
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await wire.until("done")

        await wire.send("ack", **{"n": 1, "t_ms": 1, "latency_ms": 0, **fields})
        error = await wire.answer("error")

        assert (error["code"], error["param"], error["fatal"]) == ("invalid_message", param, False)
        assert await wire.works()
    assert not served.engine.last().playback


async def test_three_impossible_acks_end_the_trust_but_not_the_session(serve):
    served = await serve()
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await wire.until("done")
        for _ in range(4):
            await wire.send("ack", n=1, seq=99, played_ms=0, t_ms=1, latency_ms=0)

        warning, before = await wire.until("warning")

        assert warning["code"] == "telemetry_untrusted"
        assert len(before) == 3
        assert await wire.works()


async def test_sound_waits_for_a_listener_who_stands_still(serve):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=True, player={"max_lead_ms": 200}) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        name = engine.last().options.utterance
        engine.say(name, 1_920, text_to=1)
        await wire.until("started")
        await wire.send("ack", n=1, seq=0, played_ms=0, t_ms=1, latency_ms=0, state="paused")
        await until(lambda: bool(engine.last().playback))
        for _ in range(30):
            engine.say(name, 1_920, text_to=1)
        await asyncio.sleep(0.2)
        sent = sound((await wire.until("pong", id=await ping(wire)))[1])

        await wire.send("ack", n=1, seq=14, played_ms=70, t_ms=80, latency_ms=0)
        more = await wire.take()

    assert 1.1 <= 0.08 + sum(chunk.duration for chunk in sent) / 48_000 <= 1.3  # lead + 1 s
    assert isinstance(more, Chunk)


# -------------------------------------------------------------- cancel


async def test_cancel_before_sound_heard_nothing(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await wire.send("cancel", utterance="u")

        cancelled = await wire.answer("cancelled")

    assert (cancelled["n"], cancelled["last_seq"], cancelled["sent_ms"]) == (1, -1, 0)
    assert cancelled["heard"]["audio_ms"] == 0
    assert cancelled["heard"]["text"] == ""
    assert len(served.engine.cancelled) == 1


@pytest.mark.parametrize(
    ("played", "acked", "source"),
    [(400, None, "client"), (None, 400, "ack"), (99_000, 400, "ack"), (None, None, "estimate")],
)
async def test_cancel_tells_what_was_heard_and_how_it_knows(serve, played, acked, source):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=acked is not None) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        for text_to in range(1, 11):
            engine.say(engine.last().options.utterance, 1_920, text_to=text_to)
        await wire.until("started")
        await asyncio.sleep(0.3)  # nobody has heard 400 ms before 250 ms have passed
        if acked:
            state = {"state": "paused", "latency_ms": 0}
            await wire.send("ack", n=1, seq=9, played_ms=acked, t_ms=1, **state)
            await until(lambda: bool(engine.last().playback))
        await wire.send("cancel", utterance="u", **({"played_ms": played} if played else {}))

        cancelled = await wire.answer("cancelled")

    heard = cancelled["heard"]
    assert heard["source"] == source
    assert (cancelled["sent_ms"], cancelled["generated_ms"]) == (800, 800)
    assert heard["text"] == TEXT[: heard["text_to"]]
    assert heard["uncertainty_ms"] > 0
    if source != "estimate":
        assert (heard["audio_ms"], heard["text"]) == (400, "Hello")


async def test_cancel_after_done_still_tells_what_was_heard(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await wire.until("done")
        await wire.send("cancel", utterance="u", played_ms=80)

        error = await wire.answer("error")

    assert (error["code"], error["fatal"]) == ("utterance_closed", False)
    assert (error["heard"]["source"], error["heard"]["text"]) == ("client", "H")


async def test_cancel_of_all_fences_each(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        for name in "ab":
            await wire.send("say", utterance=name, text=TEXT)
        await wire.send("cancel", utterance="*")

        assert (await wire.answer("cancelled"))["utterance"] == "a"
        assert (await wire.answer("cancelled"))["utterance"] == "b"


@pytest.mark.parametrize("codec", ["opus", "pcm_s16le"])
async def test_no_chunk_follows_the_fence(serve, codec):
    served = await serve()
    stray, moments = [], (0, 0, 1, 2, 3, 5, 8, 12, 13)
    async with greeted(served.voice_url, codec=codec) as wire:
        for turn in range(45):
            await wire.send("say", utterance=f"u{turn}", text=TEXT, last=True)
            await asyncio.sleep(moments[turn % len(moments)] / 1000)
            await wire.send("cancel", utterance=f"u{turn}")
        await wire.send("say", utterance="end", text="x", last=True)
        fenced: set[int] = set()
        while True:
            item = await wire.take()
            if isinstance(item, Chunk):
                stray += [item] if item.n in fenced else []
            elif item["type"] in ("cancelled", "done", "error"):
                fenced.add(item["n"])
                if item["utterance"] == "end":
                    break

    assert not stray
    assert len(fenced) == 46
    await until(lambda: served.engine.live == 0)


# -------------------------------------------------------- bad and sad


async def test_bye_closes_and_drain_lets_utterances_end(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await wire.send("bye", drain=True)

        code, before = await wire.closed()

    assert code == 1000
    assert before[-1]["type"] == "done"


@pytest.mark.parametrize(
    ("messages", "code", "error"),
    [
        (['{"type":"ping"}'], 4400, "invalid_message"),
        (["{"], 4400, "invalid_json"),
        (['{"type":"hello","audio":{"codecs":["mp3"]}}'], 4400, "unsupported_audio"),
        (['{"type":"hello","audio":{"sample_rate":8000}}'], 4400, "unsupported_audio"),
        (['{"type":"hello","voice":"nobody"}'], 4400, "unsupported_voice"),
        (['{"type":"hello"}', b"\0\0"], 1003, "invalid_message"),
        (['{"type":"hello"}', *["{"] * 10], 1008, "invalid_json"),
    ],
)
async def test_fatal_error_precedes_the_close(serve, messages, code, error):
    served = await serve()
    async with opened(served.voice_url) as wire:
        for message in messages:
            await wire.raw(message)

        closed, before = await wire.closed()

    assert closed == code
    assert (before[-1]["code"], before[-1]["fatal"]) == (error, True)
    assert served.engine.opened == 0


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "[]",
        "null",
        '"hello"',
        "{'type':'say'}",
        '{"type":"say","utterance":"u","text":' + "[" * 20_000 + "]" * 20_000 + "}",
        '{"type":"say","utterance":"u","seed":' + "9" * 5_000 + "}",
        '{"type":"say","utterance":"u","text":NaN}',
        '{"type":"say","utterance":"u","seed":1e999}',
        '{"type":"ack","n":1,"seq":0,"played_ms":NaN,"t_ms":1,"latency_ms":0}',
    ],
    ids=lambda raw: raw[:24],
)
async def test_bad_json_is_answered_and_harms_nobody(serve, raw, caplog):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="other", text="Hi", mode="parallel")
        await until(lambda: served.engine.live == 1)
        await wire.raw(raw)

        error = await wire.answer("error")

        assert error["code"] in ("invalid_json", "invalid_message")
        assert error["code"] == "invalid_json" or error["param"] in ("text", "seed", "played_ms")
        served.engine.silent = False
        await wire.send("text", utterance="other", last=True)
        assert (await wire.answer("done", utterance="other"))["reason"] == "complete"
        assert await wire.works()
    assert "Traceback" not in caplog.text


async def test_oversized_message_closes_with_1009(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.raw("x" * 65_537)

        assert (await wire.closed())[0] == 1009


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"text": "x" * 10_001, "last": True}, "text_too_long", "text"),
        ({"text": "x", "voice": "nobody"}, "unsupported_voice", "voice"),
        ({"text": "x", "language": "Klingon"}, "unsupported_language", "language"),
        ({"text": "x", "instructions": "sing"}, "unsupported_instructions", "instructions"),
        ({"text": 5}, "invalid_message", "text"),
        ({"mode": "loud"}, "invalid_message", "mode"),
    ],
)
async def test_refused_say_ends_only_itself(serve, fields, code, param):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="other", text="Hi", mode="parallel")
        await wire.send("say", utterance="bad", ref="r7", **fields)

        error = await wire.answer("error")

        assert (error["code"], error["param"]) == (code, param)
        assert (error["utterance"], error["ref"], error["fatal"]) == ("bad", "r7", False)
        await wire.send("text", utterance="other", last=True)
        await wire.answer("done", utterance="other")
        assert await wire.works()


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "...", "?!", "\u200b", "。。。", "- - -"])
async def test_nothing_to_say_is_done_at_once_without_the_engine(serve, text):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=text, last=True)

        done = await wire.answer("done")

    assert (done["reason"], done["audio_ms"], done["last_seq"]) == ("empty", 0, -1)
    assert served.engine.opened == 0


@pytest.mark.parametrize(
    "text", ["\N{GRINNING FACE}", "a\0\x07b", "hi \ud83d there", "e\u0301" * 9, "\u202ex"]
)
async def test_odd_text_is_spoken_and_harms_nobody(serve, text):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=text, last=True)

        done = await wire.answer("done")

        assert (done["reason"], done["text_to"]) == ("complete", len(text))
        assert await wire.works()
    served.engine.spoken.popitem()
    served.engine.last().text.encode()


async def test_too_much_text_in_pieces_ends_only_that_utterance(serve):
    served = await serve(limits={"text": 12})
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hello you.")
        await wire.send("text", utterance="u", text="More")

        error = await wire.answer("error")

        assert (error["code"], error["utterance"], error["n"]) == ("text_too_long", "u", 1)
        assert await wire.works()
    assert len(served.engine.cancelled) == 1


async def test_text_message_beyond_its_limit_ends_only_that_utterance(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hello you.")
        await wire.send("text", utterance="u", text="x" * 2_001)

        error = await wire.answer("error")

        assert (error["code"], error["param"], error["utterance"]) == ("text_too_long", "text", "u")
        assert await wire.works()


async def test_names_are_used_once_and_known(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await wire.until("done")
        await wire.send("say", utterance="u", text="Hi", last=True)
        exists = await wire.answer("error")
        await wire.send("text", utterance="u", text="more")
        closed = await wire.answer("error")
        await wire.send("flush", utterance="v")
        unknown = await wire.answer("error")

    assert (exists["code"], "utterance" in exists) == ("utterance_exists", False)
    assert closed["code"] == "utterance_closed"
    assert unknown["code"] == "unknown_utterance"


async def test_fifth_open_utterance_is_refused(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        for name in "abcde":
            await wire.send("say", utterance=name, text="Hi")

        error = await wire.answer("error")

    assert (error["code"], error["utterance"]) == ("too_many_utterances", "e")
    assert served.engine.opened == 4


async def test_unknown_type_is_only_warned_about(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("sing", ref="r")

        warning = await wire.answer("warning")

    assert (warning["code"], warning["ref"]) == ("unknown_type", "r")


async def test_flood_of_messages_is_limited_and_says_when(serve):
    served = await serve(limits={"messages_per_second": 1.0, "message_burst": 3})
    async with greeted(served.voice_url) as wire:
        for _ in range(3):
            await wire.send("ping", id=1)

        error = await wire.answer("error")

    assert error["code"] == "rate_limited"
    assert 0 < error["retry_after_ms"] <= 1_000


@pytest.mark.parametrize(
    ("reason", "detail", "code"),
    [
        ("refused", "overloaded", "overloaded"),
        ("refused", "unsupported_voice", "unsupported_voice"),
        ("refused", "bad luck", "engine_unavailable"),
        ("failed", "CUDA error: 7", "generation_failed"),
        ("failed", "no_audio", "no_audio"),
        ("cancelled", "", "generation_failed"),
        ("complete", "", "no_audio"),
    ],
)
async def test_engines_refusal_is_told_in_the_protocols_words(serve, reason, detail, code):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await until(lambda: served.engine.opened == 1)
        more = {"retry_after": 0.25} if detail == "overloaded" else {}
        served.engine.end(served.engine.last().options.utterance, reason, detail, **more)

        error = await wire.answer("error")

    assert (error["code"], error["utterance"], error["fatal"]) == (code, "u", False)
    assert error.get("retry_after_ms") == (250 if more else None)


async def test_lost_engine_ends_utterances_but_not_the_session(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="a", text="Hi")
        await wire.send("say", utterance="b", text="Hi")
        await until(lambda: served.engine.opened == 2)
        served.engine.lose()
        lost = [await wire.answer("error") for _ in range(2)]

        await wire.send("say", utterance="c", text="Hi")
        refused = await wire.answer("error", utterance="c")

        served.engine.alive, served.engine.silent = True, False
        assert await wire.works()
    assert [error["code"] for error in lost] == ["engine_lost"] * 2
    assert refused["code"] == "engine_unavailable"
