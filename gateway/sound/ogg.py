"""Ogg-Opus, page by page: RFC 3533 pages, RFC 7845 headers. Sans-I/O; no libopus needed.

One logical stream per utterance: one serial, one first and one last page, granule positions that
only grow. Each call answers with whole pages, so no sound waits for a page to fill.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from engine.api import SAMPLE_RATE
from gateway.sound import PACKET_TICKS, TICKS_PER_SAMPLE

CONTENT_TYPE = "audio/ogg"
_FIRST, _LAST = 2, 4  # page flags
_SEGMENTS = 255  # lacing values in one page at most
_PAGE = struct.Struct("<4sBBqIIIB")
_HEAD = struct.Struct("<8sBBHIhB")
_CRC_AT = 22  # offset of the checksum in a page
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))  # bits of each byte, mirrored


class OggOpus:
    """Muxes the 20 ms packets of one utterance: `start`, then `add`, then `finish` once."""

    def __init__(self, *, pre_skip: int, serial: int) -> None:
        """
        Args:
            pre_skip: 48 kHz ticks the listener drops at the start.
            serial: u32, different for each stream.
        """
        self._pre_skip = pre_skip
        self._serial = serial
        self._sequence = 0
        self._ticks = 0  # of all packets muxed so far

    def start(self) -> bytes:
        """The two header pages, each on its own as RFC 7845 wants."""
        head = _HEAD.pack(b"OpusHead", 1, 1, self._pre_skip, SAMPLE_RATE, 0, 0)
        vendor = b"playhead"
        tags = b"OpusTags" + struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", 0)
        return self._page([head], granule=0, flags=_FIRST) + self._page([tags], granule=0, flags=0)

    def add(self, packets: Sequence[bytes]) -> bytes:
        """Pages that hold the packets; nothing for no packets."""
        return b"".join(self._pages(packets, end=None))

    def finish(self, packets: Sequence[bytes], *, samples: int) -> bytes:
        """The last pages.

        Args:
            packets: the encoder's tail, at least one.
            samples: of the whole stream, at SAMPLE_RATE; the listener cuts what the packets hold
                beyond.
        """
        assert packets, "the last page carries the encoder's tail"
        return b"".join(self._pages(packets, end=self._pre_skip + samples * TICKS_PER_SAMPLE))

    def _pages(self, packets: Sequence[bytes], *, end: int | None) -> Iterator[bytes]:
        groups = list(_grouped(packets))
        for number, group in enumerate(groups, start=1):
            self._ticks += len(group) * PACKET_TICKS
            last = end is not None and number == len(groups)
            granule = end if end is not None and last else self._ticks
            yield self._page(group, granule=granule, flags=_LAST if last else 0)

    def _page(self, packets: Sequence[bytes], *, granule: int, flags: int) -> bytes:
        lacing = b"".join(map(_lacing, packets))
        sequence, self._sequence = self._sequence, self._sequence + 1
        head = _PAGE.pack(b"OggS", 0, flags, granule, self._serial, sequence, 0, len(lacing))
        page = bytearray(head + lacing + b"".join(packets))
        struct.pack_into("<I", page, _CRC_AT, checksum(bytes(page)))
        return bytes(page)


def checksum(page: bytes) -> int:
    """Ogg's CRC of a page whose checksum field is zero.

    Ogg takes zlib's polynomial most significant bit first, from zero and without inversion;
    mirrored bits in and out turn one into the other, at the speed of C.
    """
    mirrored = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_REVERSED), "big")


def _grouped(packets: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Packets by page: as many as fit, none split across pages."""
    group: list[bytes] = []
    segments = 0
    for packet in packets:
        wanted = len(packet) // 255 + 1
        if segments + wanted > _SEGMENTS:
            yield group
            group, segments = [], 0
        group.append(packet)
        segments += wanted
    if group:
        yield group


def _lacing(packet: bytes) -> bytes:
    """A packet's length as Ogg writes it: 255 as often as it fits, then the rest."""
    whole, rest = divmod(len(packet), 255)
    return b"\xff" * whole + bytes([rest])
