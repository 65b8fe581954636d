import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.api import Sampling
from engine.model.config import GenerationConfig, TalkerConfig, read_config
from engine.sampling import (
    CounterDraw,
    Knobs,
    Sampler,
    TalkerRules,
    predictor_knobs,
    talker_knobs,
    uniforms,
)
from tests.engine.random_checkpoint import CODES, EOS, VOCABULARY, make

CPU = torch.device("cpu")
NEVER = -torch.inf


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> TalkerConfig:
    folder: Path = tmp_path_factory.mktemp("sampling") / "checkpoint"
    return read_config(make(folder)).talker


def logits(rows: int, vocabulary: int, seed: int = 0) -> Tensor:
    """Random logits with the many ties of bfloat16."""
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(rows, vocabulary, generator=generator)).bfloat16().float()


def forbidden(probabilities: Tensor, group: int) -> Tensor:
    raise AssertionError("a greedy row draws nothing")


def one_by_one(row: Tensor, knobs: Knobs) -> Tensor:
    """The same pipeline, naively, for one row."""
    scores = [value / knobs.temperature for value in row.tolist()]
    if 0 < knobs.top_k < len(scores):
        worst = sorted(scores)[-knobs.top_k]
        scores = [value if value >= worst else NEVER for value in scores]
    probabilities = torch.tensor(scores).softmax(-1)
    if knobs.top_p < 1:
        order = sorted(range(len(scores)), key=lambda index: (scores[index], index))
        total = 0.0
        for index in order[:-1]:
            total += probabilities[index].item()
            if total <= 1 - knobs.top_p:
                scores[index] = NEVER
    return torch.tensor(scores).softmax(-1)


KNOBS = [
    Knobs(temperature=0.9, top_k=50, top_p=1.0),
    Knobs(temperature=1.0, top_k=0, top_p=1.0),
    Knobs(temperature=0.7, top_k=5, top_p=0.8),
    Knobs(temperature=1.3, top_k=0, top_p=0.3),
    Knobs(temperature=1.0, top_k=1, top_p=1.0),
    Knobs(temperature=1.0, top_k=9999, top_p=1e-9),
]


def test_rows_with_different_knobs_each_get_their_own_pipeline() -> None:
    rows = logits(len(KNOBS), 200)

    together = Sampler(KNOBS, 200, CPU).probabilities(rows)

    for row, knobs, probabilities in zip(rows, KNOBS, together, strict=True):
        torch.testing.assert_close(probabilities, one_by_one(row, knobs), rtol=1e-5, atol=1e-7)


def test_top_k_keeps_ties() -> None:
    row = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]])

    kept = Sampler([Knobs(1.0, 2, 1.0)], 5, CPU).probabilities(row)[0] > 0

    assert kept.tolist() == [True, True, True, True, False]


def test_top_p_keeps_the_token_that_crosses_the_threshold() -> None:
    row = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()

    kept = Sampler([Knobs(1.0, 0, 0.6)], 4, CPU).probabilities(row)[0] > 0

    assert kept.tolist() == [True, True, False, False]


def test_a_batch_of_greedy_rows_draws_nothing() -> None:
    rows = logits(2, 50)

    ids = Sampler([Knobs(0.0, 50, 1.0)] * 2, 50, CPU).choose(rows, 0, forbidden)

    assert ids.tolist() == rows.argmax(-1).tolist()


def test_greedy_and_drawn_rows_share_a_batch() -> None:
    rows = logits(2, 50)

    ids = Sampler([Knobs(0.0, 50, 1.0), Knobs(1.0, 0, 1.0)], 50, CPU).choose(
        rows, 3, lambda probabilities, group: torch.full((2,), 40 + group)
    )

    assert ids.tolist() == [rows[0].argmax().item(), 43]


def test_wishes_beat_the_checkpoint() -> None:
    default = GenerationConfig(temperature=0.5, subtalker_top_k=7)
    wish = Sampling(temperature=0.1, top_k=3, predictor_top_p=0.4)

    assert talker_knobs(default, wish) == Knobs(0.1, 3, 1.0, 1.05)
    assert predictor_knobs(default, wish) == Knobs(0.9, 7, 0.4)
    assert talker_knobs(default, None) == Knobs(0.5, 50, 1.0, 1.05)


def test_a_checkpoint_may_ask_for_greedy_and_a_wish_may_undo_it() -> None:
    greedy = GenerationConfig(do_sample=False, subtalker_dosample=False)

    assert talker_knobs(greedy, None).temperature == 0
    assert predictor_knobs(greedy, None).temperature == 0
    assert talker_knobs(greedy, Sampling(temperature=0.6)).temperature == 0.6


# ---------------------------------------------------------------- code 0


def apply(
    config: TalkerConfig, row: Tensor, *, seen: list[int], penalty: float, eos_allowed: bool
) -> Tensor:
    history = torch.zeros(1, VOCABULARY, dtype=torch.bool)
    history[0, seen] = True
    return TalkerRules(config, CPU).apply(
        row,
        seen=history,
        penalty=torch.tensor([[penalty]]),
        eos_allowed=torch.tensor([eos_allowed]),
    )


def test_only_codes_and_end_of_speech_can_be_drawn(config: TalkerConfig) -> None:
    allowed = apply(config, logits(1, VOCABULARY), seen=[], penalty=1.0, eos_allowed=True)

    assert allowed.isfinite().nonzero()[:, 1].tolist() == [*range(CODES), EOS]


def test_end_of_speech_can_be_forbidden(config: TalkerConfig) -> None:
    allowed = apply(config, logits(1, VOCABULARY), seen=[], penalty=1.0, eos_allowed=False)

    assert allowed.isfinite().nonzero()[:, 1].tolist() == [*range(CODES)]


def test_repeated_codes_are_pushed_down_whatever_their_sign(config: TalkerConfig) -> None:
    row = torch.zeros(1, VOCABULARY)
    row[0, :3] = torch.tensor([2.0, -2.0, 2.0])

    penalised = apply(config, row, seen=[0, 1], penalty=2.0, eos_allowed=True)

    assert penalised[0, :3].tolist() == [1.0, -4.0, 2.0]


def test_rules_leave_the_logits_themselves_alone(config: TalkerConfig) -> None:
    row = logits(1, VOCABULARY)
    before = row.clone()

    apply(config, row, seen=[1], penalty=2.0, eos_allowed=False)

    assert torch.equal(row, before)


# ----------------------------------------------------------- random numbers


def draw_uniforms(**changes: int) -> float:
    counter = {"seed": 5, "segment": 1, "frame": 7, "group": 3} | changes
    values = uniforms(
        [counter["seed"]], [counter["segment"]], [counter["frame"]], groups=16, device=CPU
    )
    return values[0, counter["group"]].item()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 6},
        {"seed": 5 + 2**32},
        {"seed": -1},
        {"segment": 2},
        {"frame": 8},
        {"group": 4},
        {"segment": 7, "frame": 1},
    ],
)
def test_every_part_of_the_counter_matters(change: dict[str, int]) -> None:
    assert draw_uniforms(**change) != draw_uniforms()


def test_the_same_counter_gives_the_same_number() -> None:
    assert draw_uniforms() == draw_uniforms()


def test_numbers_are_uniform_over_frames_and_groups() -> None:
    values = uniforms([0] * 2000, [0] * 2000, list(range(2000)), groups=16, device=CPU)

    assert values.min() >= 0
    assert values.max() < 1
    shares = torch.histc(values, bins=20, min=0, max=1) / values.numel()
    assert (shares - 0.05).abs().max() < 0.005
    neighbours = torch.corrcoef(torch.stack((values[:, 0], values[:, 1])))[0, 1]
    assert neighbours.abs() < 0.08


def test_draws_follow_the_probabilities() -> None:
    frames = 8000
    probabilities = torch.tensor([0.0, 0.6, 0.0, 0.3, 0.1, 0.0])
    draw = CounterDraw([3] * frames, [0] * frames, range(frames), groups=1, device=CPU)

    ids = draw(probabilities.expand(frames, -1), 0)

    shares = torch.bincount(ids, minlength=6) / frames
    torch.testing.assert_close(shares, probabilities, rtol=0, atol=0.02)
    assert shares[probabilities == 0].sum() == 0


def test_the_largest_number_still_draws_a_possible_id() -> None:
    draw = CounterDraw([0], [0], [0], groups=1, device=CPU)
    draw._uniforms = torch.tensor([[1 - 2.0**-23]])
    generator = torch.Generator().manual_seed(1)

    for _ in range(200):
        probabilities = torch.randn(1, 2048, generator=generator).softmax(-1)
        probabilities[0, 2000:] = 0

        assert draw(probabilities, 0) < 2000


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    rows = logits(3, 300)
    knobs = [Knobs(0.9, 50, 1.0), Knobs(0.7, 0, 0.9), Knobs(1.2, 10, 1.0)]
    seeds, frames = [1, 2, 3], [4, 5, 6]

    together = Sampler(knobs, 300, CPU).choose(
        rows, 2, CounterDraw(seeds, [0] * 3, frames, groups=16, device=CPU)
    )

    for index in range(3):
        draw = CounterDraw([seeds[index]], [0], [frames[index]], groups=16, device=CPU)
        alone = Sampler([knobs[index]], 300, CPU).choose(rows[index : index + 1], 2, draw)
        assert alone.item() == together[index].item()


def test_knobs_can_be_remembered() -> None:
    """Samplers are cached by their rows' knobs."""
    assert len({KNOBS[0], dataclasses.replace(KNOBS[0])}) == 1
