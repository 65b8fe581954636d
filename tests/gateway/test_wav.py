"""The WAV header."""

from __future__ import annotations

import io
import struct
import wave

from gateway.sound import wav


def test_a_known_length_is_read_back() -> None:
    pcm = bytes(2 * 2_697)

    with wave.open(io.BytesIO(wav.header(2_697) + pcm)) as file:
        assert file.getparams()[:4] == (1, 2, 24_000, 2_697)
        assert file.readframes(2_697) == pcm


def test_an_unknown_length_is_written_as_without_end() -> None:
    header = wav.header(None)

    assert len(header) == 44
    assert struct.unpack_from("<I", header, 4) == struct.unpack_from("<I", header, 40)
    assert struct.unpack_from("<I", header, 40) == (0xFFFFFFFF,)
