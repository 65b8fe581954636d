from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.model.attention import KeyValueCache, allocate_cache
from engine.model.checkpoint import Checkpoint, load
from engine.model.talker import Talker
from tests.engine.random_checkpoint import make

LENGTHS = (9, 23, 14)
POSITIONS = 40

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("talker") / "checkpoint"
    return load(make(folder), device=torch.device("cpu"), dtype=torch.float32)


@pytest.fixture(scope="module")
def talker(checkpoint: Checkpoint) -> Talker:
    return checkpoint.talker


def make_cache(talker: Talker, slots: int = 5) -> KeyValueCache:
    cache = allocate_cache(talker.config, slots, POSITIONS, talker.like)
    cache.keys.fill_(9.0)  # what an earlier utterance left behind
    cache.values.fill_(-9.0)
    return cache


def random_rows(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, 64, generator=torch.Generator().manual_seed(seed))


def prompts() -> list[Tensor]:
    return [random_rows(length, seed=length) for length in LENGTHS]


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5)


def test_prompts_of_different_lengths_share_a_batch(talker: Talker) -> None:
    together = talker.prefill(prompts(), make_cache(talker), [3, 0, 4])

    for index, prompt in enumerate(prompts()):
        assert_same(together[index], talker.prefill([prompt], make_cache(talker), [0])[0])


@pytest.mark.parametrize("slots", [[3, 0, 4], [1, 2, 3], [2, 1, 0]])
def test_steps_of_slots_with_different_pasts_share_a_batch(
    talker: Talker, slots: list[int]
) -> None:
    shared = make_cache(talker)
    talker.prefill(prompts(), shared, slots)
    alone = [make_cache(talker) for _ in LENGTHS]
    for cache, prompt in zip(alone, prompts(), strict=True):
        talker.prefill([prompt], cache, [0])

    for step in range(3):
        inputs = random_rows(3, seed=step)
        positions = [length + step for length in LENGTHS]
        together = talker.step(inputs, shared, slots, positions)

        for index, cache in enumerate(alone):
            expected = talker.step(inputs[index : index + 1], cache, [0], [positions[index]])
            assert_same(together[index], expected[0])


def test_a_step_equals_the_prefill_of_everything_so_far(talker: Talker) -> None:
    prompt, cache = random_rows(12, seed=1), make_cache(talker)
    talker.prefill([prompt[:9]], cache, [2])

    stepped = [talker.step(prompt[at : at + 1], cache, [2], [at])[0] for at in (9, 10, 11)]

    for index, hidden in enumerate(stepped):
        whole = talker.prefill([prompt[: 10 + index]], make_cache(talker), [0])
        assert_same(hidden, whole[0])


def test_only_the_slots_of_a_batch_change(talker: Talker) -> None:
    cache = make_cache(talker)
    talker.prefill(prompts(), cache, [3, 0, 4])
    before = cache.keys[:, [1, 3]].clone()

    talker.step(random_rows(2, seed=0), cache, [0, 4], [23, 14])

    assert torch.equal(cache.keys[:, [1, 3]], before)


def test_a_frame_is_embedded_as_the_sum_of_its_codes_and_its_text(talker: Talker) -> None:
    codes = torch.arange(32).view(2, 16) * 7
    text = torch.tensor([5, 6])

    embedded = talker.frames(codes, text)

    tables = talker.code_tables()
    for row in range(2):
        parts = [tables[group][codes[row, group]] for group in range(16)]
        assert_same(embedded[row], torch.stack(parts).sum(0) + talker.text(text[row]))


def test_text_is_the_same_projected_at_load_or_on_demand(
    talker: Talker, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    monkeypatch.setattr("engine.model.talker.FOLDED_VOCABULARY", 0)
    on_demand = load(checkpoint.path, device=torch.device("cpu"), dtype=torch.float32).talker
    ids = torch.tensor([0, 17, 1017])

    assert_same(on_demand.text(ids), talker.text(ids))


def test_bfloat16_stays_near_fp32(talker: Talker, checkpoint: Checkpoint) -> None:
    rough = load(checkpoint.path, device=torch.device("cpu"), dtype=torch.bfloat16).talker
    prompt = random_rows(20, seed=3)
    exact = talker.logits(talker.prefill([prompt], make_cache(talker), [0]))

    rounded = rough.logits(rough.prefill([prompt.bfloat16()], make_cache(rough), [0]))

    assert rounded.dtype == torch.float32
    assert (rounded - exact).square().mean().sqrt() < 0.05 * exact.std()
