"""Kernels equal the plain operations that they stand for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.engine.interpreting import DEVICE  # isort: skip (before any kernel)
from engine.kernels.norm import rms_norm, swiglu
from engine.kernels.sampler import ENDED, FINITE, FirstCode, draw_first, draw_next
from engine.kernels.tile_table import ADD, STORE, SWIGLU, TILES, Tile
from engine.kernels.tiles import Scratch, product
from engine.model import layers
from engine.model import rows as words
from engine.model.random_weights import full_size
from engine.model.rows import WIDTH
from engine.sampling import CounterDraw, Knobs, Sampler, TalkerRules
from tests.engine.small_weights import small_config

VOCABULARY = 200
KNOBS = (
    Knobs(0.0, 0, 1.0),
    Knobs(0.9, 50, 1.0, 1.05),
    Knobs(1.3, 0, 1.0),
    Knobs(0.7, 5, 0.8, 1.3),
    Knobs(1.0, 0, 0.5),
    Knobs(0.9, 1, 1.0),
)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE)


def rows_of(knobs: tuple[Knobs, ...], *, vocabulary: int, step: int) -> Tensor:
    """Words of one row per knobs, each in its own slot."""
    table = words.empty(len(knobs), WIDTH, 0)
    table[:, words.SLOT] = range(len(knobs))
    table[:, words.SEED_LOW] = range(7, 7 + len(knobs))
    table[:, words.SEED_HIGH] = 3
    table[:, words.SEGMENT] = 1
    table[:, words.STEP] = step
    table[:, words.EOS_ALLOWED] = [row % 2 for row in range(len(knobs))]
    table[:, words.TOP_K] = [each.top_k or vocabulary for each in knobs]
    floats = table.view("float32")
    floats[:, words.TEMPERATURE] = [each.temperature for each in knobs]
    floats[:, words.TOP_P] = [each.top_p for each in knobs]
    floats[:, words.PENALTY] = [each.penalty for each in knobs]
    return torch.from_numpy(table).to(DEVICE)


def counter(step: int, groups: int) -> CounterDraw:
    count = len(KNOBS)
    seeds = [7 + row + (3 << 32) for row in range(count)]
    return CounterDraw(seeds, [1] * count, [step] * count, groups=groups, device=DEVICE)


@pytest.mark.parametrize("step", range(3))
def test_later_codes_are_drawn_as_the_sampler_draws_them(step: int) -> None:
    logits = random(len(KNOBS), VOCABULARY, seed=step) * 3
    codes = torch.zeros(len(KNOBS), 2, 4, dtype=torch.int64, device=DEVICE)
    table, out = random(VOCABULARY, 24), torch.zeros(len(KNOBS), 24, device=DEVICE)
    expected = Sampler(KNOBS, VOCABULARY, DEVICE).choose(logits, 2, counter(step, 4))

    rows = rows_of(KNOBS, vocabulary=VOCABULARY, step=step)
    draw_next(logits, rows, codes, 2, table=table, out=out)

    assert torch.equal(codes[:, 0, 2], expected)
    assert torch.equal(out, table[expected])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    "spread",
    [
        lambda x: x,
        lambda x: x - 9,  # all below zero
        lambda x: 4 * x - 8,  # few above zero
        lambda x: x**5,  # few far from zero
        lambda x: (2 * x).round(),  # ties, at the threshold too
        lambda x: x * 1e-6,
    ],
)
def test_any_logits_are_cut_where_the_sampler_cuts(
    spread: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    knobs = tuple(Knobs(0.9, rank, 1.0) for rank in (1, 7, 50, 199, 0, 50))
    logits = spread(random(len(knobs), VOCABULARY)).to(dtype)
    codes = torch.zeros(len(knobs), 2, 4, dtype=torch.int64, device=DEVICE)
    expected = Sampler(knobs, VOCABULARY, DEVICE).choose(logits.float(), 2, counter(1, 4))

    rows = rows_of(knobs, vocabulary=VOCABULARY, step=1)
    draw_next(logits, rows, codes, 2, table=None, out=logits)

    assert torch.equal(codes[:, 0, 2], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.95])
def test_a_long_row_is_cut_as_the_sampler_cuts(top_p: float, dtype: torch.dtype) -> None:
    size = 2500  # eight warps, and masked at the end
    knobs = tuple(Knobs(0.9, rank, top_p) for rank in (1, 50, 0)) + (Knobs(0.7, 40, 1.0),) * 3
    # No two alike: of equal logits at the threshold of top-p, the sampler keeps some.
    order = torch.stack([random(size, seed=row).argsort() for row in range(6)])
    logits = order / 256 if dtype is torch.float32 else _neighbours(order)
    codes = torch.zeros(len(knobs), 2, 4, dtype=torch.int64, device=DEVICE)
    expected = Sampler(knobs, size, DEVICE).choose(logits.float(), 2, counter(1, 4))

    rows = rows_of(knobs, vocabulary=size, step=1)
    draw_next(logits, rows, codes, 2, table=None, out=logits)

    assert torch.equal(codes[:, 0, 2], expected)


def _neighbours(order: Tensor) -> Tensor:
    """Turn an order of less than 16,000 into numbers of bfloat16 that follow each other."""
    return (order.to(torch.int16) + 0x3000).view(torch.bfloat16)


def test_logits_that_are_no_numbers_draw_a_code_that_exists() -> None:
    logits = torch.full((len(KNOBS), VOCABULARY), float("nan"), device=DEVICE)
    codes = torch.zeros(len(KNOBS), 2, 4, dtype=torch.int64, device=DEVICE)
    table, out = random(VOCABULARY, 24), torch.zeros(len(KNOBS), 24, device=DEVICE)

    draw_next(logits, rows_of(KNOBS, vocabulary=VOCABULARY, step=0), codes, 2, table=table, out=out)

    drawn = codes[:, 0, 2]
    assert ((drawn >= 0) & (drawn < VOCABULARY)).all()
    assert torch.equal(out, table[drawn])


@pytest.mark.parametrize("step", range(3))
def test_first_codes_obey_the_rules(step: int) -> None:
    config = small_config().talker
    count, size = len(KNOBS), config.vocab_size
    logits, hidden = random(count, size, seed=step) * 3, random(count, 24)
    logits[:, config.codec_eos_token_id] = 40  # where it may, speech ends
    seen = random(count, size, seed=9) > 0
    before = seen.clone()
    kept, flags = torch.zeros_like(hidden), torch.zeros(count, dtype=torch.int32, device=DEVICE)
    codes = torch.zeros(count, 2, 4, dtype=torch.int64, device=DEVICE)
    rows = rows_of(KNOBS, vocabulary=size, step=step)
    ruled = TalkerRules(config, DEVICE).apply(
        logits.clone(),
        seen=before,
        penalty=torch.tensor([each.penalty for each in KNOBS], device=DEVICE)[:, None],
        eos_allowed=rows[:, words.EOS_ALLOWED] != 0,
    )
    expected = Sampler(KNOBS, size, DEVICE).choose(ruled, 0, counter(step, 1))

    first = FirstCode(seen, kept, flags, config.codes, config.codec_eos_token_id)
    draw_first(logits, hidden, rows, codes, first)

    assert torch.equal(codes[:, 0, 0], expected)
    assert torch.equal(kept, hidden)
    assert seen.gather(1, expected[:, None]).all()
    ended = expected == config.codec_eos_token_id
    assert ended.any()
    assert flags.tolist() == [FINITE + ENDED * bool(each) for each in ended]


def test_logits_that_are_not_finite_are_told() -> None:
    config = small_config().talker
    logits = random(2, config.vocab_size)
    logits[1, 5] = torch.nan
    flags = torch.zeros(2, dtype=torch.int32, device=DEVICE)
    codes = torch.zeros(2, 1, 4, dtype=torch.int64, device=DEVICE)
    seen = torch.zeros(2, config.vocab_size, dtype=torch.bool, device=DEVICE)
    rows = rows_of(KNOBS[1:3], vocabulary=config.vocab_size, step=0)
    rows[:, words.PLACE] = 0

    hidden = random(2, 24)
    draw_first(
        logits, hidden, rows, codes, FirstCode(seen, hidden.clone(), flags, config.codes, 302)
    )

    assert [bool(each & FINITE) for each in flags.tolist()] == [True, False]
    assert codes.max() < config.vocab_size


@pytest.mark.parametrize("kind", [STORE, ADD, SWIGLU])
@pytest.mark.parametrize(
    ("tile", "rows"),
    [
        (Tile("vector", 8, 256, 4), 1),
        (Tile("slab", 16, 32, 4), 3),
        (Tile("loop", 16, 64, 4, 2), 5),
        (Tile("loop", 32, 32, 4, 2, 4), 17),
    ],
)
def test_products_are_products(tile: Tile, rows: int, kind: int) -> None:
    if kind == SWIGLU and tile.splits > 1:
        pytest.skip("gates are not summed in shares")
    x, out = random(rows, 256, seed=1), random(rows, 64, seed=2)
    weight = random(128 if kind == SWIGLU else 64, 256, seed=3) / 16
    expected = F.linear(x, weight)
    if kind == ADD:
        expected += out
    if kind == SWIGLU:
        gate, up = expected.chunk(2, -1)
        expected = F.silu(gate) * up

    scratch = Scratch.allocate(DEVICE)
    product(tile, x, weight, out, kind=kind, scratch=scratch)

    assert not scratch.arrived.any()
    torch.testing.assert_close(out, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("parts", [1, 3])
def test_deep_vector_products_come_in_parts(parts: int) -> None:
    x, out = random(1, 128 * parts), random(1, 16)
    weight = random(16, 128 * parts, seed=3) / 16
    expected = out + F.linear(x, weight)

    product(Tile("vector", 4, 128, 4), x, weight, out, kind=ADD)

    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("tile", "rows"),
    [
        (Tile("vector", 4, 128, 4, norm=True), 1),
        (Tile("vector", 4, 128, 1, norm=True), 2),
        (Tile("slab", 16, 32, 4, norm=True), 3),
    ],
)
@pytest.mark.parametrize("kind", [STORE, SWIGLU])
def test_a_product_can_normalise_on_the_way(tile: Tile, rows: int, kind: int) -> None:
    x, norm, out = random(rows, 128), random(128, seed=4), torch.zeros(rows, 16, device=DEVICE)
    weight = random(32 if kind == SWIGLU else 16, 128, seed=3) / 8
    expected = F.linear(layers.rms_norm(x, norm, 1e-6), weight)
    if kind == SWIGLU:
        gate, up = expected.chunk(2, -1)
        expected = F.silu(gate) * up

    product(tile, x, weight, out, kind=kind, norm=norm, eps=1e-6)

    torch.testing.assert_close(out, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("inputs", [384, 512, 768])  # 4 parts x 3, 8 x 2, 8 x 3
def test_deep_slabs_come_in_passes(inputs: int) -> None:
    x, out = random(3, inputs), random(3, 32)
    weight = random(32, inputs, seed=3) / 64
    expected = out + F.linear(x, weight)

    product(Tile("slab", 16, 32, 4), x, weight, out, kind=ADD)

    torch.testing.assert_close(out, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("tile", "inputs", "kind"),
    [
        (Tile("slab", 16, 32, 4), 1024, STORE),  # more than its registers hold
        (Tile("slab", 16, 32, 4), 320, STORE),  # not whole parts
        (Tile("slab", 16, 32, 4), 384, SWIGLU),  # gates of the first pass only
        (Tile("vector", 4, 128, 4, norm=True), 256, STORE),  # the norm of a part
        (Tile("vector", 4, 128, 4), 192, STORE),
        (Tile("vector", 3, 128, 4), 128, STORE),
        (Tile("loop", 16, 32, 4, norm=True), 64, STORE),
        (Tile("loop", 16, 32, 4, 2, 4), 64, ADD),  # shares of half a step
        (Tile("loop", 16, 32, 4, 2, 2), 64, SWIGLU),
    ],
)
def test_a_tile_that_would_compute_something_else_is_refused(
    tile: Tile, inputs: int, kind: int
) -> None:
    x, out = random(2, inputs), random(2, 16)
    weight = random(32 if kind == SWIGLU else 16, inputs)

    assert not tile.fits((16, inputs, kind))
    with pytest.raises(AssertionError, match="cannot do"):
        product(tile, x, weight, out, kind=kind, scratch=Scratch.allocate(DEVICE))


def test_a_product_that_its_scratch_cannot_hold_is_refused() -> None:
    small = Scratch(random(64), torch.zeros(1, dtype=torch.int32, device=DEVICE))

    with pytest.raises(AssertionError, match="more scratch"):
        product(
            Tile("loop", 16, 32, 4, 2, 2), random(2, 64), random(16, 64), random(2, 16),
            kind=ADD, scratch=small,
        )  # fmt: skip


def test_norm_and_gate_are_the_reference_ones() -> None:
    x, delta, norm = random(3, 96), random(3, 96, seed=1), random(96, seed=2)
    normal, gated = torch.empty_like(x), torch.empty(3, 48, device=DEVICE)
    summed = x + delta

    rms_norm(x, norm, normal, eps=1e-6, delta=delta)
    swiglu(summed, gated)

    torch.testing.assert_close(x, summed)
    torch.testing.assert_close(normal, layers.rms_norm(summed, norm, 1e-6))
    gate, up = summed.chunk(2, -1)
    torch.testing.assert_close(gated, F.silu(gate) * up)


def test_measured_tiles_divide_their_shapes() -> None:
    for (features, size, kind), table in TILES.items():
        for most, tile in table.items():
            if tile is None:
                continue
            assert tile.fits((features, size, kind))
            assert tile.kernel != "vector" or most <= 2
            assert tile.splits == 1 or kind == ADD
            assert not (tile.norm and kind == ADD)


def test_the_full_size_decoders_have_measured_tiles() -> None:
    config = full_size("random:1.7b")

    assert (config.talker.hidden_size, config.talker.intermediate_size, ADD) in TILES
    assert (config.predictor.vocab_size, config.predictor.hidden_size, STORE) in TILES
