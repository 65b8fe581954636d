"""The stages over a real model: eagerly on a CPU, as kernels and graphs on CUDA.

`build` makes them from configuration. A row that fails is found by running its batch one by one, so
that it never takes its neighbours down.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from engine.api import Info, Open
from engine.config import ModelConfig
from engine.model.checkpoint import Checkpoint, load, load_random, locate
from engine.model.random_weights import full_size, is_random
from engine.prompt import AUTO, languages
from engine.stages import settings
from engine.stages.device import Run, prepare
from engine.stages.memory import plan
from engine.stages.state import PROMPT_ROWS
from engine.stages.talker import FAILED
from engine.stages.tickets import FinishedTicket, JoinedTicket
from engine.text.feed import TextFeed
from engine.work import FAST_ROWS, Batch, Stage, Stream, Ticket, Work

logger = logging.getLogger(__name__)

TINY = 512  # hidden width up to which a second thread costs more than it brings


class ModelStages:
    """`engine.work.Stages` over a loaded checkpoint."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str,
        slots: int,
        rows: int,
        segment_seconds: float,
        normalise: bool,
        codec_dtype: torch.dtype = torch.float32,
        overlap: bool = True,
        deterministic: bool = False,
    ) -> None:
        """Allocate the state of `slots` utterances.

        Args:
            name: what clients are told that speaks.
            rows: most works in one batch.
            segment_seconds: s of speech per prompt.
            normalise: spell numbers out before speaking them.
            codec_dtype: of the fused codec on CUDA; the eager one always decodes in fp32.
            overlap: on CUDA, run first sounds and chunks beside the steps of the others.
            deterministic: let company change no code that is drawn.
        """
        voice, talker = checkpoint.settings, checkpoint.config.talker
        self._checkpoint = checkpoint
        self._rows = rows
        self._segment_seconds = segment_seconds
        self._normalise = normalise
        self._info = Info(
            model=name,
            voices=_default_first(talker.spk_id, voice.default_voice),
            default_voice=voice.default_voice,
            languages=languages(talker),
            instructions=voice.instructions and checkpoint.config.instructions,
            slots=slots,
        )
        self._device = prepare(
            checkpoint,
            slots=slots,
            rows=rows,
            segment_seconds=segment_seconds,
            codec_dtype=codec_dtype,
            overlap=overlap,
            deterministic=deterministic,
        )

    @property
    def info(self) -> Info:
        """What this checkpoint speaks."""
        return self._info

    def check(self, options: Open) -> str:
        """Return the error code for options this checkpoint cannot do, or ""."""
        if options.voice and options.voice.lower() not in self._info.voices:
            return "unsupported_voice"
        if options.language.lower() not in (AUTO, *self._info.languages):
            return "unsupported_language"
        if options.instructions and not self._can_follow(options.instructions):
            return "unsupported_instructions"
        return ""

    def text(self) -> TextFeed:
        """A fresh feed that tokenises one utterance's text."""
        return TextFeed(
            self._checkpoint.tokenizer.body,
            limit_seconds=self._segment_seconds,
            normalise=self._normalise,
        )

    @property
    def streams(self) -> Collection[Stream]:
        """What runs side by side."""
        return self._device.streams

    def rows(self, stage: Stage, stream: Stream = Stream.MAIN) -> int:
        """The same for every stage; few on the fast stream."""
        return min(self._rows, FAST_ROWS) if stream is Stream.FAST else self._rows

    @torch.inference_mode()
    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> Ticket:
        """Run a batch; rows that fail have an outcome that says so."""
        self._device.enter(batch.stream, after)
        if batch.stage in self._device.singly:
            parts = [batch._replace(works=[work]) for work in batch.works]
            return JoinedTicket([self._contained(part) for part in parts])
        return self._contained(batch)

    @torch.inference_mode()
    def release(self, slot: int) -> None:
        """Forget the codec's past; the rest is set anew by the next prefill."""
        self._device.release(slot)

    def _contained(self, batch: Batch) -> Ticket:
        """Run a batch; if that fails, each of its works alone."""
        run = partial(self._device.run[batch.stage], stream=batch.stream)
        try:
            return run(batch.works)
        except torch.AcceleratorError:
            raise  # the device is lost for everyone: the process must end
        except Exception:
            ids = ",".join(work.utterance.options.utterance for work in batch.works)
            logger.exception("launch_failed stage=%s utterances=%s", batch.stage, ids)
            if len(batch.works) == 1:
                return FinishedTicket([FAILED])
        return JoinedTicket([_alone(run, work) for work in batch.works])

    def _can_follow(self, instructions: str) -> bool:
        length = len(self._checkpoint.tokenizer.instruct(instructions))
        return self._info.instructions and length < PROMPT_ROWS


def build(config: ModelConfig) -> ModelStages:
    """Load the configured checkpoint and allocate its slots.

    Raises: ConfigError for a device or dtype that does not exist here, or segments beyond what a
    slot can hold; CheckpointError.
    """
    checkpoint = _checkpoint(config)
    voice = checkpoint.settings
    codec_dtype = settings.codec_dtype(config.codec_dtype, checkpoint.talker.device)
    seconds = settings.segment_seconds(config.segment_seconds, voice.segment_seconds)
    is_tiny = checkpoint.config.talker.hidden_size <= TINY
    torch.set_num_threads(settings.threads(config.threads, tiny=is_tiny))
    if config.deterministic:
        logger.info("deterministic rows=%d", config.rows)
    return ModelStages(
        checkpoint,
        name=checkpoint.path.name if Path(config.checkpoint).is_dir() else config.checkpoint,
        slots=_slots(config, checkpoint, seconds, codec_dtype),
        rows=config.rows,
        segment_seconds=seconds,
        normalise=settings.normalise(config.normalise, voice.normalise),
        codec_dtype=codec_dtype,
        overlap=config.overlap,
        deterministic=config.deterministic,
    )


def _checkpoint(config: ModelConfig) -> Checkpoint:
    device = settings.device(config.device)
    dtype = settings.dtype(config.dtype, device)
    if is_random(config.checkpoint):
        return load_random(full_size(config.checkpoint), device=device, dtype=dtype)
    return load(locate(config.checkpoint), device=device, dtype=dtype)


def _slots(
    config: ModelConfig, checkpoint: Checkpoint, segment_seconds: float, codec_dtype: torch.dtype
) -> int:
    """Return the utterances to allocate for; of a card, report what its memory is for."""
    talker = checkpoint.talker
    if talker.device.type != "cuda":
        return config.slots_without_card
    torch.cuda.empty_cache()  # loading left holes that others cannot use
    planned = plan(
        checkpoint.config,
        free=torch.cuda.mem_get_info(talker.device)[0],
        rows=config.rows,
        segment_seconds=segment_seconds,
        itemsize=talker.like.itemsize,
        codec_itemsize=codec_dtype.itemsize,
    )
    logger.info("memory_planned %s", planned)
    slots = config.slots or planned.slots
    if not planned.holds(slots):
        logger.warning("memory_short slots=%d room=%d", slots, planned.slots)
    return slots


def _alone(run: Run, work: Work) -> Ticket:
    try:
        return run([work])
    except torch.AcceleratorError:
        raise
    except Exception:  # logged with its batch
        return FinishedTicket([FAILED])


def _default_first(voices: Iterable[str], default: str) -> tuple[str, ...]:
    """Order voices as a list to choose from: whoever does not choose gets the first."""
    return tuple(sorted(voices, key=lambda voice: voice != default))
