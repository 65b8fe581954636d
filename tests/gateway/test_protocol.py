"""Parsing what a client says: good messages become dataclasses, bad ones name their field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol import ProtocolError
from gateway.protocol.parsing import parse
from gateway.protocol.requests import KINDS, Ack, Cancel, Hello, Say, Unknown
from gateway.voice.text_flow import clean_text, speakable

ACK = {"type": "ack", "n": 1, "seq": 0, "played_ms": 1.5, "t_ms": 2, "latency_ms": 3}


def refused(raw: str) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        parse(raw)
    return caught.value


def test_hello_has_the_documented_defaults():
    hello = parse('{"type":"hello"}')

    assert isinstance(hello, Hello)
    assert hello.audio.codecs == ["opus", "pcm_s16le"]
    assert (hello.acks, hello.want, hello.player.prebuffer_ms) == (False, [], 0)


def test_unknown_fields_are_ignored():
    ack = parse(json.dumps({**ACK, "mood": {"deep": [1]}}))

    assert isinstance(ack, Ack)
    assert (ack.played_ms, ack.state) == (1.5, "playing")


def test_unknown_type_is_kept_for_a_warning():
    assert parse('{"type":"sing","ref":"r1"}') == Unknown(type="sing", ref="r1")


def test_cancel_of_everything():
    assert parse('{"type":"cancel","utterance":"*"}') == Cancel(utterance="*")


def test_duplicate_keys_last_wins():
    say = parse('{"type":"say","utterance":"a","utterance":"b"}')

    assert isinstance(say, Say)
    assert say.utterance == "b"


@pytest.mark.parametrize(
    ("fields", "param", "wanted"),
    [
        ({"type": "say"}, "utterance", "is required"),
        ({"type": "say", "utterance": ""}, "utterance", "A-Za-z0-9"),
        ({"type": "say", "utterance": "a\n"}, "utterance", "A-Za-z0-9"),
        ({"type": "say", "utterance": "x" * 65}, "utterance", "1,64"),
        ({"type": "say", "utterance": "a", "text": 5}, "text", "str"),
        ({"type": "say", "utterance": "a", "mode": "loud"}, "mode", "queue, replace, parallel"),
        ({"type": "say", "utterance": "a", "seed": -1}, "seed", ">= 0"),
        ({"type": "say", "utterance": "a", "seed": 2**63}, "seed", "int"),
        ({"type": "say", "utterance": "a", "max_audio_ms": 1}, "max_audio_ms", ">= 1000"),
        ({"type": "say", "utterance": "a", "last": 1}, "last", "bool"),
        ({"type": "hello", "audio": {"sample_rate": 44100}}, "audio.sample_rate", "enum"),
        ({"type": "hello", "audio": {"codecs": []}}, "audio.codecs", "length >= 1"),
        ({"type": "hello", "player": {"max_lead_ms": 9}}, "player.max_lead_ms", ">= 200"),
        ({"type": "text", "text": "a"}, "utterance", "is required"),
        ({"type": "ack"}, "n", "is required"),
        ({**ACK, "n": 65_536}, "n", "<= 65535"),
        ({**ACK, "n": 1.5}, "n", "int"),
        ({**ACK, "seq": -2}, "seq", ">= -1"),
        ({**ACK, "played_ms": -1}, "played_ms", ">= 0"),
        ({**ACK, "played_ms": 10**400}, "played_ms", "range"),
        ({**ACK, "latency_ms": 2001}, "latency_ms", "<= 2000"),
        ({**ACK, "state": "napping"}, "state", "waiting, playing, stalled, paused, ended"),
        ({**ACK, "rate": 1.5}, "rate", "<= 1"),
        ({**ACK, "echo": 2**32}, "echo", "4294967295"),
        ({"type": 5}, "type", "hello"),
        ({"text": "a"}, "type", "hello"),
    ],
)
def test_bad_field_is_named_with_what_would_be_right(fields, param, wanted):
    problem = refused(json.dumps(fields))

    assert (problem.code, problem.param) == ("invalid_message", param)
    assert wanted in problem.message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["played_ms", "t_ms", "latency_ms", "rx_ms", "buffered_ms"])
def test_number_that_is_none_is_named(field, value):
    raw = json.dumps({**ACK, field: "HERE"}).replace('"HERE"', value)

    assert refused(raw).param == field


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "{",
        "[]",
        "null",
        '"hello"',
        "5",
        "1" * 5_000,
        "[" * 60_000,
        '{"type":"say","text":' + "[" * 20_000 + "]" * 20_000 + "}",
        '{"type":"say","x":' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}",
        "{'type':'say'}",
    ],
)
def test_what_is_no_object_is_invalid_json(raw):
    assert refused(raw).code == "invalid_json"


def test_lone_surrogates_are_replaced():
    say = parse('{"type":"say","utterance":"a","text":"hi \\ud83d there \\ud83d\\ude00"}')

    assert isinstance(say, Say)
    assert say.text == "hi \N{REPLACEMENT CHARACTER} there \N{GRINNING FACE}"


def test_error_of_a_refused_say_names_its_utterance_and_ref():
    problem = refused('{"type":"say","utterance":"a","text":5,"ref":"r"}')

    assert (problem.utterance, problem.ref) == ("a", "r")


def test_error_in_later_text_does_not_end_the_utterance():
    assert refused('{"type":"text","utterance":"a","text":5}').utterance is None


def test_control_characters_are_blanked_one_for_one():
    assert clean_text("a\0b\x07c\nd\te\u0085") == "a b c\nd\te "


@pytest.mark.parametrize(
    "text", ["", "   ", "\n\t", "...", "?!", "\u200b", "。。。", "- - -", "\0", "\N{GRINNING FACE}"]
)
def test_blanks_and_punctuation_are_not_speakable(text):
    assert not speakable(text)


@pytest.mark.parametrize("text", ["a", "...5", "你", "€", "é", "\u0928\u0940"])
def test_letters_digits_and_symbols_are_speakable(text):
    assert speakable(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(
    st.sampled_from([*KINDS, "sing"]),
    st.dictionaries(
        st.sampled_from(["utterance", "text", "n", "seq", "played_ms", "audio", "ref", "mode"]),
        JSON,
    ),
)
def test_any_object_is_parsed_or_refused_with_one_error(kind, fields):
    try:
        message = parse(json.dumps({**fields, "type": kind}))
    except ProtocolError as problem:
        assert problem.code in ("invalid_message", "invalid_json")
        json.dumps([problem.message, problem.param]).encode()
        return

    assert type(message) in (*KINDS.values(), Unknown)


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused_with_one_error(raw):
    with pytest.raises(ProtocolError):
        parse(raw)
