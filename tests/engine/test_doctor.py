"""doctor names what is missing and what to do, and fails only if the engine cannot speak."""

from __future__ import annotations

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine import doctor
from engine.config import EngineConfig, ModelConfig

EMBEDDED = Path(doctor.__file__).parent / "voices" / "tiny"


def torch(*, built: str | None, gpus: int = 0) -> Any:
    """As much of torch as doctor looks at."""
    gpu = SimpleNamespace(name="H200", major=9, minor=0, total_memory=139 * 2**30)
    cuda = SimpleNamespace(
        is_available=lambda: gpus > 0,
        device_count=lambda: gpus,
        get_device_properties=lambda index: gpu,
        mem_get_info=lambda index: (138 * 2**30, gpu.total_memory),
    )
    version = SimpleNamespace(cuda=built)
    return SimpleNamespace(
        __version__="2.13", version=version, cuda=cuda, get_num_threads=lambda: 2
    )


@pytest.mark.parametrize(("version", "level"), [((3, 10, 9), "fail"), ((3, 11, 0), "ok")])
def test_old_interpreters_are_refused(version: tuple[int, ...], level: str) -> None:
    assert doctor.python(version).level == level


def test_missing_torch_says_how_to_get_it() -> None:
    finding = doctor.torch_build(None)

    assert finding.level == "fail"
    assert "pip install torch" in finding.words


@pytest.mark.parametrize(
    ("found", "wanted", "small", "level", "words"),
    [
        (torch(built=None), "auto", True, "ok", "CPU, 2 threads"),
        (torch(built=None), "auto", False, "warn", "likely too slow"),
        (torch(built=None), "cuda", True, "fail", "torch is built for CPU only"),
        (torch(built="13.0"), "cuda", True, "fail", "no driver or GPU"),
        (torch(built="13.0", gpus=1), "auto", False, "ok", "H200, capability 9.0, 139 GiB"),
        (torch(built="13.0", gpus=2), "cuda:1", False, "ok", "H200"),
        (torch(built="13.0", gpus=2), "cuda:2", False, "fail", "cuda:0 to cuda:1, got: cuda:2"),
        (torch(built="13.0", gpus=1), "cpu", True, "ok", "CPU"),
    ],
)
def test_device_is_what_the_configuration_gets(
    found: Any, wanted: str, small: bool, level: str, words: str
) -> None:
    finding = doctor.device(found, wanted, small=small)

    assert finding.level == level
    assert words in finding.words


def test_triton_is_missed_only_beside_a_gpu() -> None:
    assert doctor.triton(None, cuda=False).level == "ok"
    assert doctor.triton(None, cuda=True).level == "warn"
    assert doctor.triton(SimpleNamespace(__version__="3.5"), cuda=True).words == "3.5"


@pytest.mark.parametrize(
    ("model", "level", "words"),
    [
        (ModelConfig("random:1.7b", slots=0, rows=64), "ok", "291.1 MB an utterance: 460 slots"),
        (ModelConfig("random:1.7b", slots=256, rows=64), "ok", "slots` gives 256"),
        (ModelConfig("random:1.7b", slots=500), "warn", "gives 500, which may not fit"),
        (ModelConfig("embedded", slots=0), "ok", "1024 slots"),
        (ModelConfig("owner/name"), "warn", "unknown until the checkpoint is here"),
        (ModelConfig("random:9b"), "fail", "random:1.7b, random:0.6b"),
    ],
)
def test_room_on_a_card_is_computed(
    model: ModelConfig, level: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_folder", lambda name: EMBEDDED if name == "embedded" else None)

    finding = doctor.memory(torch(built="13.0", gpus=1), model)

    assert finding.level == level
    assert words in finding.words


def test_a_card_is_asked_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor,
        "module",
        lambda name: torch(built="13.0", gpus=1) if name == "torch" else import_module(name),
    )
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.6"))

    found = {each.thing: each for each in doctor.examine(EngineConfig(ModelConfig("random:1.7b")))}

    assert list(found) == ["python", "torch", "device", "triton", "memory", "checkpoint"]
    assert found["memory"].words.startswith("computed: ")
    assert {each.level for each in found.values()} == {"ok"}


def test_embedded_checkpoint_is_whole() -> None:
    assert doctor.checkpoint("embedded").level == "ok"


@pytest.mark.parametrize(
    "lost",
    ["config.json", "model.safetensors", "vocab.json", "speech_tokenizer/model.safetensors"],
)
def test_a_missing_file_of_a_checkpoint_is_named(tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "voice"
    shutil.copytree(EMBEDDED, folder)
    (folder / lost).unlink()

    finding = doctor.checkpoint(str(folder))

    assert finding.level == "fail"
    assert lost in finding.words


def test_a_malformed_configuration_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "voice"
    shutil.copytree(EMBEDDED, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["talker_config"]
    (folder / "config.json").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")

    finding = doctor.checkpoint(str(folder))

    assert finding.level == "fail"
    assert "talker_config" in finding.words


def test_a_folder_that_is_not_there_is_no_hub_id() -> None:
    finding = doctor.checkpoint("./nowhere")

    assert finding.level == "fail"
    assert "want `embedded`, a directory or a hub id" in finding.words


def test_a_hub_id_is_not_downloaded_but_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = SimpleNamespace(try_to_load_from_cache=lambda name, file: None)
    monkeypatch.setattr(doctor, "module", lambda name: hub)

    finding = doctor.checkpoint("owner/name")

    assert finding.level == "warn"
    assert "downloaded at the first start" in finding.words


def test_tones_need_neither_torch_nor_weights(capsys: pytest.CaptureFixture[str]) -> None:
    status = doctor.main(["--set", "engine.model.checkpoint=silent"])

    assert status == 0
    assert "torch" not in capsys.readouterr().out


def test_any_failure_is_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--set", "engine.model.checkpoint=./nowhere"]) == 1
    assert doctor.main(["--set", "engine.modell=1"]) == 1
    assert "fail config      --set: `engine`: unknown key `modell`" in capsys.readouterr().out
