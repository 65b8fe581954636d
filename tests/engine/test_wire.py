"""Every message survives the wire, however the bytes are cut; nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import api
from engine.wire import Decoder, Message, WireError, encode, split_address

MESSAGES: list[Message] = [
    api.Open("u", "rms", seed=7, after="t", sampling=api.Sampling(temperature=0.0), max_lead=None),
    api.Append("u", "Grüße 你好"),
    api.Flush("u"),
    api.Finish("u"),
    api.Playback("u", 1.5, "paused", 0.02),
    api.Cancel("u"),
    api.Audio("u", 1920, b"\x00\x01" * 960, 12, last=True),
    api.Ended("u", "refused", "overloaded", retry_after=0.5),
    api.Status("u", 1.0, 0.5, "acked"),
    api.Load(3, 8, 0.01),
    api.Info("tiny", ("rms", "slt"), "rms", ("english",), instructions=False, slots=8),
]


@given(cuts=st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_messages_survive_any_cut(cuts: list[int]) -> None:
    stream = b"".join(encode(message) for message in MESSAGES)
    decoder = Decoder()
    received: list[Message] = []
    at = 0
    for size in [*cuts, len(stream)]:
        received += decoder.feed(stream[at : at + size])
        at += size

    assert received == MESSAGES


@pytest.mark.parametrize(
    "stream",
    [
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x02\x00\x00\x00\x00\x00\x00\x00[]",
        b"\x02\x00\x00\x00\x00\x00\x00\x00{}",
        b"\x0f\x00\x00\x00\x00\x00\x00\x00" + b'{"kind":"Evil"}',
        b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"kind":"Flush"}',
    ],
)
def test_nonsense_is_refused(stream: bytes) -> None:
    with pytest.raises(WireError):
        list(Decoder().feed(stream))


@pytest.mark.parametrize("address", ["", "unix:", "tcp://host", "http://host:1", "/run/x.sock"])
def test_address_names_what_would_be_right(address: str) -> None:
    with pytest.raises(api.ConfigError, match="unix:/path"):
        split_address(address)
