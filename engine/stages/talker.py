"""Prefill and Talker steps: code 0 of the next frame, and whether it says that speech has ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from engine.model.checkpoint import Checkpoint
from engine.prompt import Prompt, assemble, header, step_text
from engine.sampling import CounterDraw, Sampler, TalkerRules, talker_knobs
from engine.stages.state import SlotState
from engine.utterance import Utterance
from engine.work import Outcome, Work

logger = logging.getLogger(__name__)

FAILED = Outcome(error="generation_failed")


class TalkerStage:
    """Runs PREFILL and TALKER batches on the shared slot state."""

    def __init__(self, checkpoint: Checkpoint, state: SlotState) -> None:
        self._checkpoint = checkpoint
        self._talker = checkpoint.talker
        self._state = state
        config, device = checkpoint.config.talker, checkpoint.talker.device
        self._rules = TalkerRules(config, device)
        self._eos = config.codec_eos_token_id
        self._sampler = lru_cache(64)(lambda knobs: Sampler(knobs, config.vocab_size, device))

    def prompt(self, utterance: Utterance) -> Prompt:
        """Assemble the prompt of the utterance's current segment, and note its length.

        Raises: ValueError if the cache is too short for it.
        """
        segment, options = utterance.segment, utterance.options
        assert segment is not None
        config, tokenizer = self._checkpoint.config, self._checkpoint.tokenizer
        voice = options.voice.lower() or self._checkpoint.settings.default_voice
        prompt = assemble(
            config,
            instructions=tokenizer.instruct(options.instructions),
            role=tokenizer.role,
            header=header(config.talker, voice, options.language.lower()),
            body=segment.tokens,
            whole=segment.whole,
        )
        if len(prompt) >= self._state.cache.positions:
            raise ValueError(
                f"prefill: want a prompt of less than {self._state.cache.positions} rows, "
                f"got: {len(prompt)}"
            )
        self._state.prompt_rows[utterance.slot] = len(prompt)
        return prompt

    def prefill(self, works: Sequence[Work]) -> list[Outcome]:
        """Start each work's segment: its prompt into the cache, code 0 of its first frame."""
        state = self._state
        slots = [work.utterance.slot for work in works]
        prompts = [self.prompt(work.utterance) for work in works]
        state.seen[torch.tensor(slots, device=self._talker.device)] = False
        embedded = [self._talker.prompt(prompt) for prompt in prompts]
        return self._draw(works, self._talker.prefill(embedded, state.cache, slots))

    def step(self, works: Sequence[Work]) -> list[Outcome]:
        """Draw code 0 of each work's next frame from the frame before it."""
        state, device = self._state, self._talker.device
        full = [self.position(work.utterance) >= state.cache.positions for work in works]
        if any(full):
            return self._step_with_full(works, full)
        slots = [work.utterance.slot for work in works]
        places = [(work.utterance.frame - 1) % state.capacity for work in works]
        text = torch.tensor([self.text(work.utterance) for work in works], device=device)
        codes = state.codes[
            torch.tensor(slots, device=device), torch.tensor(places, device=device)
        ]  # (rows, groups)
        positions = [self.position(work.utterance) for work in works]
        hidden = self._talker.step(self._talker.frames(codes, text), state.cache, slots, positions)
        return self._draw(works, hidden)

    def _step_with_full(self, works: Sequence[Work], full: Sequence[bool]) -> list[Outcome]:
        """Speech that outgrew its cache ends; the runaway guard should have acted before."""
        fitting = [work for work, is_full in zip(works, full, strict=True) if not is_full]
        outcomes = iter(self.step(fitting) if fitting else ())
        logger.warning("segment_outgrew_cache rows=%d", sum(full))
        return [Outcome(end_of_speech=True) if is_full else next(outcomes) for is_full in full]

    def position(self, utterance: Utterance) -> int:
        """Cache position of the next step's token."""
        return self._state.prompt_rows[utterance.slot] + utterance.step - 1

    def text(self, utterance: Utterance) -> int:
        """Text id that joins the next step's input."""
        segment = utterance.segment
        assert segment is not None
        return step_text(self._checkpoint.config, segment, utterance.step)

    def _draw(self, works: Sequence[Work], hidden: Tensor) -> list[Outcome]:
        """Draw code 0 from (rows, hidden) and keep it, with the hidden state, for the predictor."""
        utterances = [work.utterance for work in works]
        state, device = self._state, hidden.device
        slots = torch.tensor([each.slot for each in utterances], device=device)
        places = [each.frame % state.capacity for each in utterances]
        default = self._checkpoint.config.generation
        knobs = tuple(talker_knobs(default, each.options.sampling) for each in utterances)
        penalties = [each.penalty for each in knobs]
        penalty = None
        if any(each != 1 for each in penalties):
            penalty = torch.tensor(penalties, device=device)[:, None]
        logits = self._rules.apply(
            self._talker.logits(hidden),
            seen=state.seen[slots],
            penalty=penalty,
            eos_allowed=torch.tensor([each.eos_allowed for each in utterances], device=device),
        )
        codes = self._sampler(knobs).choose(logits, 0, counter(utterances, groups=1, device=device))
        state.hidden[slots] = hidden
        state.seen[slots, codes] = True
        state.codes[slots, torch.tensor(places, device=device), 0] = codes
        ends = (codes == self._eos).tolist()
        finite = hidden.isfinite().all(-1).tolist()
        if not all(finite):
            self._clean(slots[[not well for well in finite]])
        return [
            Outcome(end_of_speech=end) if well else FAILED
            for end, well in zip(ends, finite, strict=True)
        ]

    def _clean(self, slots: Tensor) -> None:
        """Take what is not finite out of the cache: masked or not, 0 times NaN is NaN."""
        logger.error("talker_not_finite slots=%s", slots.tolist())
        self._state.cache.keys[:, slots] = 0
        self._state.cache.values[:, slots] = 0


def counter(utterances: Sequence[Utterance], *, groups: int, device: torch.device) -> CounterDraw:
    """Make each utterance's random numbers for the frame it works on."""
    return CounterDraw(
        [each.options.seed for each in utterances],
        [each.segment_number for each in utterances],
        [each.step for each in utterances],
        groups=groups,
        device=device,
    )
