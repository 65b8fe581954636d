import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.api import CheckpointError
from engine.model.checkpoint import EMBEDDED, Checkpoint, load, locate
from engine.model.tensors import Tensors
from tests.engine.random_checkpoint import make

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "checkpoint")


def load_here(folder: Path) -> Checkpoint:
    return load(folder, device=torch.device("cpu"), dtype=torch.float32)


def test_the_embedded_voice_loads_with_its_recommendations() -> None:
    checkpoint = load_here(locate("embedded"))

    assert checkpoint.settings.default_voice == "rms"
    assert checkpoint.settings.normalise
    assert not checkpoint.settings.instructions
    assert checkpoint.settings.segment_seconds == 12
    assert checkpoint.talker.head.dtype == torch.float32


def test_other_checkpoints_speak_with_their_first_voice(folder: Path) -> None:
    settings = load_here(folder).settings

    assert (settings.default_voice, settings.segment_seconds) == ("ryan", 60)
    assert not settings.normalise
    assert settings.instructions


@pytest.mark.parametrize(
    "table", [{"default_voice": "nobody"}, {"colour": "red"}], ids=["voice", "key"]
)
def test_wrong_recommendations_are_refused(folder: Path, table: dict[str, str]) -> None:
    (folder / "voice.json").write_text(json.dumps(table), encoding="utf-8")

    with pytest.raises(CheckpointError, match=r"voice\.json"):
        load_here(folder)


def test_codec_tensors_are_fp32_and_only_the_decoder_s() -> None:
    tensors = load_here(EMBEDDED).codec_tensors()

    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert all(name.startswith("decoder.") for name in tensors)


def test_a_directory_is_found(folder: Path) -> None:
    assert locate(str(folder)) == folder


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "just-a-word", "a/b/c"])
def test_what_is_no_checkpoint_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match="want `embedded`, a directory or a hub id"):
        locate(name)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights["talker.model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / WEIGHTS)

    with pytest.raises(CheckpointError, match=r"model\.safetensors.*layers\.1\.mlp\.up_proj"):
        load_here(folder)


def test_a_tensor_of_another_shape_is_named(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["talker.codec_head.weight"] = weights["talker.codec_head.weight"][:, :-1].contiguous()
    save_file(weights, folder / WEIGHTS)

    with pytest.raises(CheckpointError, match=r"codec_head\.weight.*got: \(1324, 63\)"):
        load_here(folder)


def test_extra_tensors_are_named_in_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    weights = load_file(folder / WEIGHTS) | {"speaker_encoder.weight": torch.zeros(1)}
    save_file(weights, folder / WEIGHTS)

    with caplog.at_level(logging.WARNING):
        load_here(folder)

    assert "count=1 first=speaker_encoder.weight" in caplog.text


def test_shards_are_joined(folder: Path) -> None:
    whole = load_here(folder)
    weights = load_file(folder / WEIGHTS)
    names = sorted(weights)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: weights[name] for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index), encoding="utf-8")
    (folder / WEIGHTS).unlink()

    torch.testing.assert_close(load_here(folder).talker.head, whole.talker.head, rtol=0, atol=0)


def test_an_index_without_a_map_is_refused(folder: Path) -> None:
    (folder / f"{WEIGHTS}.index.json").write_text("{}", encoding="utf-8")

    with pytest.raises(CheckpointError, match="weight_map"):
        load_here(folder)


def replace_by_pointer(path: Path) -> None:
    path.write_text(
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:38b1d5970000000000000000000000000000000000000000000000002f513700\n"
        "size 3833402552\n",
        encoding="utf-8",
    )


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_in_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_header_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[9] ^= 0x80  # inside the JSON, just behind its opening brace
    path.write_bytes(content)


def make_unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()  # unlike a mode without rights, this stops root as well


@pytest.mark.parametrize("place", ["", "speech_tokenizer"])
@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (replace_by_pointer, "Git LFS pointer"),
        (cut_in_half, "damaged or only partly downloaded"),
        (cut_in_the_header, "damaged or only partly downloaded"),
        (empty, "damaged or only partly downloaded"),
        (flip_header_byte, "damaged or only partly downloaded"),
        (make_unreadable, "cannot be read: Is a directory"),
        (Path.unlink, "cannot be read: No such file"),
    ],
)
def test_damaged_weights_are_named_with_the_cause(
    folder: Path, place: str, damage: object, cause: str
) -> None:
    path = folder / place / WEIGHTS
    damage(path)  # type: ignore[operator]

    with pytest.raises(CheckpointError, match=cause) as caught:
        load_here(folder).codec_tensors()
    assert str(path) in str(caught.value)


def test_a_flipped_letter_in_a_name_is_a_missing_tensor(folder: Path) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes().replace(b"codec_head", b"codec_heae", 1))

    with pytest.raises(CheckpointError, match=r"lacks tensor `talker\.codec_head\.weight`"):
        load_here(folder)


def test_weights_keep_the_dtype_that_was_asked_for(folder: Path) -> None:
    tensors = Tensors(folder, device=torch.device("cpu"), dtype=torch.bfloat16)

    assert tensors.take("talker.codec_head.weight", 1324, 64).dtype == torch.bfloat16
