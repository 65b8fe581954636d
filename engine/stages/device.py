"""How works run, and on what: PyTorch's operations one by one, or kernels and graphs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from engine.model.checkpoint import Checkpoint
from engine.stages.codec import CodecStage
from engine.stages.predictor import PredictorStage
from engine.stages.state import SlotState, allocate
from engine.stages.streams import DeviceStreams
from engine.stages.talker import TalkerStage
from engine.stages.tickets import FinishedTicket
from engine.work import ONE_STREAM, Outcome, Stage, Stream, Ticket, Work

logger = logging.getLogger(__name__)

Run = Callable[..., Ticket]  # (works, stream)


@dataclass(frozen=True, slots=True)
class Device:
    """What runs the stages of one checkpoint."""

    run: dict[Stage, Run]
    release: Callable[[int], None]  # a slot
    singly: Collection[Stage] = ()  # stages whose works run one after the other
    streams: Collection[Stream] = ONE_STREAM
    enter: Callable[[Stream, Sequence[Ticket]], None] = lambda stream, after: None


def prepare(
    checkpoint: Checkpoint,
    *,
    slots: int,
    rows: int,
    segment_seconds: float,
    codec_dtype: torch.dtype,
    overlap: bool,
    deterministic: bool,
) -> Device:
    """Allocate the state of `slots` utterances where the checkpoint lies, for `ModelStages`.

    On CUDA, one slot more takes the padding of batches.
    """
    on_cuda = checkpoint.talker.device.type == "cuda"
    state = allocate(checkpoint, slots=slots + on_cuda, segment_seconds=segment_seconds)
    if not on_cuda or not _fits(checkpoint):
        return _eager(checkpoint, state, slots=slots, deterministic=deterministic)
    return _captured(
        checkpoint,
        state,
        DeviceStreams(checkpoint.talker.device, overlap=overlap),
        slots=slots,
        rows=rows,
        codec_dtype=codec_dtype,
        deterministic=deterministic,
    )


def _fits(checkpoint: Checkpoint) -> bool:
    """Whether kernels can do the checkpoint's sizes; else it runs eagerly, on CUDA too."""
    from engine.stages import cuda  # lazily: it needs Triton

    fits = cuda.fits(checkpoint)
    if not fits:
        logger.warning("checkpoint_runs_eagerly: no kernels for its heads' width or vocabulary")
    return fits


def _eager(checkpoint: Checkpoint, state: SlotState, *, slots: int, deterministic: bool) -> Device:
    """The reference: PyTorch's operations, over when they return.

    Args:
        deterministic: draw codes for one work at a time: the library's products cut their sums by
            the number of rows.
    """
    talker = TalkerStage(checkpoint, state)
    codec = CodecStage(
        checkpoint.config.codec,
        checkpoint.codec_tensors(),
        slots=slots,
        codes=state.codes,
        device=checkpoint.talker.device,
    )
    run = {
        Stage.PREFILL: _finished(talker.prefill),
        Stage.TALKER: _finished(talker.step),
        Stage.PREDICTOR: _finished(PredictorStage(checkpoint, state).frame),
        Stage.CODEC: _finished(codec.launch),
    }
    singly = [each for each in Stage if deterministic and each is not Stage.CODEC]
    return Device(run, codec.release, singly)


def _captured(
    checkpoint: Checkpoint,
    state: SlotState,
    streams: DeviceStreams,
    *,
    slots: int,
    rows: int,
    codec_dtype: torch.dtype,
    deterministic: bool,
) -> Device:
    """Kernels and graphs; nothing waits for the device."""
    from engine.stages.codec_cuda import CudaCodecStage  # lazily: they need Triton
    from engine.stages.cuda import CudaGeneration

    with torch.inference_mode():
        generation = CudaGeneration(
            checkpoint, state, rows=rows, streams=streams, deterministic=deterministic
        )
        codec = CudaCodecStage(
            checkpoint.config.codec,
            checkpoint.codec_tensors(),
            slots=slots,
            codes=state.codes,
            rows=rows,
            streams=streams,
            dtype=codec_dtype,
        )
    run: dict[Stage, Run] = {
        Stage.PREFILL: generation.prefill,
        Stage.TALKER: generation.step,
        Stage.PREDICTOR: generation.frame,
        Stage.CODEC: codec.launch,
    }
    return Device(run, codec.release, streams=streams.names, enter=streams.enter)


def _finished(run: Callable[[Sequence[Work]], Sequence[Outcome]]) -> Run:
    return lambda works, stream: FinishedTicket(run(works))
