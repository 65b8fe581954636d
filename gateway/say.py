"""`playhead say`: let a running server speak a text into a file, as it would to a listener.

    playhead say "Your taxi will be here in five minutes." --out taxi.wav

WAV holds the server's own samples, Ogg its Opus packets as they came.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from websockets.exceptions import WebSocketException

from gateway.client import VoiceClient, VoiceError
from gateway.sound import TICKS_PER_SAMPLE, TICKS_PER_SECOND, ogg, wav

SERVER = "http://127.0.0.1:8000"
OPUS_FILES = (".ogg", ".opus")


def main(arguments: Sequence[str]) -> int:
    """Speak one text; 0 if its sound is in the file, 1 if not, and then why on standard error."""
    options = _parser().parse_args(arguments)
    try:
        with _opened(options.out) as file:
            summary = asyncio.run(_say(options, file))
    except VoiceError as error:
        return _failed(f"the server says {error}")
    except ConnectionRefusedError:
        return _failed(f"no server at {options.url}; start one with `playhead serve`")
    except BrokenPipeError:
        return _failed("nobody reads the pipe any more")
    except OSError as error:
        return _failed(f"{error.filename or options.url}: {error.strerror or error}")
    except WebSocketException as error:
        return _failed(f"{options.url}: {error}")
    print(f"{options.out}: {summary}", file=sys.stderr)
    return 0


async def _say(options: argparse.Namespace, file: BinaryIO) -> str:
    text = sys.stdin.read() if options.text == "-" else options.text
    codec = "opus" if options.out.lower().endswith(OPUS_FILES) else "pcm_s16le"
    wishes = {"voice": options.voice, "language": options.language}
    wishes |= {"instructions": options.instructions, "seed": options.seed}
    fields = {key: value for key, value in wishes.items() if value is not None}
    async with VoiceClient(_address(options.url), codecs=[codec], token=options.token) as voice:
        recording: Recording = (
            OggRecording(file, pre_skip=voice.pre_skip) if codec == "opus" else WavRecording(file)
        )
        rate = options.words_per_second
        utterance = await voice.speak(_paced(text, rate) if rate else text, **fields)
        ticks = 0
        async for chunk in utterance:
            recording.add(chunk.packets, chunk.duration)
            ticks += chunk.duration
        recording.close()
    if utterance.first_chunk_at is None:
        raise VoiceError("no_audio", "nothing in the text can be spoken")
    wait = utterance.first_chunk_at - utterance.asked_at
    return f"{ticks / TICKS_PER_SECOND:.2f} s of sound, the first after {wait * 1000:.0f} ms"


async def _paced(text: str, words_per_second: float) -> AsyncIterator[str]:
    """Words as a language model would send them."""
    for word in words(text):
        yield word
        await asyncio.sleep(1 / words_per_second)


def words(text: str) -> list[str]:
    """The text cut behind the space after each word: joined, it is the text again."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def _address(url: str) -> str:
    return re.sub("^http", "ws", url.rstrip("/")) + "/v1/voice"


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """The file to write; gone again if nothing comes of it."""
    if name == "-":
        yield sys.stdout.buffer
        return
    path = Path(name)
    try:
        with path.open("wb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _failed(words: str) -> int:
    print(f"playhead say: {words}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="playhead say", description="Let a server speak a text.")
    parser.add_argument("text", help="what to say; -: read it from standard input")
    parser.add_argument(
        "--out", type=_file, required=True, help="FILE.wav or FILE.ogg; -: WAV to a pipe"
    )
    parser.add_argument("--url", default=SERVER, help=f"where the server is (default: {SERVER})")
    parser.add_argument("--token", help="bearer token, if the server wants one")
    parser.add_argument("--voice", help="default: the server's")
    parser.add_argument("--language", help="default: as the text reads")
    parser.add_argument("--instructions", help="how to say it, for models that take advice")
    parser.add_argument("--seed", type=int, help="the same seed gives the same sound")
    parser.add_argument(
        "--words-per-second", type=_positive, metavar="N", help="send the text at this pace"
    )
    return parser


def _file(text: str) -> str:
    if text != "-" and not text.lower().endswith((".wav", *OPUS_FILES)):
        raise argparse.ArgumentTypeError(f"want FILE.wav, FILE.ogg, FILE.opus or -, got {text!r}")
    return text


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"want more than 0, got: {text}")
    return value


class Recording(Protocol):
    """A file that takes chunks as they arrive."""

    def add(self, packets: Sequence[bytes], duration: int) -> None:
        """The next chunk; `duration` in audible 48 kHz ticks."""

    def close(self) -> None:
        """Complete the file."""


class WavRecording:
    """Samples behind a header, which learns their number at the end if the file can be rewound."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._samples = 0
        file.write(wav.header(None))

    def add(self, packets: Sequence[bytes], duration: int) -> None:
        """Samples as they are."""
        self._samples += duration // TICKS_PER_SAMPLE
        self._file.write(b"".join(packets))
        self._file.flush()

    def close(self) -> None:
        """Write the number of samples into the header, unless the file is a pipe."""
        if self._file.seekable():
            self._file.seek(0)
            self._file.write(wav.header(self._samples))


class OggRecording:
    """Opus packets in an Ogg stream; one chunk waits, because the last page is marked."""

    def __init__(self, file: BinaryIO, *, pre_skip: int) -> None:
        self._file = file
        self._muxer = ogg.OggOpus(pre_skip=pre_skip, serial=random.getrandbits(32))
        self._ticks = 0
        self._waiting: Sequence[bytes] = ()
        file.write(self._muxer.start())

    def add(self, packets: Sequence[bytes], duration: int) -> None:
        """Write the chunk before this one."""
        self._file.write(self._muxer.add(self._waiting))
        self._waiting = packets
        self._ticks += duration

    def close(self) -> None:
        """Write the last page, cut to the sound there was."""
        if self._waiting:
            samples = self._ticks // TICKS_PER_SAMPLE
            self._file.write(self._muxer.finish(self._waiting, samples=samples))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
