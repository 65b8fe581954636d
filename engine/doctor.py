"""`python -m engine.doctor`: can this machine speak? One line per thing, with what to do about it.

Nothing is loaded onto a device and nothing is downloaded.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.api import CheckpointError, ConfigError
from engine.config import EngineConfig, ModelConfig, load
from engine.model.config import CheckpointConfig, read_config

OLDEST_PYTHON = (3, 11)
RANDOM = "random:"  # a checkpoint's name that asks for random weights
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one thing."""

    level: Literal["ok", "warn", "fail"]  # "fail": the engine cannot speak
    thing: str
    words: str

    def __str__(self) -> str:
        return f"{self.level:<5}{self.thing:<12}{self.words}"


def examine(config: EngineConfig) -> Iterator[Finding]:
    """Look at everything the engine needs, in the order in which it would fail."""
    yield python()
    if config.model.checkpoint != "silent":
        torch = module("torch")
        yield torch_build(torch)
        if torch:
            found = device(torch, config.model.device, small=config.model.checkpoint == "embedded")
            yield found
            on_cuda = _uses_cuda(torch, config.model.device)
            yield triton(module("triton"), cuda=on_cuda)
            if on_cuda and found.level != "fail":
                yield memory(torch, config.model)
    yield checkpoint(config.model.checkpoint)


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """The interpreter's version."""
    name = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        return Finding("fail", "python", f"{name}: want 3.11 or newer")
    return Finding("ok", "python", f"{name} on {platform.system()} {platform.machine()}")


def torch_build(torch: Any) -> Finding:
    """Which torch, or how to get one."""
    if not torch:
        return Finding("fail", "torch", "not installed: `pip install torch` (see pytorch.org)")
    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    return Finding("ok", "torch", f"{torch.__version__}, built for {built_for}")


def device(torch: Any, wanted: str, *, small: bool) -> Finding:
    """The device that `engine.model.device` means here; a CPU is enough for a `small` model."""
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        words = f"CPU, {torch.get_num_threads()} threads"
        more = "" if small else ": likely too slow; only the embedded voice is made for it"
        return Finding("ok" if small else "warn", "device", words + more)
    if not torch.cuda.is_available():
        cause = "no driver or GPU" if torch.version.cuda else "torch is built for CPU only"
        wanted = f"{wanted} cannot be used: {cause}; set `engine.model.device` to cpu"
        return Finding("fail", "device", wanted)
    index = _index(wanted)
    if index >= torch.cuda.device_count():
        words = f"want cuda:0 to cuda:{torch.cuda.device_count() - 1}, got: {wanted}"
        return Finding("fail", "device", words)
    gpu = torch.cuda.get_device_properties(index)
    words = f"{gpu.name}, capability {gpu.major}.{gpu.minor}, {gpu.total_memory / 2**30:.0f} GiB"
    return Finding("ok", "device", words)


def triton(found: Any, *, cuda: bool) -> Finding:
    """The kernel compiler: without it a GPU runs the plain path."""
    if found:
        return Finding("ok", "triton", str(found.__version__))
    if not cuda:
        return Finding("ok", "triton", "not installed, and not needed on a CPU")
    return Finding("warn", "triton", "not installed: `pip install triton` for the fast kernels")


def memory(torch: Any, model: ModelConfig) -> Finding:
    """What the card's free memory is enough for: computed, as nothing is loaded."""
    planning = module("engine.stages.memory")
    try:
        sizes = _sizes(model.checkpoint) if planning else None
    except CheckpointError as error:
        return Finding("fail", "memory", str(error))
    if sizes is None:
        return Finding("warn", "memory", "unknown until the checkpoint is here")
    config, seconds = sizes
    itemsize, codec_itemsize = (
        4 if each == "float32" else 2 for each in (model.dtype, model.codec_dtype)
    )
    weights = planning.weights_bytes(config, itemsize=itemsize)
    planned = planning.plan(
        config,
        free=torch.cuda.mem_get_info(_index(model.device))[0] - weights,
        rows=model.rows,
        segment_seconds=model.segment_seconds or seconds,
        itemsize=itemsize,
        codec_itemsize=codec_itemsize,
    )
    slots = model.slots or planned.slots
    words = f"computed: {planned}; `engine.model.slots` gives {slots}"
    if planned.holds(slots):
        return Finding("ok", "memory", words)
    return Finding("warn", "memory", f"{words}, which may not fit")


def checkpoint(name: str) -> Finding:
    """Whether the checkpoint is here and looks whole."""
    if name == "silent":
        return Finding("ok", "checkpoint", "silent: tones, no model")
    try:
        if name.startswith(RANDOM):
            if sizes := module("engine.model.random_weights"):
                sizes.full_size(name)
            return Finding("ok", "checkpoint", f"{name}: random weights, for measurements alone")
        folder = _folder(name)
        if folder is None:
            words = f"{name} is not in the hub's cache: it is downloaded at the first start"
            return Finding("warn", "checkpoint", words)
        lacking = list(_lacking(folder))
        if lacking:
            return Finding("fail", "checkpoint", f"{folder}: lacks {', '.join(lacking)}")
        read_config(folder)
    except CheckpointError as error:
        return Finding("fail", "checkpoint", str(error))
    size = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    return Finding("ok", "checkpoint", f"{folder}, {size / 2**20:.0f} MiB")


def module(name: str) -> Any:
    """A module, or None where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _uses_cuda(torch: Any, wanted: str) -> bool:
    return wanted != "cpu" and bool(torch.cuda.is_available())


def _index(wanted: str) -> int:
    return int(wanted.partition(":")[2] or 0)


def _sizes(name: str) -> tuple[CheckpointConfig, float] | None:
    """The checkpoint's sizes and its s of speech per prompt; None for one that is not here."""
    from engine.model.checkpoint import VoiceSettings, read_settings  # lazily: it needs torch
    from engine.model.random_weights import full_size

    if name.startswith(RANDOM):
        return full_size(name), VoiceSettings("").segment_seconds
    folder = _folder(name)
    if folder is None:
        return None
    config = read_config(folder)
    return config, read_settings(folder, config).segment_seconds


def _folder(name: str) -> Path | None:
    """The checkpoint's folder without downloading; None for a hub id that is not cached."""
    if name == "embedded":
        return Path(__file__).parent / "voices" / "tiny"
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        wanted = "want `embedded`, a directory or a hub id like `owner/name`"
        raise CheckpointError(f"{wanted}, got: {name}")
    hub = module("huggingface_hub")
    found = hub.try_to_load_from_cache(name, "config.json") if hub else None
    return Path(found).parent if isinstance(found, str) else None


def _lacking(folder: Path) -> Iterator[str]:
    for part in (folder, folder / "speech_tokenizer"):
        if not _readable(part / "config.json"):
            yield str(Path(part.name, "config.json"))
        if not any(_readable(part / name) for name in WEIGHTS):
            yield str(Path(part.name, WEIGHTS[0]))
    if not _readable(folder / "tokenizer.json") and not _readable(folder / "vocab.json"):
        yield "vocab.json"


def _readable(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def main(arguments: list[str] | None = None) -> int:
    """Print every finding; 0 if the engine can speak."""
    parser = argparse.ArgumentParser(prog="playhead doctor", description=__doc__)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    options = parser.parse_args(arguments)
    try:
        tables = {"engine": EngineConfig}
        config = load(options.config, options.set, tables, others=["gateway"])["engine"]
    except ConfigError as error:
        print(Finding("fail", "config", str(error)))
        return 1
    failed = False
    for finding in examine(config):
        print(finding, flush=True)
        failed = failed or finding.level == "fail"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
