"""Slots from the card's memory: what is computed is what the stages allocate."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from engine.api import ConfigError
from engine.config import ModelConfig
from engine.model.checkpoint import POSITIONS, Checkpoint
from engine.model.codec import LATENT_TAPS, Codec
from engine.model.predictor import load_predictor
from engine.model.random_weights import full_size
from engine.model.talker import load_talker
from engine.stages import _slots, build, memory
from engine.stages.memory import footprint, histories, plan, slots_within, weights_bytes
from engine.stages.shapes import CHUNKS
from engine.stages.state import LONGEST_SEGMENT, allocate, positions_for
from tests.engine.small_weights import small_checkpoint
from tests.engine.staging import CPU

FULL = full_size("random:1.7b")
CARD = 139 << 30  # bytes of an H200
MEASURED = 81 << 30  # bytes that nvidia-smi read with 256 slots of FULL (docs/performance.md)


def full_plan(free: int = CARD, rows: int = 64) -> memory.MemoryPlan:
    free -= weights_bytes(FULL, itemsize=2)
    return plan(FULL, free=free, rows=rows, segment_seconds=60.0, itemsize=2, codec_itemsize=2)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return small_checkpoint(CPU)


# ------------------------------------------------------------ computed = allocated


def test_a_slot_takes_what_the_stages_allocate_for_it(checkpoint: Checkpoint) -> None:
    slot = footprint(checkpoint.config, segment_seconds=4.0, itemsize=4, codec_itemsize=4)
    state = allocate(checkpoint, slots=1, segment_seconds=4.0)

    assert slot.cache == state.cache.keys.nbytes + state.cache.values.nbytes
    assert slot.codes == state.codes.nbytes
    assert slot.history == state.hidden.nbytes + state.seen.nbytes


def test_the_codec_remembers_its_histories_and_its_window(checkpoint: Checkpoint) -> None:
    config = checkpoint.config.codec
    codec = Codec.load(config, checkpoint.codec_tensors(), device=CPU)

    columns = sum(kept * channels for kept, _, channels in histories(config))
    frame = 2 * config.num_hidden_layers * config.num_attention_heads * config.head_dim

    latent = (LATENT_TAPS - 1) * config.codebook_dim  # the fused codec makes it anew from codes
    assert columns + (config.sliding_window - 1) * frame + latent == codec.state_size


def test_a_slot_of_the_fused_codec_takes_what_it_allocates(checkpoint: Checkpoint) -> None:
    pytest.importorskip("triton")
    from tests.engine.interpreting import DEVICE  # isort: skip (before any kernel)
    from engine.model.codec_fused import FusedCodec

    config = checkpoint.config.codec
    codec = FusedCodec(Codec.load(config, checkpoint.codec_tensors(), device=DEVICE), torch.float16)
    state = codec.new_state(0, longest=max(CHUNKS))
    slot = footprint(checkpoint.config, segment_seconds=4.0, itemsize=4, codec_itemsize=2)

    assert slot.codec == state.values.nbytes + state.rings.nbytes
    assert [(each.width, each.rate, each.channels) for each in codec.histories] == list(
        histories(config)
    )


class Shapeless:
    """Has the face of a checkpoint's tensors, and no values."""

    def take(self, name: str, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    def warn_of_rest(self) -> None:
        """Nothing is left."""


@pytest.mark.parametrize("size", ["1.7b", "0.6b"])
def test_weights_take_what_is_computed(size: str) -> None:
    config = full_size(f"random:{size}")
    talker = load_talker(Shapeless(), config.talker, positions=POSITIONS)
    tables = talker.code_tables()[:-1]
    predictor = load_predictor(Shapeless(), config.predictor, config.talker, tables)
    # on a card the text table is projected; then its width is the Talker's
    talker.text_table = talker.text_table[:, : config.talker.hidden_size].clone()

    held = {id(each.untyped_storage()): each for each in tensors([talker, predictor])}
    unique = {each.untyped_storage()._cdata: each.untyped_storage() for each in held.values()}
    actual = sum(each.nbytes() for each in unique.values())

    assert weights_bytes(config, itemsize=2) == pytest.approx(actual, rel=0.005)


def tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, list | tuple):
        for each in found:
            yield from tensors(each)
    elif dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            yield from tensors(getattr(found, field.name))
    elif hasattr(found, "__dict__"):
        yield from tensors(list(vars(found).values()))


# ------------------------------------------------------------ slots


def test_a_full_size_utterance_on_an_h200() -> None:
    planned = full_plan()

    assert planned.utterance.total == 291_091_584
    assert planned.slots == 463


def test_what_is_nobodys_covers_what_was_measured() -> None:
    planned = full_plan()
    others = MEASURED - 257 * planned.utterance.total

    assert planned.reserve + weights_bytes(FULL, itemsize=2) > others


def test_slots_fill_what_is_left_beside_the_spare_one() -> None:
    planned = full_plan()

    assert planned.holds(planned.slots)
    assert not planned.holds(planned.slots + 1)


@pytest.mark.parametrize(
    ("room", "rows", "slots"), [(1000, 64, 9), (150, 64, 1), (-500, 64, 1), (1 << 40, 2, 64)]
)
def test_at_least_one_and_no_more_than_time_serves(room: int, rows: int, slots: int) -> None:
    assert slots_within(room, 100, rows=rows) == slots


def test_larger_batches_leave_less_for_slots() -> None:
    assert full_plan(rows=128).slots < full_plan(rows=64).slots < full_plan(rows=32).slots


def test_a_cpu_is_asked_for_nothing(checkpoint: Checkpoint) -> None:
    assert _slots(ModelConfig(slots=0), checkpoint, 4.0, torch.float32) == ModelConfig().slots
    assert _slots(ModelConfig(slots=3), checkpoint, 4.0, torch.float32) == 3


@pytest.mark.parametrize(
    ("slots", "taken", "short"), [(0, 445, False), (9, 9, False), (999, 999, True)]
)
def test_a_card_is_asked_before_anything_is_allocated(
    slots: int, taken: int, short: bool,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    like = SimpleNamespace(itemsize=2)
    talker = SimpleNamespace(device=torch.device("cuda"), like=like)
    card = cast(Checkpoint, SimpleNamespace(config=FULL, talker=talker))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (140 * 10**9, 150 * 10**9))
    caplog.set_level(logging.INFO)

    found = _slots(ModelConfig(slots=slots, rows=64), card, 60.0, torch.float16)

    assert found == taken
    assert "memory_planned 140.0 GB free, 10.0 GB" in caplog.text
    assert ("memory_short" in caplog.text) == short


@pytest.mark.parametrize("seconds", [LONGEST_SEGMENT + 1, -1.0])
def test_segments_that_no_slot_can_hold_are_refused_at_the_start(seconds: float) -> None:
    with pytest.raises(ConfigError, match="segment_seconds"):
        build(ModelConfig(device="cpu", threads=1, segment_seconds=seconds))


def test_the_longest_segment_fills_the_positions() -> None:
    assert positions_for(LONGEST_SEGMENT) == POSITIONS
