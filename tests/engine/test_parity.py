"""Equality with the official package, whose outputs are in tests/parity/golden.

fp32 on the CPU: in bfloat16 even two correct implementations differ in codes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import Sampling
from engine.model.checkpoint import EMBEDDED, Checkpoint, load
from engine.model.tokenizer import TextTokenizer
from engine.prompt import step_text
from engine.segment import Segment
from tests.engine.generating import Generated, generate, greedy, prompt_for
from tests.engine.random_checkpoint import make
from tests.parity.cases import TOKENIZED, Case, all_cases

GOLDEN = Path(__file__).parents[1] / "parity" / "golden"
CASES = all_cases()
DETAILED = [case for case in CASES if case.details]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    folder = tmp_path_factory.mktemp("checkpoints")
    paths = {
        "1b7": make(folder / "1b7", size="1b7", seed=0),
        "0b6": make(folder / "0b6", size="0b6", seed=1),
        "eos": make(folder / "eos", size="1b7", seed=2, eos_always=True),
        "embedded": EMBEDDED,
    }
    cpu = torch.device("cpu")
    return {name: load(path, device=cpu, dtype=torch.float32) for name, path in paths.items()}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "language.npz") as arrays:
        return dict(arrays)


def closed_segment(checkpoint: Checkpoint, case: Case) -> Segment:
    tokens = checkpoint.tokenizer.body(case.text)
    return Segment(0, len(case.text), tokens, closed=True, whole=case.whole)


def official_draw(probabilities: Tensor, group: int) -> Tensor:
    """One global generator, code 0 to code 15: the order of the official loop."""
    return torch.multinomial(probabilities, 1)[:, 0]


def speak(checkpoint: Checkpoint, case: Case) -> Generated:
    segment = closed_segment(checkpoint, case)
    prompt = prompt_for(
        checkpoint,
        segment,
        voice=case.speaker,
        language=case.language,
        instructions=case.instructions,
    )
    if case.seed is None:
        sampling = Sampling(temperature=0.0, predictor_temperature=0.0, repetition_penalty=1.05)
        return generate(
            checkpoint, prompt, segment, frames=case.tokens - 1, sampling=sampling, draw=greedy
        )
    torch.manual_seed(case.seed)
    sampling = Sampling(top_p=case.top_p, predictor_top_p=case.top_p)
    return generate(
        checkpoint, prompt, segment, frames=case.tokens - 1, sampling=sampling, draw=official_draw
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_codes_equal_the_official_ones(
    case: Case, checkpoints: dict[str, Checkpoint], golden: dict[str, np.ndarray]
) -> None:
    generated = speak(checkpoints[case.checkpoint], case)

    np.testing.assert_array_equal(generated.codes.numpy(), golden[f"{case.name}.codes"])


@pytest.mark.parametrize("case", DETAILED, ids=[case.name for case in DETAILED])
def test_prompt_rows_equal_the_official_ones(
    case: Case, checkpoints: dict[str, Checkpoint], golden: dict[str, np.ndarray]
) -> None:
    generated = speak(checkpoints[case.checkpoint], case)

    np.testing.assert_allclose(generated.rows, golden[f"{case.name}.rows"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", DETAILED, ids=[case.name for case in DETAILED])
def test_text_fed_with_each_step_equals_the_official_one(
    case: Case, checkpoints: dict[str, Checkpoint], golden: dict[str, np.ndarray]
) -> None:
    checkpoint = checkpoints[case.checkpoint]
    segment = closed_segment(checkpoint, case)
    trailing = golden[f"{case.name}.trailing"]
    steps = range(1, len(trailing) + 1)

    fed = checkpoint.talker.text(
        torch.tensor([step_text(checkpoint.config, segment, step) for step in steps])
    )

    np.testing.assert_allclose(fed, trailing, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", DETAILED, ids=[case.name for case in DETAILED])
def test_logits_of_prefill_and_steps_equal_the_official_ones(
    case: Case, checkpoints: dict[str, Checkpoint], golden: dict[str, np.ndarray]
) -> None:
    generated = speak(checkpoints[case.checkpoint], case)

    official = golden[f"{case.name}.logits"]
    ours = torch.cat(generated.logits[: len(official)])
    np.testing.assert_allclose(ours, official, rtol=0, atol=1e-4)


def test_end_of_speech_at_once_still_gives_two_frames(
    checkpoints: dict[str, Checkpoint],
) -> None:
    case = next(case for case in CASES if case.name == "ends-at-once")

    generated = speak(checkpoints["eos"], case)

    assert len(generated.codes) == 2


@pytest.mark.parametrize("template", ["body", "instruct"])
@pytest.mark.parametrize("index", range(len(TOKENIZED)))
def test_tokens_equal_the_official_ones(template: str, index: int) -> None:
    official = json.loads((GOLDEN / "tokens.json").read_text(encoding="utf-8"))[template][index]
    tokenizer = TextTokenizer(EMBEDDED)

    ours = getattr(tokenizer, template)(TOKENIZED[index])

    assert ours == (official[3:-5] if template == "body" else official)
