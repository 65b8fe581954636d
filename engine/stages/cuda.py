"""PREFILL, TALKER and PREDICTOR batches as graph replays: words in, flags out, nothing waits.

The host writes sixteen words a row; everything else stays on the device. What a slot's utterance
asks of the sampler is written once, at its prefill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import compress

import numpy as np
import torch

from engine.api import Sampling
from engine.graphs import CudaGraphs, Launched, Shape, smallest
from engine.kernels.decoder import supported
from engine.kernels.pieces import chains
from engine.kernels.sampler import ENDED, FINITE
from engine.kernels.thresholds import LONGEST
from engine.model import rows as words
from engine.model.checkpoint import Checkpoint
from engine.model.config import GenerationConfig
from engine.model.rows import WIDTH, Words
from engine.prompt import Prompt
from engine.sampling import WORD, Knobs, predictor_knobs, talker_knobs
from engine.stages.cuda_steps import PredictorSteps, TalkerSteps
from engine.stages.shapes import first_frame_shapes, grouped, prompt_shapes, row_shapes
from engine.stages.state import SlotState
from engine.stages.streams import DeviceStreams
from engine.stages.talker import FAILED, TalkerStage
from engine.stages.tickets import FinishedTicket, JoinedTicket, SplicedTicket
from engine.utterance import Utterance
from engine.work import Outcome, Stream, Ticket, Work

STEP_WORDS = [
    words.POSITION, words.BEFORE, words.PLACE, words.TEXT, words.SEGMENT, words.STEP,
    words.EOS_ALLOWED,
]  # fmt: skip
FRAME_WORDS = [words.PLACE, words.SEGMENT, words.STEP]
DRAWING = slice(words.TEMPERATURE, words.PENALTY + 1)  # what an utterance asks of the sampler
SIGN = 1 << 31
GOES_ON, ENDS = Outcome(), Outcome(end_of_speech=True)


def fits(checkpoint: Checkpoint) -> bool:
    """Whether graphs and kernels can run this checkpoint; if not, it runs eagerly."""
    config = checkpoint.config
    decoders = config.talker, config.predictor
    return all(supported(each) and each.vocab_size <= LONGEST for each in decoders)


@dataclass(frozen=True, slots=True)
class FlagsTicket:
    """A replay whose rows tell end of speech and whether they were finite."""

    launched: Launched
    rows: int

    @property
    def event(self) -> torch.cuda.Event:
        """Happens when the results are there."""
        return self.launched.event

    def done(self) -> bool:
        """Has the device finished it?"""
        return self.launched.done()

    def wait(self, timeout: float) -> None:
        """Sleep until it is done or for `timeout` s."""
        self.launched.wait(timeout)

    def outcomes(self) -> Sequence[Outcome]:
        """One per work, in order."""
        return [
            (ENDS if flags & ENDED else GOES_ON) if flags & FINITE else FAILED
            for flags in self.launched.results.tolist()[: self.rows]
        ]


@dataclass(frozen=True, slots=True)
class FrameTicket(FlagsTicket):
    """A predictor replay: nothing is told but that it is over."""

    def outcomes(self) -> Sequence[Outcome]:
        """One per work, in order."""
        return [GOES_ON] * self.rows


class CudaGeneration:
    """The three generating stages of one device."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        state: SlotState,
        *,
        rows: int,
        streams: DeviceStreams,
        deterministic: bool = False,
        tiled: bool = True,
    ) -> None:
        """Capture every graph; `state` has one slot more than utterances, for padding.

        Args:
            rows: most works in one batch.
            streams: where prompts and first frames run beside everyone else's.
            deterministic: capture one shape for steps, however few works, and prompts one by one.
            tiled: use our product kernels where they were measured to be faster.
        """
        self._state = state
        self._scratch = state.codes.shape[0] - 1
        self._host = TalkerStage(checkpoint, state)
        self._generation = checkpoint.config.generation
        self._vocabularies = (
            checkpoint.config.talker.vocab_size,
            checkpoint.config.predictor.vocab_size,
        )
        slots = state.codes.shape[0]
        tiled = tiled and chains()  # the tiles were measured on Hopper; older cards lack the room
        self._talker_words = words.empty(slots, WIDTH, self._scratch)
        self._predictor_words = words.empty(slots, WIDTH, self._scratch)
        talker = TalkerSteps(checkpoint.talker, state, tiled=tiled)
        predictor = PredictorSteps(checkpoint.predictor, state, tiled=tiled)
        capture = partial(CudaGraphs, width=WIDTH, padding=self._padding, works=rows)
        fast, main = (streams.home(each) for each in (Stream.FAST, Stream.MAIN))
        prompts = prompt_shapes(state.cache.positions, deterministic=deterministic)
        steps = row_shapes(rows, deterministic=deterministic)
        self._blank = {
            shape.rows: words.empty(shape.rows, WIDTH, self._scratch)
            for shape in (*steps, *prompts)
        }
        self._prefill = capture(talker.prefill, prompts, home=fast)
        self._step = capture(talker.step, steps, home=main)
        self._frames = {Stream.MAIN: capture(predictor.frame, steps, home=main)}
        if Stream.FAST in streams.names:
            firsts = first_frame_shapes(rows, deterministic=deterministic)
            self._frames[Stream.FAST] = capture(predictor.frame, firsts, home=fast)

    def prefill(self, works: Sequence[Work], stream: Stream = Stream.MAIN) -> Ticket:
        """Start each work's segment; a few prompts a replay, those of like length together."""
        prompts = [self._host.prompt(work.utterance) for work in works]
        lengths = [len(prompt) for prompt in prompts]
        tickets = [
            self._start(works[part], prompts[part], shape)
            for part, shape in grouped(lengths, self._prefill.shapes)
        ]
        return tickets[0] if len(tickets) == 1 else JoinedTicket(tickets)

    def step(self, works: Sequence[Work], stream: Stream = Stream.MAIN) -> Ticket:
        """Draw code 0 of each work's next frame from the frame before it."""
        capacity, positions = self._state.capacity, self._state.cache.positions
        utterances = [work.utterance for work in works]
        values = [self._host.position(each) for each in utterances]
        if max(values) >= positions:
            return self._step_with_full(works, values)
        shape, batch = self._batch(self._step, self._talker_words, utterances)
        batch[: len(works), STEP_WORDS] = [
            (
                position,
                (each.frame - 1) % capacity,
                each.frame % capacity,
                self._host.text(each),
                each.segment_number,
                each.step,
                each.eos_allowed,
            )
            for each, position in zip(utterances, values, strict=True)
        ]
        return FlagsTicket(self._step.launch(shape, batch), len(works))

    def frame(self, works: Sequence[Work], stream: Stream = Stream.MAIN) -> Ticket:
        """Complete the frame whose code 0 was drawn last."""
        capacity, graphs = self._state.capacity, self._frames[stream]
        utterances = [work.utterance for work in works]
        shape, batch = self._batch(graphs, self._predictor_words, utterances)
        batch[: len(works), FRAME_WORDS] = [
            (each.frame % capacity, each.segment_number, each.step) for each in utterances
        ]
        return FrameTicket(graphs.launch(shape, batch), len(works))

    # ------------------------------------------------------------ internals

    def _batch(
        self, graphs: CudaGraphs, table: Words, utterances: Sequence[Utterance]
    ) -> tuple[Shape, Words]:
        """Return the smallest shape with room for all, and its inputs as far as `table` knows."""
        count = len(utterances)
        shape = smallest(graphs.shapes, count)
        assert shape is not None, f"more works than rows were captured: {count}"
        batch = self._blank[shape.rows].copy()
        slots = [each.slot for each in utterances]
        table.take(slots, axis=0, out=batch[:count], mode="clip")  # "raise" would copy once more
        return shape, batch

    def _start(self, works: Sequence[Work], prompts: Sequence[Prompt], shape: Shape) -> Ticket:
        flat = self._padding(shape)
        batch = flat[: shape.rows * WIDTH].reshape(shape.rows, WIDTH)
        tokens = flat[shape.rows * WIDTH :].reshape(2, shape.rows, shape.tokens)
        for row, (work, prompt) in enumerate(zip(works, prompts, strict=True)):
            utterance = work.utterance
            self._remember(utterance)
            batch[row] = self._talker_words[utterance.slot]
            batch[row, words.PLACE] = utterance.frame % self._state.capacity
            batch[row, words.SEGMENT] = utterance.segment_number
            batch[row, words.STEP] = utterance.step
            batch[row, words.EOS_ALLOWED] = utterance.eos_allowed
            batch[row, words.LENGTH] = len(prompt)
            tokens[0, row, : len(prompt)] = prompt.text
            tokens[1, row, len(prompt) - len(prompt.codes) : len(prompt)] = prompt.codes
        return FlagsTicket(self._prefill.launch(shape, flat), len(works))

    def _remember(self, utterance: Utterance) -> None:
        """Write the words that stay the same for a whole segment."""
        options, tables = utterance.options, (self._talker_words, self._predictor_words)
        low, high = _signed(options.seed), _signed(options.seed >> 32)
        both = _drawings(self._generation, self._vocabularies, options.sampling)
        for table, drawing in zip(tables, both, strict=True):
            row = table[utterance.slot]
            row[words.SLOT] = utterance.slot
            row[words.SEED_LOW], row[words.SEED_HIGH] = low, high
            row[DRAWING] = drawing

    def _step_with_full(self, works: Sequence[Work], values: Sequence[int]) -> Ticket:
        """Speech that outgrew its cache ends; the runaway guard should have acted before."""
        fits = [value < self._state.cache.positions for value in values]
        fitting = list(compress(works, fits))
        part = self.step(fitting) if fitting else FinishedTicket([])
        return SplicedTicket(part, fits, Outcome(end_of_speech=True))

    def _padding(self, shape: Shape) -> Words:
        """Inputs of a shape whose rows all stay inside the scratch slot."""
        flat = np.zeros(shape.words(WIDTH), np.int32)
        fixed, tokens = shape.rows * WIDTH, shape.rows * shape.tokens
        flat[:fixed] = self._blank[shape.rows].ravel()
        flat[fixed + tokens :] = -1  # no code joins
        return flat


@lru_cache(64)  # nearly all ask for the same
def _drawings(
    default: GenerationConfig, vocabularies: tuple[int, int], wish: Sampling | None
) -> tuple[Words, ...]:
    """Return the words `DRAWING` of Talker and predictor, for all who wish the same."""
    both = (talker_knobs(default, wish), predictor_knobs(default, wish))
    return tuple(_drawing(*each) for each in zip(both, vocabularies, strict=True))


def _drawing(knobs: Knobs, vocabulary: int) -> Words:
    row = np.zeros(WIDTH, np.int32)
    row[words.TOP_K] = min(knobs.top_k, vocabulary) or vocabulary
    floats = row.view(np.float32)
    floats[words.TEMPERATURE] = max(knobs.temperature, 0.0)
    floats[words.TOP_P] = knobs.top_p
    floats[words.PENALTY] = knobs.penalty
    row.flags.writeable = False
    return row[DRAWING]


def _signed(number: int) -> int:
    """Return the int32 with the last 32 bits of a number."""
    return (number + SIGN & WORD) - SIGN
