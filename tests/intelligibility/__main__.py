"""How much of the speech a stranger understands: word error rate of a voice and of its teacher.

    python -m tests.intelligibility --voice rms

Speaks `sentences.txt` through `playhead say`, writes down what Whisper hears, does the same with
the teacher (Debian package `flite`) and prints both rates and their ratio. `requirements.txt` says
what it needs.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.intelligibility.recognizer import Recognizer
from tests.intelligibility.wer import edits, word_error_rate, words
from tests.serving import installed, serving

SENTENCES = Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8").splitlines()

Speak = Callable[[str, Path], None]  # (sentence, sound file to write)


def main() -> None:
    """Measure both voices and print the comparison."""
    options = arguments()
    running = nullcontext(options.url) if options.url else serving([str(options.playhead)])
    with tempfile.TemporaryDirectory() as temporary, running as url:
        recognizer = Recognizer(Path(temporary))
        folder = options.keep or Path(temporary)
        ours = measure("playhead", playhead(options, url), recognizer, folder)
        theirs = measure("flite", flite(options.teacher), recognizer, folder)
    print(f"ratio {ours / theirs:.2f}" if theirs else "ratio: the teacher made no error")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.intelligibility", description=__doc__)
    parser.add_argument("--url", help="a running server; without it one is started")
    parser.add_argument("--playhead", type=Path, help="the program; without it the installed one")
    parser.add_argument("--voice", default="rms", help="the voice to judge")
    parser.add_argument("--teacher", default="rms", help="the flite voice that taught it")
    parser.add_argument("--keep", type=Path, help="an existing folder for the sound files")
    options = parser.parse_args()
    options.playhead = options.playhead or installed()
    return options


def measure(name: str, speak: Speak, recognizer: Recognizer, folder: Path) -> float:
    """Speak and recognize every sentence, print what was misheard, return the word error rate."""
    heard = []
    for number, sentence in enumerate(SENTENCES, start=1):
        sound = folder / f"{name}-{number:02}.wav"
        speak(sentence, sound)
        heard.append(recognizer.transcribe(sound))
    misheard = [pair for pair in zip(SENTENCES, heard, strict=True) if missed(*pair)]
    for sentence, transcript in misheard:
        print(f"  {sentence}\n    heard: {transcript}")
    rate = word_error_rate(SENTENCES, heard)
    exact = len(SENTENCES) - len(misheard)
    print(f"{name}: word error rate {rate:.1%}, {exact} of {len(SENTENCES)} sentences exact")
    return rate


def missed(sentence: str, transcript: str) -> int:
    """Count the words of one sentence that were not heard as spoken."""
    return edits(words(sentence), words(transcript))


def playhead(options: argparse.Namespace, url: str) -> Speak:
    """The voice under test, through the same door as everyone's."""
    fixed = [str(options.playhead), "say", "--url", url, "--voice", options.voice]
    return lambda sentence, sound: run([*fixed, "--out", str(sound), sentence])


def flite(voice: str) -> Speak:
    """The teacher, straight from its own program."""
    return lambda sentence, sound: run(["flite", "-voice", voice, "-t", sentence, "-o", str(sound)])


def run(command: Sequence[str]) -> None:
    """Run one command to its end; its own words explain a failure."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=300)


main()
