"""CODEC batches as graph replays: slots and frames in, int16 in pinned memory out, nothing waits.

A graph is captured for each row count and chunk length. Rows that begin and rows that continue
share a replay; a chunk of a length that was not captured is decoded as two or more that were.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.graphs import Home, Launched, buckets, capture
from engine.model.codec import Codec
from engine.model.codec_fused import FusedCodec
from engine.model.codec_lane import FusedState
from engine.model.config import CodecConfig
from engine.pcm import as_bytes
from engine.stages.shapes import CHUNKS, FIRST_CHUNKS, divided
from engine.stages.streams import DeviceStreams
from engine.work import FAST_ROWS, ONE_STREAM, Outcome, Stream, Ticket, Work

logger = logging.getLogger(__name__)

FAILED = Outcome(error="generation_failed")


class CodecGraphs:
    """`FusedCodec.step`, captured for some shapes."""

    def __init__(
        self,
        codec: FusedCodec,
        codes: Tensor,
        state: FusedState,
        *,
        rows: int,
        chunks: Sequence[int],
        home: Home,
    ) -> None:
        """Capture every shape, the largest first, so that the others fit into its memory.

        Args:
            codes: (slots or more, capacity, groups) int64, where they will always be.
            state: may be shared with graphs that replay on another stream for other slots.
            rows: most rows in one batch.
            chunks: frames; 1 is among them.
            home: of these graphs and of those that never run beside them.
        """
        assert 1 in chunks, "chunks of other lengths are made of these"
        self.chunks = sorted(chunks, reverse=True)
        self.codec = codec
        self.state = state
        self.lane = codec.new_lane(buckets(rows)[-1] * max(chunks))
        self._codes = codes
        self._counts = buckets(rows)
        self._padding = [[state.spare], [0]]  # a row that begins in the spare slot
        self._plans: dict[int, Tensor] = {}
        self._captured: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        for count in reversed(self._counts):
            padding = torch.tensor(self._padding, dtype=torch.int32, device=codec.device)
            self._plans[count] = padding.repeat(1, count)
            for frames in self.chunks:
                self._captured[count, frames] = self._capture(count, frames, home)

    def launch(self, slots: Sequence[int], firsts: Sequence[int], frames: int) -> Launched:
        """Decode the next `frames` frames, one of `chunks`, of each slot; returns at once.

        Shapes: the results are (rows, samples + blocks) int16, as `FusedCodec.step` returns them.
        """
        count = self._counts[bisect_left(self._counts, len(slots))]
        plan = torch.empty(2, count, dtype=torch.int32, pin_memory=True)
        words = plan.numpy()
        words[:] = self._padding
        words[:, : len(slots)] = slots, firsts
        graph, sound = self._captured[count, frames]
        self._plans[count].copy_(plan, non_blocking=True)
        graph.replay()
        results = torch.empty(len(slots), sound.shape[1], dtype=torch.int16, pin_memory=True)
        results.copy_(sound[: len(slots)], non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return Launched(event, results)

    def _capture(self, count: int, frames: int, home: Home) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        plan, lane = self._plans[count], self.lane
        return capture(
            lambda: self.codec.step(plan, self._codes, self.state, lane, frames=frames), home
        )


@dataclass(frozen=True, slots=True)
class CodecTicket:
    """The chunks of one batch on their way."""

    launched: Sequence[Launched]  # one after the other in time
    samples: Sequence[int]  # per launch
    slots: Sequence[int]

    @property
    def event(self) -> torch.cuda.Event:
        """Happens when all sound is there."""
        return self.launched[-1].event

    def done(self) -> bool:
        """Has the device finished the last?"""
        return self.launched[-1].done()

    def wait(self, timeout: float) -> None:
        """Sleep until it is done or for `timeout` s."""
        self.launched[-1].wait(timeout)

    def outcomes(self) -> Sequence[Outcome]:
        """One per work; a row with a sample that is not finite fails alone."""
        return [self._outcome(row, slot) for row, slot in enumerate(self.slots)]

    def _outcome(self, row: int, slot: int) -> Outcome:
        parts = []
        for launched, samples in zip(self.launched, self.samples, strict=True):
            sound = launched.results.numpy()[row]
            if not sound[samples:].all():
                logger.error("codec_not_finite slot=%d", slot)
                return FAILED
            parts.append(as_bytes(sound[:samples]))
        return Outcome(pcm=b"".join(parts))


class CudaCodecStage:
    """Runs CODEC batches; owns what the codec remembers of every slot."""

    def __init__(
        self,
        config: CodecConfig,
        tensors: Mapping[str, Tensor],
        *,
        slots: int,
        codes: Tensor,
        rows: int,
        streams: DeviceStreams,
        dtype: torch.dtype = torch.float16,
        chunks: Sequence[int] = CHUNKS,
    ) -> None:
        """Load the codec and capture its graphs.

        Args:
            tensors: the checkpoint's, named `decoder.…`.
            codes: (slots or more, capacity, groups) int64; frame f of a slot at `f % capacity`.
            rows: most works in one batch.
            streams: where first chunks and later ones run beside everything else.
            dtype: of weights and activations.

        Raises: CheckpointError naming the tensor.
        """
        codec = FusedCodec(Codec.load(config, tensors, device=codes.device), dtype)
        state = codec.new_state(slots, longest=max(chunks))
        self._graphs = {}
        for stream in (Stream.FAST, Stream.SIDE) if Stream.SIDE in streams.names else ONE_STREAM:
            first = stream is Stream.FAST
            self._graphs[stream] = CodecGraphs(
                *(codec, codes, state),
                rows=min(rows, FAST_ROWS) if first else rows,
                chunks=[each for each in chunks if each in FIRST_CHUNKS] if first else chunks,
                home=streams.home(stream),
            )
        self._decoded = [0] * slots  # frames

    def launch(self, works: Sequence[Work], stream: Stream = Stream.MAIN) -> Ticket:
        """Decode the next frames of each work's utterance; returns at once.

        Args:
            works: at most one per slot, all of the same `frames`.
        """
        slots = [work.utterance.slot for work in works]
        firsts = [work.utterance.decoded for work in works]
        frames = works[0].frames
        assert all(work.frames == frames for work in works), "codec works of one batch differ"
        known = [
            self._decoded[slot] if first else 0 for slot, first in zip(slots, firsts, strict=True)
        ]
        assert firsts == known, f"codec: slots {slots} stand at {known}, not {firsts}"
        launched, samples = [], []
        graphs = self._graphs[stream]
        for chunk in divided(frames, graphs.chunks):
            launched.append(graphs.launch(slots, firsts, chunk))
            samples.append(chunk * graphs.codec.frame_samples)
            firsts = [first + chunk for first in firsts]
        for slot, first in zip(slots, firsts, strict=True):
            self._decoded[slot] = first
        return CodecTicket(launched, samples, slots)

    def release(self, slot: int) -> None:
        """Forget the slot's utterance."""
        self._decoded[slot] = 0
