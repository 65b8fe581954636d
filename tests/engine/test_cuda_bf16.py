"""Full size in bfloat16: kernels drift from fp32 no further than PyTorch's operations do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.engine.interpreting import DEVICE  # isort: skip (before any kernel)
from engine.graphs import Shape
from engine.model.attention import allocate_cache
from engine.model.checkpoint import Checkpoint, load_random
from engine.model.random_weights import full_size
from engine.model.rows import BEFORE, LENGTH, PLACE, POSITION, SLOT, TEXT, WIDTH, empty
from engine.stages import cuda_steps
from engine.stages.state import SlotState, allocate

pytestmark = pytest.mark.gpu

PROMPT = 41  # rows
DRIFT = 0.03  # rms of the difference to fp32, of the rms of the logits
ROWS = (1, 2, 3, 8, 32)


@pytest.fixture(scope="module")
def wide() -> Checkpoint:
    return load_random(full_size("random:1.7b"), device=DEVICE, dtype=torch.float32)


@pytest.fixture(scope="module")
def narrow() -> Checkpoint:
    return load_random(full_size("random:1.7b"), device=DEVICE, dtype=torch.bfloat16)


def drift(logits: Tensor, exact: Tensor) -> float:
    return float((logits.double() - exact.double()).norm() / exact.double().norm())


def codes(rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(2048, (rows, 16), generator=generator).to(DEVICE)


def eager_talker(checkpoint: Checkpoint, rows: int) -> tuple[Tensor, Tensor]:
    """Logits after a prompt and after one step behind it, row by row of different lengths."""
    talker = checkpoint.talker
    cache = allocate_cache(checkpoint.config.talker, rows, 128, talker.like)
    prompts = [
        talker.text(torch.arange(300, 300 + PROMPT + row, device=DEVICE)) for row in range(rows)
    ]
    slots = list(range(rows))
    first = talker.logits(talker.prefill(prompts, cache, slots))
    text = torch.full((rows,), 77, device=DEVICE)
    positions = [PROMPT + row for row in range(rows)]
    hidden = talker.step(talker.frames(codes(rows), text), cache, slots, positions)
    return first, talker.logits(hidden)


def kernel_talker(checkpoint: Checkpoint, rows: int, state: SlotState) -> tuple[Tensor, Tensor]:
    """The same through the steps that are captured; the logits are those of the kept hidden."""
    steps = cuda_steps.TalkerSteps(checkpoint.talker, state)
    flags = torch.zeros(rows, dtype=torch.int32, device=DEVICE)
    words = torch.from_numpy(empty(rows, WIDTH, state.codes.shape[0] - 1)).to(DEVICE)
    count = torch.arange(rows, device=DEVICE)
    words[:, SLOT] = count
    words[:, LENGTH] = PROMPT + count
    length = 64 if PROMPT + rows <= 64 else 128  # attention in one kernel, and in several
    shape = Shape(rows, length)
    text = torch.zeros(rows, length, dtype=torch.int32, device=DEVICE)
    for row in range(rows):
        text[row, : PROMPT + row] = torch.arange(300, 300 + PROMPT + row, device=DEVICE)
    none = torch.full_like(text, -1)
    steps.prefill(torch.cat((words.flatten(), text.flatten(), none.flatten())), flags, shape)
    first = checkpoint.talker.logits(state.hidden[:rows])
    state.codes[:rows, 0] = codes(rows)
    words[:, POSITION] = PROMPT + count
    words[:, BEFORE], words[:, PLACE], words[:, TEXT] = 0, 1, 77
    steps.step(words.flatten(), flags, Shape(rows))
    return first, checkpoint.talker.logits(state.hidden[:rows])


@pytest.mark.parametrize("rows", ROWS)
@torch.inference_mode()
def test_talker_logits_drift_no_further_than_eager_ones(
    wide: Checkpoint, narrow: Checkpoint, rows: int
) -> None:
    exact = eager_talker(wide, rows)
    eager = eager_talker(narrow, rows)
    state = allocate(narrow, slots=rows + 1, segment_seconds=4.0)

    logits = kernel_talker(narrow, rows, state)

    for name, one, other, truth in zip(("prefill", "step"), logits, eager, exact, strict=True):
        kernels, reference = drift(one, truth), drift(other, truth)
        print(f"drift talker {name} rows={rows} kernels={kernels:.4f} eager={reference:.4f}")
        assert kernels < DRIFT
        assert kernels < 1.25 * reference + 0.002


@pytest.mark.parametrize("rows", ROWS)
@torch.inference_mode()
def test_predictor_logits_drift_no_further_than_eager_ones(
    wide: Checkpoint, narrow: Checkpoint, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced = codes(rows)
    hidden = torch.randn(rows, 2048, device=DEVICE).bfloat16()

    def eager(checkpoint: Checkpoint) -> list[Tensor]:
        seen: list[Tensor] = []

        def choose(logits: Tensor, group: int) -> Tensor:
            seen.append(logits)
            return forced[:, group]

        like = hidden.to(checkpoint.talker.like.dtype)
        checkpoint.predictor.frame(like, forced[:, 0], choose)
        return seen

    exact, reference = eager(wide), eager(narrow)
    state = allocate(narrow, slots=rows + 1, segment_seconds=4.0)
    state.hidden[:rows] = hidden
    state.codes[:rows, 0] = forced
    words = torch.from_numpy(empty(rows, WIDTH, rows)).to(DEVICE)
    words[:, SLOT] = torch.arange(rows, device=DEVICE)
    seen: list[Tensor] = []
    monkeypatch.setattr(cuda_steps, "draw_next", _recorder(seen, forced))

    steps = cuda_steps.PredictorSteps(narrow.predictor, state)
    steps.frame(words.flatten(), torch.zeros(rows, dtype=torch.int32, device=DEVICE), Shape(rows))

    kernels = [drift(one, truth) for one, truth in zip(seen, exact, strict=True)]
    plain = [drift(one, truth) for one, truth in zip(reference, exact, strict=True)]
    print(f"drift predictor rows={rows} kernels={max(kernels):.4f} eager={max(plain):.4f}")
    assert max(kernels) < DRIFT
    assert sum(kernels) < 1.25 * sum(plain) + 0.002


def _recorder(seen: list[Tensor], forced: Tensor) -> Callable[..., None]:
    def draw_next(
        logits: Tensor,
        rows: Tensor,
        codes: Tensor,
        group: int,
        *,
        table: Tensor | None,
        out: Tensor,
    ) -> None:
        seen.append(logits.float())
        if table is not None:
            out.copy_(table[forced[:, group]])

    return draw_next
