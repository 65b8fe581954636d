"""Write the golden files from the official package.

Run from the repository's root in an environment of its own, because the official package pins old
versions:

    python3.11 -m venv parity && . parity/bin/activate
    pip install torch==2.13.0 numpy transformers==4.57.3 accelerate==1.12.0 librosa soundfile \
        einops safetensors onnxruntime sox
    pip install --no-deps qwen-tts==0.1.1
    mkdir -p stub/torchaudio/compliance      # imported, never used: the 25 Hz tokenizer's
    touch stub/torchaudio/__init__.py stub/torchaudio/compliance/{__init__,kaldi}.py
    PYTHONPATH=.:stub python -m tests.parity.generate
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from qwen_tts import Qwen3TTSModel

from tests.engine.random_checkpoint import VOICE, make
from tests.parity import codec
from tests.parity.cases import TOKENIZED, Case, all_cases

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    """Generate every case, every tokenisation and the codec's files."""
    torch.set_num_threads(1)  # tiny matrices: more threads are slower
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        models = {name: _load(path) for name, path in _checkpoints(Path(temporary)).items()}
        arrays: dict[str, np.ndarray] = {}
        for case in all_cases():
            arrays |= _run(models[case.checkpoint], case)
            print(case.name, arrays[f"{case.name}.codes"].shape, flush=True)
        np.savez_compressed(GOLDEN / "language.npz", **arrays)
        _tokenize(models["embedded"])
    codec.main()


def _checkpoints(folder: Path) -> dict[str, Path]:
    return {
        "1b7": make(folder / "1b7", size="1b7", seed=0),
        "0b6": make(folder / "0b6", size="0b6", seed=1),
        "eos": make(folder / "eos", size="1b7", seed=2, eos_always=True),
        "embedded": VOICE,
    }


def _load(path: Path) -> Any:
    return Qwen3TTSModel.from_pretrained(str(path), dtype=torch.float32)


class Recorder:
    """Stands before `talker.generate` and keeps what goes in and comes out."""

    def __init__(self, talker: Any) -> None:
        self._generate = talker.generate
        self.rows = self.trailing = self.logits = torch.empty(0)

    def __call__(self, **kwargs: Any) -> Any:
        self.rows = kwargs["inputs_embeds"][0]
        self.trailing = kwargs["trailing_text_hidden"][0]
        result = self._generate(**kwargs, output_logits=True)
        self.logits = torch.cat(result.logits)
        return result


def _run(official: Any, case: Case) -> dict[str, np.ndarray]:
    sample = case.seed is not None
    torch.manual_seed(case.seed or 0)
    talker = official.model.talker
    recorder = Recorder(talker)
    talker.generate = recorder
    decode = official.model.speech_tokenizer.decode
    kept: list[torch.Tensor] = []
    official.model.speech_tokenizer.decode = lambda items: (
        kept.extend(item["audio_codes"] for item in items) or ([None], 24000)
    )
    try:
        official.generate_custom_voice(
            text=case.text,
            speaker=case.speaker,
            language=case.language,
            instruct=case.instructions,
            non_streaming_mode=case.whole,
            max_new_tokens=case.tokens,
            do_sample=sample,
            subtalker_dosample=sample,
            top_p=case.top_p,
            subtalker_top_p=case.top_p,
            repetition_penalty=1.05,
        )
    finally:
        del talker.generate  # the class's own method shows again
        official.model.speech_tokenizer.decode = decode
    arrays = {f"{case.name}.codes": kept[0].numpy().astype(np.int16)}
    if case.details:
        arrays[f"{case.name}.rows"] = recorder.rows.numpy()
        arrays[f"{case.name}.trailing"] = recorder.trailing.numpy()
        arrays[f"{case.name}.logits"] = recorder.logits[:4].numpy()
    return arrays


def _tokenize(official: Any) -> None:
    """Keep the ids of the whole wrapped strings, as the official processor makes them."""
    targets = [official._build_assistant_text(text) for text in TOKENIZED]
    instructions = [official._build_instruct_text(text) for text in TOKENIZED]
    golden = {
        "body": [ids[0].tolist() for ids in official._tokenize_texts(targets)],
        "instruct": [ids[0].tolist() for ids in official._tokenize_texts(instructions)],
    }
    text = json.dumps(golden, indent=None)
    (GOLDEN / "tokens.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
