"""From the engine's PCM to the pieces a chunk carries, each with the truth about its length.

The durations of an utterance's pieces sum to exactly its samples: the first piece is short by the
encoder's delay, the last by its padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.protocol.chunk import Codec
from gateway.sound import PACKET_TICKS, TICKS_PER_SAMPLE
from gateway.sound.opus import OpusEncoder
from gateway.sound.pool import EncoderPool

PIECE_PACKETS = 48  # 0.96 s: longest piece, whatever the engine delivers
PIECE_BYTES = PIECE_PACKETS * 960  # the same in int16 samples at 24 kHz


@dataclass(frozen=True, slots=True)
class Piece:
    """What one chunk carries."""

    packets: tuple[bytes, ...]
    duration: int  # ticks, audible


class Coder(Protocol):
    """One utterance's way from PCM to pieces."""

    codec: Codec

    async def code(self, pcm: bytes, last: bool) -> Sequence[Piece]:
        """Take the next PCM, of any length; `last` also pushes out what waits."""


class PcmCoder:
    """Samples as they are."""

    codec = Codec.PCM

    async def code(self, pcm: bytes, last: bool) -> Sequence[Piece]:
        """Cut into pieces; a last one is given even if empty, to carry the flag."""
        starts = range(0, len(pcm), PIECE_BYTES) or (range(1) if last else range(0))
        cuts = [pcm[start : start + PIECE_BYTES] for start in starts]
        return [Piece((cut,), len(cut) // 2 * TICKS_PER_SAMPLE) for cut in cuts]


class OpusCoder:
    """20 ms packets from one encoder; encoding runs on the pool's threads."""

    codec = Codec.OPUS

    def __init__(self, encoder: OpusEncoder, pool: EncoderPool) -> None:
        self._encoder = encoder
        self._pool = pool
        self._skip = encoder.pre_skip  # ticks still to be dropped
        self._coded = 0  # ticks given out

    async def code(self, pcm: bytes, last: bool) -> Sequence[Piece]:
        """Packets completed by `pcm`; at the end the rest, cut to the samples there were."""
        if not pcm and not last:
            return []
        packets = await self._pool.encode(self._encoder, pcm, last=last)
        groups = [
            tuple(packets[start : start + PIECE_PACKETS])
            for start in range(0, len(packets), PIECE_PACKETS)
        ]
        pieces = [self._piece(group) for group in groups]
        if last and pieces:
            surplus = self._coded - self._encoder.samples * TICKS_PER_SAMPLE
            pieces[-1] = Piece(pieces[-1].packets, pieces[-1].duration - surplus)
        return pieces

    def _piece(self, packets: tuple[bytes, ...]) -> Piece:
        duration = len(packets) * PACKET_TICKS - self._skip
        self._skip = 0
        self._coded += duration
        return Piece(packets, duration)
