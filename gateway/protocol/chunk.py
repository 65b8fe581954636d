"""The binary message of `voice.v1`: 24 bytes of header, packet lengths, packets or samples.

Sans-I/O. Little-endian throughout, because PCM and typed arrays are. `duration` is the truth, like
Ogg's granule position: what a chunk decodes to is cut to it, so the first chunk drops the encoder's
delay and the last its padding.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from itertools import accumulate, pairwise

HEADER_BYTES = 24
MAX_PACKETS = 50  # in one chunk
AUDIO_V1 = 0x11  # high nibble: version, low nibble: audio

_HEADER = struct.Struct("<BBHHHIIII")


class Codec(IntEnum):
    """How the payload is coded."""

    PCM = 0
    OPUS = 1


class Flag(IntFlag):
    """What is special about a chunk; unknown bits are ignored."""

    FIRST = 1
    LAST = 2
    DISCONTINUITY = 4  # reset the decoder
    SEGMENT_END = 8  # a good place to stop
    SILENCE = 16


class ChunkError(ValueError):
    """A binary message is no chunk of this version; drop it and count it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one utterance's sound as it travels."""

    codec: Codec
    flags: Flag
    n: int  # number of the utterance, u16
    seq: int  # 0, 1, 2, … per utterance
    start: int  # ticks: media position of the first audible sample
    duration: int  # ticks: audible
    packets: tuple[bytes, ...]  # Opus packets, or one piece of int16 LE samples
    sent_at: int = 0  # ms of the server's monotonic clock, modulo 2**32

    @property
    def end(self) -> int:
        """Ticks: where the next chunk starts."""
        return self.start + self.duration

    def pack(self, sent_at: int) -> bytes:
        """The message, stamped with the moment it leaves."""
        header = _HEADER.pack(
            AUDIO_V1,
            self.codec,
            self.flags,
            self.n,
            len(self.packets),
            self.seq,
            self.start,
            self.duration,
            sent_at & 0xFFFF_FFFF,
        )
        if self.codec is Codec.PCM:
            return header + self.packets[0]
        lengths = struct.pack(f"<{len(self.packets)}H", *map(len, self.packets))
        return b"".join((header, lengths, *self.packets))

    @property
    def size(self) -> int:
        """Bytes of the packed message."""
        table = 2 * len(self.packets) if self.codec is Codec.OPUS else 0
        return HEADER_BYTES + table + sum(map(len, self.packets))


def unpack(message: bytes) -> Chunk:
    """Read a binary message.

    Raises: ChunkError for anything whose lengths or version do not add up.
    """
    if len(message) < HEADER_BYTES:
        raise ChunkError(f"chunk: want at least {HEADER_BYTES} bytes, got: {len(message)}")
    kind, codec, flags, n, count, seq, start, duration, sent_at = _HEADER.unpack_from(message)
    if kind != AUDIO_V1:
        raise ChunkError(f"chunk: want version and kind {AUDIO_V1:#x}, got: {kind:#x}")
    if codec == Codec.PCM:
        packets = _samples(message, count)
    elif codec == Codec.OPUS:
        packets = _packets(message, count)
    else:
        raise ChunkError(f"chunk: unknown codec: {codec}")
    return Chunk(Codec(codec), Flag(flags & 31), n, seq, start, duration, packets, sent_at)


def _samples(message: bytes, count: int) -> tuple[bytes, ...]:
    pcm = message[HEADER_BYTES:]
    if count != 1 or len(pcm) % 2:
        raise ChunkError(f"chunk: want one piece of whole samples, got: {count}, {len(pcm)} bytes")
    return (pcm,)


def _packets(message: bytes, count: int) -> tuple[bytes, ...]:
    payload = HEADER_BYTES + 2 * count
    if not 1 <= count <= MAX_PACKETS or payload > len(message):
        raise ChunkError(f"chunk: want 1 to {MAX_PACKETS} packets and their lengths, got: {count}")
    lengths = struct.unpack_from(f"<{count}H", message, HEADER_BYTES)
    if payload + sum(lengths) != len(message):
        raise ChunkError(f"chunk: lengths want {payload + sum(lengths)} bytes, got: {len(message)}")
    borders = accumulate(lengths, initial=payload)
    return tuple(message[start:end] for start, end in pairwise(borders))
