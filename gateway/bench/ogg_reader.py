"""Ogg-Opus as it arrives over HTTP → packets and the number of samples they add. Sans-I/O.

The inverse of `gateway/sound/ogg.py`, for anybody's stream with one logical stream, mono or stereo.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

TICKS_PER_SAMPLE = 2  # 48 kHz granules to 24 kHz samples
_PAGE = struct.Struct("<4sBBqIIIB")
_CONTINUED, _LAST = 1, 4
_FRAME_TICKS = (480, 960, 1920, 2880)  # SILK: 10, 20, 40, 60 ms
_SHORT_TICKS = (120, 240, 480, 960)  # CELT: 2.5, 5, 10, 20 ms


class OggError(ValueError):
    """The body is no Ogg-Opus stream."""


class OggReader:
    """Feed bytes; take packets with the audible samples each of them adds."""

    def __init__(self) -> None:
        self.pre_skip = 0  # ticks
        self._bytes = b""
        self._partial = b""
        self._packets = 0  # seen, headers included
        self._ticks = 0  # audible or skipped so far

    def add(self, received: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each complete packet and its samples at 24 kHz. Raises OggError."""
        self._bytes += received
        while (page := self._page()) is not None:
            yield from self._audible(*page)

    def _page(self) -> tuple[list[bytes], int, int] | None:
        """The next whole page: packets completed on it, flags, granule."""
        if len(self._bytes) < _PAGE.size:
            return None
        magic, _, flags, granule, _, _, _, segments = _PAGE.unpack_from(self._bytes)
        if magic != b"OggS":
            raise OggError(f"body: want an Ogg page, got: {magic!r}")
        lacing = self._bytes[_PAGE.size : _PAGE.size + segments]
        start = _PAGE.size + segments
        end = start + sum(lacing)
        if len(lacing) < segments or len(self._bytes) < end:
            return None
        payload, self._bytes = self._bytes[start:end], self._bytes[end:]
        return self._split(payload, lacing, continued=bool(flags & _CONTINUED)), flags, granule

    def _split(self, payload: bytes, lacing: bytes, *, continued: bool) -> list[bytes]:
        packets, at = [], 0
        current = self._partial if continued else b""
        for length in lacing:
            current += payload[at : at + length]
            at += length
            if length < 255:
                packets.append(current)
                current = b""
        self._partial = current
        return packets

    def _audible(
        self, packets: list[bytes], flags: int, granule: int
    ) -> Iterator[tuple[bytes, int]]:
        for packet in packets:
            self._packets += 1
            if self._packets == 1:
                if packet[:8] != b"OpusHead":
                    raise OggError(f"body: want OpusHead, got: {packet[:8]!r}")
                self.pre_skip = struct.unpack_from("<H", packet, 10)[0]
            if self._packets <= 2:
                continue
            before, self._ticks = self._ticks, self._ticks + ticks(packet)
            if flags & _LAST:  # the last page says where the sound ends
                self._ticks = max(before, min(self._ticks, granule))
            heard = max(self._ticks, self.pre_skip) - max(before, self.pre_skip)
            yield packet, heard // TICKS_PER_SAMPLE


def ticks(packet: bytes) -> int:
    """Length of an Opus packet in 48 kHz ticks, from its first bytes (RFC 6716, 3.1)."""
    if not packet:
        raise OggError("packet: want at least one byte, got: 0")
    mode = packet[0] >> 3
    if mode < 12:
        frame = _FRAME_TICKS[mode % 4]
    elif mode < 16:
        frame = _FRAME_TICKS[mode % 2]
    else:
        frame = _SHORT_TICKS[mode % 4]
    code = packet[0] & 3
    if code == 3 and len(packet) < 2:
        raise OggError("packet: want a count of frames after its first byte")
    return frame * {0: 1, 1: 2, 2: 2}.get(code, packet[1] & 63 if code == 3 else 1)
