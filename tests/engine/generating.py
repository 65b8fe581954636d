"""The model's parts in their plainest loop: one prompt, one row, until speech ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.api import Sampling
from engine.model.attention import allocate_cache
from engine.model.checkpoint import Checkpoint
from engine.prompt import Prompt, assemble, header, step_text
from engine.sampling import Draw, Sampler, TalkerRules, predictor_knobs, talker_knobs
from engine.segment import MIN_FRAMES, Segment

torch.set_num_threads(1)  # tiny matrices: more threads are slower

GREEDY = Sampling(temperature=0.0, predictor_temperature=0.0)


@dataclass
class Generated:
    """Everything that came out."""

    prompt: Prompt
    rows: Tensor  # (prompt rows, hidden)
    codes: Tensor  # (frames, 16)
    logits: list[Tensor] = field(default_factory=list)  # of each step, before any rule


def greedy(probabilities: Tensor, group: int) -> Tensor:
    raise AssertionError("greedy decoding draws nothing")


def prompt_for(
    checkpoint: Checkpoint,
    segment: Segment,
    *,
    voice: str,
    language: str,
    instructions: str = "",
) -> Prompt:
    tokenizer, config = checkpoint.tokenizer, checkpoint.config
    return assemble(
        config,
        instructions=tokenizer.instruct(instructions),
        role=tokenizer.role,
        header=header(config.talker, voice, language),
        body=segment.tokens,
        whole=segment.whole,
    )


@torch.inference_mode()
def generate(
    checkpoint: Checkpoint,
    prompt: Prompt,
    segment: Segment,
    *,
    frames: int,
    sampling: Sampling = GREEDY,
    draw: Draw = greedy,
) -> Generated:
    """Speak a closed segment, at most `frames` frames."""
    config, talker = checkpoint.config, checkpoint.talker
    knobs = talker_knobs(config.generation, sampling)
    first = Sampler([knobs], config.talker.vocab_size, talker.device)
    rest = Sampler(
        [predictor_knobs(config.generation, sampling)], config.predictor.vocab_size, talker.device
    )
    rules = TalkerRules(config.talker, talker.device)
    cache = allocate_cache(config.talker, 1, len(prompt) + frames + 1, talker.like)
    seen = torch.zeros(1, config.talker.vocab_size, dtype=torch.bool)
    rows = talker.prompt(prompt)
    hidden = talker.prefill([rows], cache, [0])
    logits: list[Tensor] = []
    made: list[Tensor] = []
    choose: Callable[[Tensor, int], Tensor] = lambda each, group: rest.choose(each, group, draw)  # noqa: E731
    while True:
        logits.append(talker.logits(hidden))
        allowed = rules.apply(
            logits[-1],
            seen=seen,
            penalty=torch.tensor([[knobs.penalty]]),
            eos_allowed=torch.tensor([len(made) >= MIN_FRAMES]),
        )
        code = first.choose(allowed, 0, draw)
        if code.item() == config.talker.codec_eos_token_id or len(made) == frames:
            break
        seen[0, code] = True
        others = checkpoint.predictor.frame(hidden, code, choose)
        made.append(torch.cat((code[:, None], others), 1))
        text = torch.tensor([step_text(config, segment, len(made))])
        position = len(prompt) + len(made) - 1
        hidden = talker.step(talker.frames(made[-1], text), cache, [0], [position])
    codes = torch.cat(made) if made else torch.zeros(0, 16, dtype=torch.int64)
    return Generated(prompt, rows, codes, logits)
