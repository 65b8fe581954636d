"""The codec sounds the same however its codes are cut into chunks and shared among slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.api import FRAME_SAMPLES, CheckpointError
from engine.model.codec import Codec
from engine.model.codec_state import CodecState
from tests.engine.random_codec_weights import CONFIG, random_codes, random_weights

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}  # of samples in [-1, 1]
LENGTH = 34  # frames: more than the window of 9 and than the 31 that its three layers reach
FEW = settings(max_examples=8, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)  # tiny matrices: more threads are slower


@cache
def codec(dtype: torch.dtype = torch.float32) -> Codec:
    return Codec.load(CONFIG, random_weights(), dtype=dtype)


@cache
def whole(dtype: torch.dtype, *, seed: int = 0) -> Tensor:
    """The sound of `random_codes(CONFIG, 1, LENGTH, seed=seed)`, decoded at once."""
    return codec(dtype).decode(random_codes(CONFIG, 1, LENGTH, seed=seed))[0]


def stream(
    codec: Codec, codes: Tensor, chunks: Sequence[int], *, state: CodecState, slot: int = 0
) -> Tensor:
    """Decode one utterance (frames, groups) in chunks of the given frames."""
    slots = torch.tensor([slot])
    parts = []
    for number, chunk in enumerate(codes[None].split(list(chunks), 1)):
        decode = codec.step if number else codec.start
        parts.append(decode(chunk, state, slots)[0])
    return torch.cat(parts)


def difference(left: Tensor, right: Tensor) -> float:
    assert left.shape == right.shape
    return float((left - right).abs().max())


def partitions(total: int) -> st.SearchStrategy[list[int]]:
    """Every way to cut `total` frames into chunks, of up to the ladder's 12 and sometimes more."""
    cuts = st.sets(st.integers(1, total - 1))
    return cuts.map(lambda found: np.diff([0, *sorted(found), total]).tolist())


# ----------------------------------------------------- chunks and slots


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "fp64"])
@pytest.mark.parametrize(
    "chunks",
    [[1] * LENGTH, [2] * (LENGTH // 2), [1, 2, 4, 8, 12, 7], [12, 12, 10], [33, 1], [1, 33]],
    ids=["ones", "twos", "ladder", "twelves", "long-short", "short-long"],
)
def test_chunks_sound_like_the_whole(chunks: list[int], dtype: torch.dtype) -> None:
    model = codec(dtype)

    samples = stream(model, random_codes(CONFIG, 1, LENGTH)[0], chunks, state=model.new_state(1))

    assert difference(samples, whole(dtype)) < TOLERANCE[dtype]


@given(chunks=partitions(LENGTH))
@FEW
def test_any_partition_sounds_like_the_whole(chunks: list[int]) -> None:
    model = codec(torch.float64)

    samples = stream(model, random_codes(CONFIG, 1, LENGTH)[0], chunks, state=model.new_state(1))

    assert difference(samples, whole(torch.float64)) < 1e-12


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 8, 25, 26])
def test_frames_give_their_number_of_samples_and_no_chunk_twice(frames: int) -> None:
    model, state, slots = codec(), codec().new_state(1), torch.tensor([0])
    codes = random_codes(CONFIG, 1, frames)
    chunks = codes.split(4, 1)

    parts = [
        (model.step if n else model.start)(each, state, slots) for n, each in enumerate(chunks)
    ]

    assert sum(part.shape[1] for part in parts) == frames * FRAME_SAMPLES == frames * 1920
    assert len({part.numpy().tobytes() for part in parts}) == len(parts)


def test_borders_are_no_worse_than_the_middle_of_a_chunk() -> None:
    chunks = [1] * 4 + [5] * 6
    model = codec()

    samples = stream(model, random_codes(CONFIG, 1, LENGTH)[0], chunks, state=model.new_state(1))

    errors = (samples - whole(torch.float32)).abs()
    borders = torch.tensor(chunks).cumsum(0)[:-1] * FRAME_SAMPLES
    near = torch.zeros_like(errors, dtype=torch.bool)
    for border in borders:
        near[border - 240 : border + 240] = True
    assert errors.max() < 1e-5
    assert errors[near].mean() < 1.5 * errors[~near].mean()


def test_sustained_sound_has_no_flux_at_borders() -> None:
    codes = random_codes(CONFIG, 1, 1)[0].expand(LENGTH, -1)  # one vowel, held
    model = codec()

    samples = stream(model, codes, [2] * (LENGTH // 2), state=model.new_state(1))

    windows = samples[4 * FRAME_SAMPLES :].unfold(0, 480, 480) * torch.hann_window(480)
    flux = torch.fft.rfft(windows).abs().diff(dim=0).norm(dim=1)
    at_borders = flux[7::8]  # a chunk of two frames is eight windows
    inside = flux[3::8]  # the border of frames inside a chunk
    assert at_borders.mean() < 1.05 * inside.mean()


def test_utterances_at_different_positions_share_a_batch() -> None:
    model, state = codec(torch.float64), codec(torch.float64).new_state(5)
    codes = [random_codes(CONFIG, 1, LENGTH, seed=seed) for seed in (0, 1, 2)]
    positions = [20, 3, 1]  # beyond the window, inside it, just begun
    for slot, (each, position) in enumerate(zip(codes, positions, strict=True)):
        model.start(each[:, :position], state, torch.tensor([slot]))
    order = [2, 0, 1]  # a batch is in no order of slots

    batch = torch.cat([codes[n][:, positions[n] : positions[n] + 4] for n in order])
    samples = model.step(batch, state, torch.tensor(order))

    for row, number in enumerate(order):
        first = positions[number] * FRAME_SAMPLES
        expected = whole(torch.float64, seed=number)[first : first + 4 * FRAME_SAMPLES]
        assert difference(samples[row], expected) < 1e-12


def test_a_batch_sounds_like_its_rows_alone() -> None:
    codes = random_codes(CONFIG, 3, 6)

    together = codec().decode(codes)

    alone = torch.cat([codec().decode(row[None]) for row in codes])
    assert difference(together, alone) < 1e-5


def test_other_slots_are_left_alone() -> None:
    state = codec().new_state(3)
    codec().start(random_codes(CONFIG, 3, 5), state, torch.arange(3))
    before = state.values.clone()

    codec().step(random_codes(CONFIG, 1, 2, seed=9), state, torch.tensor([1]))

    changed = (state.values != before).any(1)
    assert changed.tolist() == [False, True, False]
    assert state.positions.tolist() == [5, 7, 5]


def test_reused_slot_remembers_nothing() -> None:
    model = codec(torch.float64)
    state = model.new_state(2)
    stream(model, random_codes(CONFIG, 1, 20, seed=7)[0], [5] * 4, state=state, slot=1)

    samples = stream(model, random_codes(CONFIG, 1, LENGTH)[0], [1, 1, 12, 20], state=state, slot=1)

    assert difference(samples, whole(torch.float64)) < 1e-12


# ------------------------------------------------------- what is heard


def test_a_frame_changes_no_sample_before_it() -> None:
    codes = random_codes(CONFIG, 1, LENGTH)
    changed = codes.clone()
    changed[:, 15] = (codes[:, 15] + 1) % CONFIG.codebook_size

    samples = codec(torch.float64).decode(changed)[0]

    differs = (samples != whole(torch.float64)).nonzero().flatten()
    assert differs[0] >= 15 * FRAME_SAMPLES
    assert differs[0] < 16 * FRAME_SAMPLES


def test_a_frame_is_heard_as_long_as_all_layers_reach() -> None:
    frames = 2 + CONFIG.num_hidden_layers * (CONFIG.sliding_window - 1)
    reach = frames * FRAME_SAMPLES + 19_928  # samples: the tail of all convolutions together
    codes = random_codes(CONFIG, 1, frames + 14)
    changed = codes.clone()
    changed[:, 0] = (codes[:, 0] + 1) % CONFIG.codebook_size
    model = codec(torch.float64)

    differs = (model.decode(changed)[0] != model.decode(codes)[0]).nonzero().flatten()

    assert reach - FRAME_SAMPLES < differs[-1] <= reach


@pytest.mark.parametrize("group", [0, 1, 15])
def test_every_code_group_matters(group: int) -> None:
    codes = random_codes(CONFIG, 1, LENGTH)
    codes[0, 5, group] = (codes[0, 5, group] + 1) % CONFIG.codebook_size

    samples = codec().decode(codes)[0]

    assert difference(samples, whole(torch.float32)) > 1e-3


def test_samples_are_sound_and_not_clipped() -> None:
    samples = whole(torch.float32)

    assert 0.05 < samples.std() < 0.5
    assert samples.abs().max() < 0.99


def test_state_is_the_columns_that_each_layer_looks_back() -> None:
    history = CONFIG.sliding_window - 1
    attention = CONFIG.num_hidden_layers * 2 * history * 4 * 16
    entry = 2 * 32 + 2 * 6 * 48 + 6 * 48
    blocks = sum(wide + wide // 2 * (6 + 18 + 54) for wide in (64, 32, 16, 8))

    assert codec().state_size == attention + entry + blocks + 6 * 4


# --------------------------------------------------------- checkpoints

LAST_BIAS = "decoder.decoder.6.conv.bias"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda tensors: tensors.pop(LAST_BIAS), f"missing: {LAST_BIAS}"),
        (lambda tensors: tensors.update({LAST_BIAS: torch.zeros(2)}), r"shape \(1,\), got: \(2,\)"),
        (lambda tensors: tensors.update({"decoder.more": torch.zeros(1)}), "has: decoder.more"),
    ],
    ids=["missing", "misshapen", "unknown"],
)
def test_wrong_tensors_are_named(
    damage: Callable[[dict[str, Tensor]], object], message: str
) -> None:
    tensors = random_weights()
    damage(tensors)

    with pytest.raises(CheckpointError, match=message):
        Codec.load(CONFIG, tensors)


def test_the_encoder_is_not_needed_and_not_looked_at() -> None:
    tensors = random_weights() | {"encoder.anything": torch.zeros(3)}
    del tensors["decoder.quantizer.rvq_first.input_proj.weight"]

    samples = Codec.load(CONFIG, tensors).decode(random_codes(CONFIG, 1, LENGTH))[0]

    assert torch.equal(samples, whole(torch.float32))
