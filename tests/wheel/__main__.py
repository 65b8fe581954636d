"""Does what we ship run? Looks into a wheel, then speaks through the program installed from it.

    python -m tests.wheel dist/playhead-0.1.0-py3-none-any.whl /somewhere/else/bin/playhead

The program must be installed outside this checkout, in an environment that holds nothing but the
wheel and its dependencies: that is where forgotten files and undeclared imports show.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import wave
import zipfile
from array import array
from pathlib import Path

from tests.serving import fetch, serving

SHIPPED = (  # without these the program would install, and stay silent
    "engine/voices/tiny/config.json",
    "engine/voices/tiny/model.safetensors",
    "engine/voices/tiny/speech_tokenizer/model.safetensors",
    "share/playhead/configs/default.toml",
    "share/playhead/web/index.html",
)
SENTENCE = "The wheel can speak."
SHORTEST = 0.5  # s: less than this is no sentence
QUIETEST = 1_000  # peak of int16: less than this is no voice


def main() -> None:
    """Check the wheel's files, its server, its page and its voice."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("playhead", type=Path, help="the program installed from that wheel")
    options = parser.parse_args()
    contents(options.wheel)
    with tempfile.TemporaryDirectory() as folder, serving([str(options.playhead)]) as url:
        page(url)
        voice(options.playhead, url, Path(folder) / "spoken.wav")


def contents(path: Path) -> None:
    """Refuse a wheel that lacks what is needed at run time, or carries what is not."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
    missing = [file for file in SHIPPED if not any(name.endswith(file) for name in names)]
    assert not missing, f"{path.name}: lacks {missing}"
    strays = [name for name in names if name.startswith(("tests/", ".")) or "__pycache__" in name]
    assert not strays, f"{path.name}: carries {strays}"
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1e6:.1f} MB")


def page(url: str) -> None:
    """Fetch the demo page."""
    status, body = fetch(url)
    assert status == 200 and b"<html" in body.lower(), f"{url}: want a page, got: {status}"
    print(f"{url}: serves the page")


def voice(playhead: Path, url: str, sound: Path) -> None:
    """Say a sentence and check that what arrives is speech-like sound."""
    command = [str(playhead), "say", "--url", url, "--out", str(sound), SENTENCE]
    subprocess.run(command, check=True, cwd=sound.parent, stdin=subprocess.DEVNULL, timeout=300)
    with wave.open(str(sound)) as spoken:
        assert (spoken.getnchannels(), spoken.getsampwidth(), spoken.getframerate()) == (
            1,
            2,
            24_000,
        )
        samples = array("h", spoken.readframes(spoken.getnframes()))
    seconds, peak = len(samples) / 24_000, max(map(abs, samples), default=0)
    assert seconds >= SHORTEST, f"{sound.name}: want {SHORTEST} s or more, got: {seconds:.2f}"
    assert peak >= QUIETEST, f"{sound.name}: want a peak of {QUIETEST} or more, got: {peak}"
    print(f"{sound.name}: {seconds:.2f} s of sound, peak {peak}")


main()
