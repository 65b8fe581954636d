"""Each kernel of the fused codec equals its reference; so does a small codec made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.engine.interpreting import DEVICE  # isort: skip (before any kernel)
from engine.kernels.codec_attention import attend
from engine.kernels.codec_edges import SAMPLES, leave
from engine.kernels.codec_gemm import multiply
from engine.kernels.codec_launch import Scratch
from engine.kernels.codec_product import Mix, Product, Wave, reference
from engine.kernels.codec_refine import refine
from engine.kernels.codec_tiles import Tile
from engine.model import codec_fused
from engine.model.codec import Codec
from engine.model.codec_fused import FusedCodec
from tests.engine.random_codec_weights import CONFIG, random_codes, random_weights

BOUNDS = {torch.float32: 2e-6, torch.float16: 5e-4}  # of ‖out - ref‖ / ‖ref‖
UNSEEN = 9.0  # what lies around outputs and must stay


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


def error(found: Tensor, expected: Tensor) -> float:
    expected = expected.reshape(found.shape).double()
    return float((found.double() - expected).norm() / expected.norm())


# name: (rows, length, inputs, taps, dilation, outputs, stride, tile)
PRODUCTS = {
    "dilated": (2, 3, 48, 7, 3, 32, 1, None),
    "odd-channels": (2, 3, 4, 7, 9, 8, 1, None),
    "upsampling": (2, 5, 16, 2, 1, 40, 5, None),
    "shared-sum": (2, 5, 64, 7, 1, 40, 1, Tile(16, 16, 32, 4, 3, 4)),
    "many-tiles": (2, 50, 64, 7, 1, 40, 1, Tile(32, 32, 16, 4, 3)),
    "from-registers": (3, 5, 96, 1, 1, 24, 1, Tile(16, 16, 96, 4, 0)),
}


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp32", "fp16"])
@pytest.mark.parametrize("waved", [True, False], ids=["snake", "gelu"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_product_equals_its_reference(name: str, waved: bool, dtype: torch.dtype) -> None:
    rows, length, inputs, taps, dilation, outputs, stride, tile = PRODUCTS[name]
    weight = normal(outputs, taps * inputs) / (taps * inputs) ** 0.5
    product = Product(weight.to(dtype), normal(outputs), inputs, dilation)
    x = normal(rows, (taps - 1) * dilation + length, inputs).to(dtype)
    channels = outputs // stride
    wave = Wave(3 * normal(channels).abs(), normal(channels).abs()) if waved else None
    residual = normal(rows, length, outputs)
    out = torch.full((rows, 5 + length * stride, channels), UNSEEN, dtype=dtype, device=DEVICE)
    activated = torch.full_like(out, UNSEEN)

    multiply(
        x,
        product,
        Scratch.allocate(x.device),
        length=length,
        residual=residual,
        out=out[:, 5:],
        wave=wave,
        activated=activated[:, 5:],
        tile=tile,
    )

    plain, after = reference(x, product, length=length, residual=residual, wave=wave)
    assert error(out[:, 5:], plain) < BOUNDS[dtype]
    assert error(activated[:, 5:], after) < BOUNDS[dtype]
    assert (out[:, :5] == UNSEEN).all()
    assert (activated[:, :5] == UNSEEN).all()


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp32", "fp16"])
def test_residual_unit_in_one_kernel_equals_its_reference(dtype: torch.dtype) -> None:
    channels, length = 24, 20
    waves = [Wave(3 * normal(channels).abs(), normal(channels).abs()) for _ in range(2)]
    inner = Product((normal(channels, channels) / 5).to(dtype), normal(channels), channels)
    wide = Product((normal(channels, 7 * channels) / 13).to(dtype), normal(channels), channels, 3)
    x, residual = normal(2, 18 + length, channels).to(dtype), normal(2, length, channels)
    out, activated = torch.empty(2, 2, length, channels, dtype=dtype, device=DEVICE)
    mix = Mix(waves[0], inner)

    multiply(
        x,
        wide,
        Scratch.allocate(x.device),
        length=length,
        mix=mix,
        residual=residual,
        out=out,
        wave=waves[1],
        activated=activated,
    )

    plain, after = reference(x, wide, length=length, residual=residual, wave=waves[1], mix=mix)
    assert error(out, plain) < BOUNDS[dtype]
    assert error(activated, after) < BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp32", "fp16"])
@pytest.mark.parametrize("tile", [None, Tile(16, 16, 16, 4, 3)], ids=["registers", "steps"])
def test_normed_gated_product_equals_its_reference(tile: Tile | None, dtype: torch.dtype) -> None:
    product = Product((normal(64, 32) / 6).to(dtype), None, 32, eps=1e-5, gated=True)
    x = normal(3, 2, 32)
    out = torch.empty(3, 2, 32, dtype=dtype, device=DEVICE)

    multiply(x, product, Scratch.allocate(x.device), length=2, out=out, tile=tile)

    plain, _ = reference(x, product, length=2, residual=None, wave=None)
    assert error(out, plain) < BOUNDS[dtype]


def test_shared_sums_leave_no_trace() -> None:
    scratch = Scratch.allocate(torch.device(DEVICE))
    product = Product(normal(32, 256), normal(32), 256)
    x, tile = normal(1, 4, 256), Tile(16, 16, 16, 4, 3, 4)
    first, second = torch.empty(2, 1, 4, 32, device=DEVICE)

    multiply(x, product, scratch, length=4, out=first, tile=tile)
    multiply(x, product, scratch, length=4, out=second, tile=tile)

    assert torch.equal(first, second)
    assert not scratch.arrivals.any()


def test_attention_sees_its_window_and_nothing_older() -> None:
    rows, heads, width, history, capacity, frames = 2, 2, 24, 5, 16, 30
    inputs = normal(rows, frames, 3, heads, width)
    turns = torch.cat([torch.ones(width // 2), torch.zeros(width // 2)]).to(DEVICE)
    ring = torch.full((3, heads, 2, capacity, width), UNSEEN, device=DEVICE)
    parts, first = [], 0

    for chunk in (1, 4, 11, 2, 12):  # around the ring, from before its start
        plan = torch.tensor([[2, 0], [first, first]], dtype=torch.int32, device=DEVICE)
        part = inputs[:, first : first + chunk].reshape(rows * chunk, -1).contiguous()
        out = torch.empty(rows * chunk, heads * width, device=DEVICE)
        chunk_turns = turns.repeat(rows * chunk, 1)
        attend(part, chunk_turns, ring[:, :], plan, out, history=min(history, capacity - chunk))
        parts.append(out.view(rows, chunk, heads, width))
        first += chunk

    query, key, value = inputs.permute(2, 0, 3, 1, 4)
    ago = torch.arange(frames, device=DEVICE)[:, None] - torch.arange(frames, device=DEVICE)
    seen = (ago >= 0) & (ago <= history)
    # The last chunk fills the ring but for four frames: it may look back no further.
    seen[18:] &= ago[18:] <= 4
    expected = functional.scaled_dot_product_attention(query, key, value, seen)
    assert error(torch.cat(parts, 1), expected.transpose(1, 2)) < BOUNDS[torch.float32]
    assert (ring[1] == UNSEEN).all()


def test_depthwise_convolution_and_norm_equal_their_references() -> None:
    x, weight = normal(2, 6 + 3, 20), normal(7, 20)
    bias, scale, shift = normal(3, 20)
    out = torch.empty(6, 20, device=DEVICE)

    refine(x, weight, bias, scale, shift, out, eps=1e-6)

    convolved = functional.conv1d(x.mT, weight.T[:, None], bias, groups=20).mT
    expected = functional.layer_norm(convolved, (20,), scale, shift, 1e-6)
    assert error(out, expected) < BOUNDS[torch.float32]


def test_last_convolution_rounds_clips_and_tells_what_is_not_finite() -> None:
    samples = 2 * SAMPLES + 5
    x, weight, bias = normal(2, 6 + samples, 6), normal(7, 6) / 6, normal(1)
    x[1, 6 + 2 * SAMPLES] = torch.nan
    sound = torch.full((2, samples + 3), 7, dtype=torch.int16, device=DEVICE)

    leave(x, weight, bias, sound, samples=samples)

    expected = functional.conv1d(x.mT, weight.T[None], bias)[:, 0].clamp(-1, 1) * 32767
    assert (sound[0, :samples] - expected[0]).abs().max() <= 0.51
    assert expected[0].abs().max() == 32767
    assert sound[:, samples:].tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("dtype", "mixed"), [(torch.float32, 0), (torch.float16, 128)], ids=["fp32-two", "fp16-one"]
)
def test_small_codec_equals_the_plain_one_in_any_company(
    dtype: torch.dtype, mixed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_fused, "MIXED_CHANNELS", mixed)  # units in two kernels or in one
    config = replace(CONFIG, upsample_rates=(4,), num_hidden_layers=1)  # the interpreter is slow
    plain = Codec.load(config, random_weights(config), dtype=torch.float64, device=DEVICE)
    fused, frames = FusedCodec(plain, dtype), plain.frame_samples
    codes = random_codes(config, 3, 14).to(DEVICE)  # more than the window of 9
    state, lane = fused.new_state(3, longest=8), fused.new_lane(4 * 8)
    decoded, heard = [0, 0, 0], [codes.new_empty(0)] * 3

    for slots, chunk in (([0], 1), ([2, 0], 4), ([1, 2], 8), ([0], 8), ([1, 2, 0], 1)):
        plan = torch.tensor([[*slots, 3], [*(decoded[slot] for slot in slots), 0]])
        plan = plan.to(DEVICE, torch.int32)
        sound = fused.step(plan, codes, state, lane, frames=chunk)
        assert sound[:, chunk * frames :].all()
        for row, slot in enumerate(slots):
            heard[slot] = torch.cat([heard[slot], sound[row, : chunk * frames]])
            decoded[slot] += chunk

    for slot, expected in enumerate(plain.decode(codes)):
        exact = expected[: len(heard[slot])] * 32767
        bound = 0.6 if dtype is torch.float32 else 0.01 * exact.abs().max()
        assert (heard[slot] - exact).abs().max() < bound
