"""Bad input and bad luck: a typed error that names the field, and everything else lives on."""

from __future__ import annotations

import pytest

from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted, opened
from tests.waiting import until

TEXT = "Hello wide world."


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


@pytest.mark.parametrize(
    "text", ["", "   ", "\n\t", "...", "?!", "\u200b", "。。。", "- - -", "\N{GRINNING FACE}"]
)
async def test_nothing_to_say_is_done_at_once_without_the_engine(serve, text):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=text, last=True)

        done = await wire.answer("done")

    assert (done["reason"], done["audio_ms"], done["last_seq"]) == ("empty", 0, -1)
    assert served.engine.opened == 0


@pytest.mark.parametrize(
    "text", ["\N{GRINNING FACE}!a", "a\0\x07b", "hi \ud83d there", "e\u0301" * 9, "\u202ex"]
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


@pytest.mark.parametrize("fields", [{"text": 5}, {"seed": "x"}, {"mode": "loud"}])
async def test_malformed_say_names_no_utterance_that_goes_on(serve, fields):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hello")
        await wire.send("say", utterance="u", **fields)

        error = await wire.answer("error")

        assert (error["code"], error.get("utterance")) == ("invalid_message", None)
        await wire.send("text", utterance="u", last=True)
        await wire.answer("done", utterance="u")


async def test_too_much_text_after_the_last_piece_ends_nothing(serve):
    served = await serve(limits={"text_message": 12})
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await wire.send("text", utterance="u", text="x" * 13)

        error = await wire.answer("error")

        assert (error["code"], error.get("n")) == ("utterance_closed", None)
        await wire.answer("done", utterance="u")


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
    served = await serve(limits={"messages_per_second": 0.01, "message_burst": 3})
    async with greeted(served.voice_url) as wire:
        for _ in range(3):
            await wire.send("ping", id=1)

        error = await wire.answer("error")

    assert error["code"] == "rate_limited"
    assert 0 < error["retry_after_ms"] <= 100_000


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
