"""Ogg-Opus: the structure RFC 3533 and RFC 7845 ask for, read back by an independent reader."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from itertools import accumulate

import pytest

from engine.api import SAMPLE_RATE
from gateway.sound.ogg import OggOpus, checksum
from gateway.sound.opus import OpusDecoder, OpusEncoder


@dataclass
class Page:
    flags: int
    granule: int
    serial: int
    sequence: int
    packets: list[bytes]


def slow_checksum(data: bytes) -> int:
    """RFC 3533's CRC, bit by bit."""
    register = 0
    for byte in data:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1) ^ (0x04C11DB7 if register & 0x80000000 else 0)
        register &= 0xFFFFFFFF
    return register


def read(file: bytes) -> list[Page]:
    pages = []
    while file:
        magic, version, flags, granule, serial, sequence, crc, count = struct.unpack_from(
            "<4sBBqIIIB", file
        )
        lacing = file[27 : 27 + count]
        size = 27 + count + sum(lacing)
        assert (magic, version) == (b"OggS", 0)
        assert crc == slow_checksum(file[:22] + bytes(4) + file[26:size])
        pages.append(
            Page(flags, granule, serial, sequence, packets(file[27 + count : size], lacing))
        )
        file = file[size:]
    return pages


def packets(body: bytes, lacing: bytes) -> list[bytes]:
    assert not lacing or lacing[-1] < 255, "no packet runs over a page's end here"
    found, start, length = [], 0, 0
    for value in lacing:
        length += value
        if value < 255:
            found.append(body[start : start + length])
            start, length = start + length, 0
    return found


def tone(samples: int) -> bytes:
    angle = 2 * math.pi * 313 / SAMPLE_RATE
    return struct.pack(
        f"<{samples}h", *(round(9_000 * math.sin(angle * i)) for i in range(samples))
    )


def muxed(pcm: bytes, *, chunk: int = 3_840) -> bytes:
    encoder = OpusEncoder()
    muxer = OggOpus(pre_skip=encoder.pre_skip, serial=77)
    file = muxer.start()
    for start in range(0, len(pcm), chunk):
        file += muxer.add(encoder.encode(pcm[start : start + chunk]))
    return file + muxer.finish(encoder.finish(), samples=encoder.samples)


def heard(file: bytes) -> bytes:
    """What a player plays: all packets decoded, pre-skip dropped, cut at the last granule."""
    pages = read(file)
    pre_skip = struct.unpack_from("<H", pages[0].packets[0], 10)[0]
    decoder = OpusDecoder()
    pcm = b"".join(decoder.decode(packet) for page in pages[2:] for packet in page.packets)
    return pcm[pre_skip : pages[-1].granule]  # 2 bytes a sample, 2 ticks a sample


@pytest.mark.parametrize("samples", [7_200, 24_000, 47_520, 23 * 1_920 + 777], ids=str)
def test_file_is_as_long_as_the_sound(samples: int) -> None:
    pcm = tone(samples)

    sound = heard(muxed(pcm))

    assert len(sound) == len(pcm)
    last, spoken = (struct.unpack("<240h", piece[-480:]) for piece in (sound, pcm))
    dot = sum(a * b for a, b in zip(last, spoken, strict=True))
    assert dot / math.sqrt(sum(a * a for a in last) * sum(b * b for b in spoken)) > 0.95


def test_one_stream_begins_once_and_ends_once() -> None:
    pages = read(muxed(tone(30_000)))

    assert [bool(page.flags & 2) for page in pages] == [True] + [False] * (len(pages) - 1)
    assert [bool(page.flags & 4) for page in pages] == [False] * (len(pages) - 1) + [True]
    assert {page.serial for page in pages} == {77}
    assert [page.sequence for page in pages] == list(range(len(pages)))


def test_granules_grow_and_count_every_packet_but_the_last_page() -> None:
    pages = read(muxed(tone(30_000)))

    granules = [page.granule for page in pages]
    counted = accumulate(960 * len(page.packets) for page in pages[2:-1])
    assert granules == sorted(granules)
    assert granules[:2] == [0, 0]
    assert granules[2:-1] == list(counted)
    assert granules[-1] == 312 + 2 * 30_000


def test_headers_stand_on_pages_of_their_own() -> None:
    head, tags = read(OggOpus(pre_skip=312, serial=1).start())

    assert head.packets == [b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 312, 24_000, 0, 0)]
    assert tags.packets == [b"OpusTags" + struct.pack("<I", 8) + b"playhead" + bytes(4)]


def test_each_chunk_is_a_page_at_once() -> None:
    muxer = OggOpus(pre_skip=312, serial=1)

    pages = read(muxer.add([b"a" * 74] * 4))

    assert [page.packets for page in pages] == [[b"a" * 74] * 4]


@pytest.mark.parametrize("length", [1, 254, 255, 256, 510, 1_275])
def test_packets_of_any_length_survive_the_lacing(length: int) -> None:
    sent = [bytes([n]) * length for n in range(3)]

    pages = read(OggOpus(pre_skip=312, serial=1).add(sent))

    assert [packet for page in pages for packet in page.packets] == sent


def test_more_than_a_page_holds_becomes_two() -> None:
    pages = read(OggOpus(pre_skip=312, serial=1).finish([b"a" * 300] * 200, samples=90_000))

    assert [len(page.packets) for page in pages] == [127, 73]
    assert [page.granule for page in pages] == [127 * 960, 312 + 180_000]
    assert [page.flags for page in pages] == [0, 4]


def test_no_packets_make_no_page() -> None:
    assert OggOpus(pre_skip=312, serial=1).add([]) == b""


def test_fast_checksum_is_the_slow_one() -> None:
    data = bytes(range(256)) * 3

    assert checksum(data) == slow_checksum(data)
