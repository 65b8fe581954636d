from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.checkpoint import Checkpoint, load
from engine.model.layers import load_decoder
from engine.model.tensors import Tensors
from tests.engine.random_checkpoint import CODES, make

CPU = torch.device("cpu")

torch.set_num_threads(1)


@pytest.fixture(scope="module", params=["1b7", "0b6"])
def checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("predictor") / request.param
    return load(make(folder, size=request.param), device=CPU, dtype=torch.float32)


def inputs(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, 64, generator=generator)
    return hidden, torch.randint(CODES, (rows,), generator=generator)


def best(logits: Tensor, group: int) -> Tensor:
    return logits.argmax(-1)


class Everything:
    """Causal attention over the whole sequence at once, written out: no cache, no library."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, value).flatten(1)


def logits_at_once(checkpoint: Checkpoint, hidden: Tensor, codes: Tensor) -> Tensor:
    """All fifteen heads' logits from the finished codes, straight from the stored weights."""
    tensors = Tensors(checkpoint.path, device=CPU, dtype=torch.float32)
    prefix = "talker.code_predictor"
    tables = [tensors.take("talker.model.codec_embedding.weight")] + [
        tensors.take(f"{prefix}.model.codec_embedding.{group}.weight") for group in range(14)
    ]
    x = torch.stack([hidden, *(table[code] for table, code in zip(tables, codes, strict=False))])
    if checkpoint.config.talker.hidden_size != checkpoint.config.predictor.hidden_size:
        projection = f"{prefix}.small_to_mtp_projection"
        x = F.linear(x, tensors.take(f"{projection}.weight"), tensors.take(f"{projection}.bias"))
    decoder = load_decoder(
        tensors, f"{prefix}.model", checkpoint.config.predictor, positions=len(x)
    )
    x = decoder(x, slice(0, len(x)), Everything())
    heads = [tensors.take(f"{prefix}.lm_head.{group}.weight") for group in range(15)]
    return torch.stack([F.linear(x[group + 1], head) for group, head in enumerate(heads)])


def test_a_frame_pass_by_pass_equals_the_whole_sequence_at_once(checkpoint: Checkpoint) -> None:
    hidden, code = inputs(1)
    seen: list[Tensor] = []

    def watch(logits: Tensor, group: int) -> Tensor:
        seen.append(logits[0])
        return best(logits, group)

    codes = checkpoint.predictor.frame(hidden, code, watch)

    expected = logits_at_once(checkpoint, hidden[0], torch.cat((code, codes[0])))
    torch.testing.assert_close(torch.stack(seen), expected, rtol=0, atol=1e-4)


def test_groups_are_drawn_in_order(checkpoint: Checkpoint) -> None:
    groups: list[int] = []

    def watch(logits: Tensor, group: int) -> Tensor:
        groups.append(group)
        return torch.full((2,), group)

    codes = checkpoint.predictor.frame(*inputs(2), watch)

    assert groups == list(range(1, 16))
    assert codes.tolist() == [groups, groups]


def test_rows_do_not_depend_on_their_neighbours(checkpoint: Checkpoint) -> None:
    hidden, code = inputs(5)

    together = checkpoint.predictor.frame(hidden, code, best)

    for row in range(5):
        alone = checkpoint.predictor.frame(hidden[row : row + 1], code[row : row + 1], best)
        assert torch.equal(alone[0], together[row])


def test_nothing_is_left_of_the_frame_before(checkpoint: Checkpoint) -> None:
    first = checkpoint.predictor.frame(*inputs(2), best)

    checkpoint.predictor.frame(*inputs(2, seed=9), best)

    assert torch.equal(checkpoint.predictor.frame(*inputs(2), best), first)


def test_end_of_speech_as_code_0_does_not_fail(checkpoint: Checkpoint) -> None:
    hidden, _ = inputs(1)
    end = torch.tensor([checkpoint.config.talker.codec_eos_token_id])

    assert checkpoint.predictor.frame(hidden, end, best).shape == (1, 15)
