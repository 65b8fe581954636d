"""`playhead say` against a real gateway on the silent engine."""

from __future__ import annotations

import asyncio
import io
import os
import re
import struct
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from engine.client import LocalEngine
from engine.config import EngineConfig, ModelConfig
from gateway import say
from gateway.app import READINESS, create_app
from gateway.config import GatewayConfig


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A server that speaks tones."""
    engine = LocalEngine(EngineConfig(model=ModelConfig(checkpoint="silent")))
    patient = GatewayConfig(self_test="", text_pause=60.0, text_wait=60.0)  # text may come slowly
    app = create_app(engine, patient)
    async with TestServer(app) as server:
        await app[READINESS].wait()
        yield str(server.make_url("/"))


async def spoken(*arguments: object) -> int:
    return await asyncio.to_thread(say.main, [str(argument) for argument in arguments])


async def test_wav_states_its_length(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hello.wav"

    status = await spoken("Hello there.", "--url", url, "--out", file)

    assert status == 0
    with wave.open(str(file)) as sound:
        assert sound.getnframes() > 0
        assert len(sound.readframes(-1)) == 2 * sound.getnframes() == file.stat().st_size - 44
    assert re.search(
        r"hello\.wav: \d\.\d\d s of sound, the first after \d+ ms", capsys.readouterr().err
    )


async def test_ogg_holds_the_same_sound_as_wav(url: str, tmp_path: Path) -> None:
    for name in ("hello.wav", "hello.ogg"):
        await spoken("Hello there, listener.", "--url", url, "--out", tmp_path / name, "--seed", 3)

    file = (tmp_path / "hello.ogg").read_bytes()
    with wave.open(str(tmp_path / "hello.wav")) as sound:
        samples = sound.getnframes()
    pages = [at for at in range(len(file)) if file[at : at + 4] == b"OggS"]
    assert struct.unpack_from("<q", file, pages[-1] + 6)[0] == 312 + 2 * samples
    assert [file[at + 5] for at in pages] == [2, *[0] * (len(pages) - 2), 4]


async def test_text_sent_word_by_word_is_spoken_whole(url: str, tmp_path: Path) -> None:
    arguments = ("One two three.", "--url", url)

    at_once = await spoken(*arguments, "--out", tmp_path / "once.wav")
    paced = await spoken(*arguments, "--out", tmp_path / "paced.wav", "--words-per-second", 100)

    assert at_once == paced == 0
    sizes = [(tmp_path / name).stat().st_size for name in ("once.wav", "paced.wav")]
    assert abs(sizes[0] - sizes[1]) <= 3_840


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Hello.", "--voice", "nobody"], "the server says unsupported_voice"),
        (["  "], "nothing in the text can be spoken"),
    ],
)
async def test_a_refusal_leaves_no_file_and_says_why(
    url: str,
    tmp_path: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = await spoken(*arguments, "--url", url, "--out", tmp_path / "hello.wav")

    assert status == 1
    assert words in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_without_a_server_it_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "http://127.0.0.1:9"  # the discard port: nobody listens

    status = say.main(["Hello.", "--url", url, "--out", str(tmp_path / "hello.wav")])

    assert status == 1
    assert f"no server at {url}; start one with `playhead serve`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nowhere" / "hello.wav"

    assert say.main(["Hello.", "--out", str(file)]) == 1
    assert f"{file}: No such file or directory" in capsys.readouterr().err


def test_a_kind_of_file_that_it_cannot_write_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        say.main(["Hello.", "--out", str(tmp_path / "hello.mp3")])

    assert "want FILE.wav, FILE.ogg, FILE.opus or -" in capsys.readouterr().err


def test_words_joined_are_the_text() -> None:
    text = "  One,  two\nthree. "

    assert "".join(say.words(text)) == text
    assert len(say.words(text)) == 3


def test_a_pipe_gets_a_header_without_length() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    pipe = Pipe()
    recording = say.WavRecording(pipe)
    recording.add([b"\x01\x02" * 480], 960)
    recording.close()

    assert pipe.getvalue()[40:44] == b"\xff\xff\xff\xff"
    assert pipe.getvalue()[44:] == b"\x01\x02" * 480
