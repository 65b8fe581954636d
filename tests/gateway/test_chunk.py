"""The binary message: every field survives, and nothing else is taken for one."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.chunk import HEADER_BYTES, MAX_PACKETS, Chunk, ChunkError, Codec, Flag, unpack

U32 = st.integers(0, 2**32 - 1)
CHUNKS = st.builds(
    Chunk,
    codec=st.just(Codec.OPUS),
    flags=st.sampled_from([Flag(0), Flag.FIRST, Flag.LAST | Flag.SEGMENT_END]),
    n=st.integers(0, 65_535),
    seq=U32,
    start=U32,
    duration=U32,
    packets=st.lists(st.binary(max_size=80), min_size=1, max_size=MAX_PACKETS).map(tuple),
    sent_at=U32,
)


def pcm_chunk(pcm: bytes = b"\x01\x02\x03\x04") -> Chunk:
    return Chunk(Codec.PCM, Flag.FIRST, 7, 1, 96, 4, (pcm,), 123)


@given(CHUNKS)
def test_opus_chunk_comes_back_whole(chunk):
    message = chunk.pack(chunk.sent_at)

    assert unpack(message) == chunk
    assert len(message) == chunk.size


def test_pcm_chunk_comes_back_whole():
    chunk = pcm_chunk()

    assert unpack(chunk.pack(123)) == chunk
    assert len(chunk.pack(123)) == chunk.size == HEADER_BYTES + 4


def test_header_is_the_documented_one():
    message = Chunk(Codec.OPUS, Flag.LAST, 0x0102, 3, 4, 5, (b"ab", b"c")).pack(2**32 + 6)

    assert message == bytes([0x11, 1]) + struct.pack("<HHHIIII", 2, 0x0102, 2, 3, 4, 5, 6) + (
        struct.pack("<HH", 2, 1) + b"abc"
    )


def test_unknown_flag_bits_are_ignored():
    message = bytearray(pcm_chunk().pack(0))
    message[3] = 0x80

    assert unpack(bytes(message)).flags == Flag.FIRST


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[:-1],  # half a sample
        lambda m: m[:20],
        lambda m: b"",
        lambda m: b"\x21" + m[1:],  # a later version
        lambda m: m[:1] + b"\x07" + m[2:],  # an unknown codec
        lambda m: m[:6] + b"\x02\x00" + m[8:],  # two pieces of PCM
        lambda m: m[:1] + b"\x01" + m[2:],  # Opus lengths that do not add up
    ],
)
def test_what_does_not_add_up_is_refused(change):
    with pytest.raises(ChunkError):
        unpack(change(pcm_chunk().pack(0)))


@given(st.binary(max_size=200))
def test_noise_gives_a_chunk_or_the_one_error(noise):
    try:
        chunk = unpack(bytes([0x11]) + noise)
    except ChunkError:
        return

    assert chunk.size == 1 + len(noise)
