"""The fused codec on a GPU: its graphs, its precision on a trained codec, its stage."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.model.codec import Codec
from engine.model.config import read_config
from tests.parity.codec_cases import EMBEDDED

GOLDEN = Path(__file__).parents[1] / "parity" / "golden"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
FRAME = 1920
FLOORS = {torch.float16: 45, torch.bfloat16: 25, torch.float32: 75}  # dB against fp64


@cache
def tensors() -> dict[str, Tensor]:
    return load_file(EMBEDDED / "speech_tokenizer" / "model.safetensors")


@cache
def spoken() -> Tensor:
    """Codes (60, groups) of speech."""
    with np.load(GOLDEN / "codec_embedded.npz") as arrays:
        return torch.from_numpy(arrays["codes"]).long()[0].cuda()


@cache
def exact() -> Tensor:
    """The fp64 sound of `spoken()`."""
    codec = Codec.load(read_config(EMBEDDED).codec, tensors(), device="cuda", dtype=torch.float64)
    return codec.decode(spoken()[None])[0]


class Listener:
    """Three utterances that all speak `spoken()`, in the slots of one set of graphs."""

    def __init__(self, dtype: torch.dtype = torch.float16) -> None:
        from engine.graphs import Home
        from engine.model.codec_fused import FusedCodec
        from engine.stages.codec_cuda import CodecGraphs

        plain = Codec.load(read_config(EMBEDDED).codec, tensors(), device="cuda")
        self.codes = torch.zeros(4, 256, 16, dtype=torch.int64, device="cuda")
        self.codes[:3, : len(spoken())] = spoken()
        codec = FusedCodec(plain, dtype)
        state = codec.new_state(3, longest=12)
        home = Home(torch.cuda.Stream(), torch.cuda.graph_pool_handle())
        chunks = (1, 2, 4, 12)
        self.graphs = CodecGraphs(codec, self.codes, state, rows=4, chunks=chunks, home=home)
        self.decoded = [0, 0, 0]
        self.heard: list[list[Tensor]] = [[], [], []]

    def decode(self, *slots: int, frames: int) -> None:
        launched = self.graphs.launch(slots, [self.decoded[slot] for slot in slots], frames)
        launched.event.synchronize()
        for slot, sound in zip(slots, launched.results, strict=True):
            assert sound[frames * FRAME :].all()
            self.heard[slot].append(sound[: frames * FRAME].clone())
            self.decoded[slot] += frames

    def sound(self, slot: int) -> Tensor:
        return torch.cat(self.heard[slot]).double() / 32767


@pytest.fixture(scope="module", params=FLOORS, ids=["fp16", "bf16", "fp32"])
def listener(request: pytest.FixtureRequest) -> Listener:
    return Listener(request.param)


@pytest.fixture
def fresh(listener: Listener) -> Listener:
    listener.decoded, listener.heard = [0, 0, 0], [[], [], []]
    return listener


def ratio(sound: Tensor) -> float:
    """Signal to noise in dB against fp64."""
    expected = exact()[: len(sound)].cpu()
    return float(10 * torch.log10(expected.square().sum() / (sound - expected).square().sum()))


def test_speech_is_as_good_as_its_precision_allows(fresh: Listener) -> None:
    for frames in (1, 2, 4, 12, 12, 12, 12, 4, 1):
        fresh.decode(1, frames=frames)

    found = ratio(fresh.sound(1))
    print(f"\nSNR {fresh.graphs.codec.dtype}: {found:.1f} dB")
    assert found > FLOORS[fresh.graphs.codec.dtype]


def test_rows_that_begin_continue_and_pad_share_a_graph(fresh: Listener) -> None:
    fresh.decode(2, frames=12)
    fresh.decode(0, 2, frames=4)
    fresh.decode(2, 1, 0, frames=4)
    fresh.decode(0, frames=1)
    fresh.decode(1, 0, frames=12)

    for slot in range(3):
        assert ratio(fresh.sound(slot)) > FLOORS[fresh.graphs.codec.dtype] - 3


def test_reused_slot_begins_afresh(fresh: Listener) -> None:
    for frames in (4, 12, 12):
        fresh.decode(0, frames=frames)
    fresh.decoded[0], fresh.heard[0] = 0, []

    for frames in (2, 12):
        fresh.decode(0, frames=frames)

    assert ratio(fresh.sound(0)) > FLOORS[fresh.graphs.codec.dtype] - 3


def test_same_launch_gives_the_same_bytes(fresh: Listener) -> None:
    for slot in (0, 1):
        for frames in (1, 4, 12):
            fresh.decode(slot, frames=frames)

    assert torch.equal(fresh.sound(0), fresh.sound(1))


def test_graph_equals_its_step(fresh: Listener) -> None:
    graphs = fresh.graphs
    fresh.decode(0, frames=12)
    plan = torch.tensor([[0], [12]], dtype=torch.int32, device="cuda")
    before = graphs.state.values.clone(), graphs.state.rings.clone()
    eager = graphs.codec.step(plan, fresh.codes, graphs.state, graphs.lane, frames=4)
    graphs.state.values.copy_(before[0])
    graphs.state.rings.copy_(before[1])

    fresh.decode(0, frames=4)

    assert torch.equal(fresh.heard[0][-1], eager[0, : 4 * FRAME].cpu())
