"""Kernels with `deterministic`: a row comes out the same, bit for bit, whoever is beside it.

On a device in bfloat16, with products whose tiles depend on the number of rows; interpreted in
float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
import torch

from tests.engine.interpreting import DEVICE, ON_DEVICE  # isort: skip (before any kernel)
from engine.kernels.tile_table import tile_for
from engine.model.checkpoint import Checkpoint, load_random
from engine.stages.tune import shapes
from engine.utterance import Utterance
from engine.work import Stage
from tests.engine.direct_steps import KernelBench, without_graphs
from tests.engine.small_weights import small_checkpoint, tiled_config
from tests.engine.staging import speaking

ROWS = (8, 64) if ON_DEVICE else (2,)
FRAMES = 12 if ON_DEVICE else 2
STAGES = [Stage.PREFILL, Stage.PREDICTOR, *[Stage.TALKER, Stage.PREDICTOR] * (FRAMES - 1)]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    if ON_DEVICE:
        return load_random(tiled_config(), device=DEVICE, dtype=torch.bfloat16)
    return small_checkpoint(DEVICE)


@pytest.fixture(autouse=True)
def _without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    without_graphs(monkeypatch)


def crowd(checkpoint: Checkpoint, count: int) -> list[Utterance]:
    """One utterance for each slot, with texts of one word to nine."""
    return [
        speaking(checkpoint, "word " * (1 + slot % 9), slot=slot, seed=slot, voice="")
        for slot in range(count)
    ]


def speak_in_company(bench: KernelBench, utterances: Sequence[Utterance]) -> None:
    """Launch every stage in groups that chance divides anew, in any order."""
    chance = Random(5)
    for stage in STAGES:
        waiting = chance.sample(utterances, len(utterances))
        while waiting:
            count = chance.randint(1, len(waiting))
            bench.run(stage, waiting[:count])
            waiting = waiting[count:]


def same(one: KernelBench, other: KernelBench, slot: int) -> bool:
    """Whether a slot holds the same codes, and the same bits of what they were drawn from."""
    pairs = (
        (one.state.codes[slot, :FRAMES], other.state.codes[slot, :FRAMES]),
        (one.state.hidden[slot], other.state.hidden[slot]),
    )
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("rows", ROWS)
def test_company_changes_no_bit(checkpoint: Checkpoint, rows: int) -> None:
    together, alone = (KernelBench(checkpoint, rows=rows, deterministic=True) for _ in range(2))
    some = {0, rows // 2, rows - 1}  # slots

    speak_in_company(together, crowd(checkpoint, rows))
    for each in crowd(checkpoint, rows):
        if each.slot in some:
            alone.speak([each], FRAMES)

    assert all(same(together, alone, slot) for slot in some)


@pytest.mark.gpu
def test_without_it_company_shows(checkpoint: Checkpoint) -> None:
    together, alone = (KernelBench(checkpoint, rows=8) for _ in range(2))

    together.speak(crowd(checkpoint, 8), FRAMES)
    for each in crowd(checkpoint, 8):
        alone.speak([each], FRAMES)

    assert not all(same(together, alone, slot) for slot in range(8))


@pytest.mark.gpu
def test_streams_change_no_bit(checkpoint: Checkpoint) -> None:
    one, three = (
        KernelBench(checkpoint, rows=32, overlap=overlap, deterministic=True)
        for overlap in (False, True)
    )

    for bench in (one, three):
        bench.speak(crowd(checkpoint, 32), FRAMES)

    assert all(same(one, three, slot) for slot in range(32))


def test_rows_decide_on_the_tiles_of_every_product() -> None:
    config = tiled_config()

    for shape in (*shapes(config.talker), *shapes(config.predictor)):
        alone, together = (tile_for(shape, rows, torch.bfloat16) for rows in (1, 8))
        assert alone and alone != together
