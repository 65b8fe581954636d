"""Ogg-Opus is read as it was written, packet by packet and to the sample."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.ogg_reader import OggError, OggReader, ticks
from gateway.sound.ogg import OggOpus

PACKET = 0x08  # one frame of 20 ms


def stream(sizes: list[int], *, samples: int) -> tuple[list[bytes], bytes]:
    packets = [bytes([PACKET]) + bytes(size) for size in sizes]
    muxer = OggOpus(pre_skip=312, serial=9)
    data = muxer.start() + muxer.add(packets[:-1]) + muxer.finish(packets[-1:], samples=samples)
    return packets, data


@given(
    st.lists(st.integers(0, 700), min_size=2, max_size=8),
    st.lists(st.integers(1, 300), max_size=20),
)
def test_packets_and_length_survive_any_reads(sizes: list[int], reads: list[int]) -> None:
    samples = 480 * len(sizes) - 200
    packets, data = stream(sizes, samples=samples)
    reader = OggReader()
    found = []
    at = 0
    for read in (*reads, len(data)):
        found += reader.add(data[at : at + read])
        at += read

    assert [packet for packet, _ in found] == packets
    assert sum(heard for _, heard in found) == samples
    assert reader.pre_skip == 312


def test_first_packet_is_shorter_by_the_pre_skip() -> None:
    _, data = stream([5, 5, 5], samples=1_000)

    heard = [samples for _, samples in OggReader().add(data)]

    assert heard[0] == 480 - 312 // 2


@pytest.mark.parametrize(
    ("packet", "length"),
    [
        (bytes([1 << 3]), 960),  # SILK, 20 ms
        (bytes([3 << 3]), 2_880),  # SILK, 60 ms
        (bytes([13 << 3]), 960),  # hybrid, 20 ms
        (bytes([28 << 3]), 120),  # CELT, 2.5 ms
        (bytes([31 << 3 | 1]), 1_920),  # CELT, two of 20 ms
        (bytes([31 << 3 | 3, 5]), 4_800),  # CELT, five of 20 ms
    ],
)
def test_length_of_a_packet_stands_in_its_first_bytes(packet: bytes, length: int) -> None:
    assert ticks(packet) == length


@pytest.mark.parametrize("data", [b"RIFF" + bytes(60), stream([1, 1], samples=9)[1][56:]])
def test_other_containers_are_refused(data: bytes) -> None:
    with pytest.raises(OggError):
        list(OggReader().add(data))


def test_stream_of_another_codec_is_refused() -> None:
    page = struct.pack("<4sBBqIIIB", b"OggS", 0, 2, 0, 1, 0, 0, 1) + bytes([8]) + b"\x01vorbis\0"

    with pytest.raises(OggError, match="OpusHead"):
        list(OggReader().add(page))
