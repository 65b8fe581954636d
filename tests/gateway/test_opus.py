"""Opus: nothing lost at the end, settings that really arrive, and a start without libopus."""

from __future__ import annotations

import ctypes
import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from engine.api import SAMPLE_RATE
from gateway.sound import opus
from gateway.sound.opus import OpusDecoder, OpusEncoder, OpusError


def sweep(samples: int) -> bytes:
    """A rising tone: any shift or cut shows."""
    phases = (
        2 * math.pi * (200 * t + 150 * t * t) for t in (i / SAMPLE_RATE for i in range(samples))
    )
    return struct.pack(f"<{samples}h", *(round(9_000 * math.sin(phase)) for phase in phases))


def correlation(a: bytes, b: bytes) -> float:
    """Of two pieces of PCM of equal length: 1 is the same sound."""
    x, y = (struct.unpack(f"<{len(pcm) // 2}h", pcm) for pcm in (a, b))
    dot = sum(p * q for p, q in zip(x, y, strict=True))
    return dot / math.sqrt(sum(p * p for p in x) * sum(q * q for q in y))


def decoded(packets: list[bytes], *, skip: int, samples: int) -> bytes:
    decoder = OpusDecoder()
    pcm = b"".join(map(decoder.decode, packets))
    return pcm[2 * skip :][: 2 * samples]


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without libopus."""
    for cached in (opus.available, opus._loaded):
        cached.cache_clear()
    monkeypatch.setattr(opus, "_candidates", lambda library: iter(()))
    monkeypatch.delitem(sys.modules, "opuslib.api", raising=False)
    yield
    for cached in (opus.available, opus._loaded):
        cached.cache_clear()


@pytest.mark.parametrize("samples", [1, 479, 480, 7_200, 24_000, 47_520, 23 * 1_920 + 777], ids=str)
def test_every_sample_comes_back_in_its_place(samples: int) -> None:
    pcm = sweep(samples)
    encoder = OpusEncoder()

    packets = encoder.encode(pcm) + encoder.finish()

    sound = decoded(packets, skip=encoder.lookahead, samples=samples)
    assert len(sound) == len(pcm)
    if samples > 480:
        assert correlation(pcm[-480:], sound[-480:]) > 0.95


def test_how_sound_is_cut_into_chunks_does_not_change_it() -> None:
    pcm = sweep(9_600)
    whole, pieces = OpusEncoder(), OpusEncoder()

    at_once = whole.encode(pcm) + whole.finish()
    cuts = [0, 2, 1_000, 1_002, 9_000, len(pcm)]
    bit_by_bit = [p for a, b in pairwise(cuts) for p in pieces.encode(pcm[a:b])]

    assert bit_by_bit + pieces.finish() == at_once


def test_one_codec_frame_is_four_packets_at_once() -> None:
    assert len(OpusEncoder().encode(sweep(1_920))) == 4


def test_pre_skip_is_the_lookahead_in_48_khz_ticks() -> None:
    encoder = OpusEncoder()

    assert encoder.pre_skip == 2 * encoder.lookahead == 312


def test_listener_runs_dry_when_what_was_encoded_has_sounded() -> None:
    encoder = OpusEncoder()

    first = encoder.dry_at(5.0)
    encoder.encode(bytes(2 * SAMPLE_RATE))

    assert (first, encoder.dry_at(5.2)) == (5.0, 6.0)


def test_gap_leaves_a_listener_no_poorer_than_a_newcomer() -> None:
    encoder = OpusEncoder()
    encoder.dry_at(5.0)
    encoder.encode(bytes(2 * SAMPLE_RATE))

    after = encoder.dry_at(60.0)
    encoder.encode(bytes(2 * SAMPLE_RATE))

    assert (after, encoder.dry_at(60.1)) == (60.0, pytest.approx(61.0))


def test_nothing_spoken_leaves_nothing_to_finish() -> None:
    assert OpusEncoder().finish() == []


@pytest.mark.parametrize("bitrate", [16_000, 32_000, 64_000])
def test_bitrate_reaches_libopus(bitrate: int) -> None:
    assert OpusEncoder(bitrate=bitrate).bitrate == bitrate


def test_signal_and_complexity_reach_libopus() -> None:
    encoder = OpusEncoder(complexity=3)

    assert encoder._encoder.signal == encoder._opuslib.SIGNAL_VOICE
    assert encoder._encoder.complexity == 3
    assert encoder._encoder.application == encoder._opuslib.APPLICATION_AUDIO


def test_variadic_ctl_knows_its_fixed_arguments() -> None:
    OpusEncoder()

    import opuslib.api.encoder as bindings

    assert bindings.libopus_ctl.argtypes == [bindings.EncoderPointer, ctypes.c_int]


def test_errors_carry_the_words_of_libopus() -> None:
    with pytest.raises(OpusError, match="opus: invalid argument: -1"):
        OpusEncoder(complexity=11)
    with pytest.raises(OpusError, match="opus: corrupted stream: -4"):
        OpusDecoder().decode(b"\xff\xff\xff")


def test_self_test_names_the_library() -> None:
    assert opus.available() is None
    assert "libopus" in opus.self_test()


@pytest.mark.usefixtures("nothing_found")
def test_without_a_library_the_reason_says_what_to_install() -> None:
    reason = opus.available()

    assert reason and "no libopus found" in reason
    assert "apt install libopus0" in reason
    with pytest.raises(OpusError, match="no libopus found"):
        OpusEncoder()


def test_a_file_that_is_not_libopus_is_passed_over() -> None:
    assert not opus._is_opus("libc.so.6")
    assert not opus._is_opus("libnowhere.so.7")


def test_the_configured_library_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_OPUS_LIBRARY", "second.so")

    candidates = opus._candidates("first.so")

    assert [next(candidates), next(candidates)] == ["first.so", "second.so"]


def test_the_library_of_the_bundle_serves_where_the_system_has_none() -> None:
    """Imports in a fresh interpreter: opuslib keeps the first library of a process."""
    script = (
        "import ctypes.util\n"
        "ctypes.util.find_library = lambda name: None\n"
        "from gateway.sound import opus\n"
        "opus._NAMES = ()\n"
        "print(opus.available(), opus.description())"
    )

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("None ") and "opuslib_next" in done.stdout


def test_a_configured_library_serves_those_who_do_not_name_it() -> None:
    script = (
        "from gateway.sound import opus\n"
        "found = next(filter(opus._is_opus, opus._candidates('')))\n"
        "opus._candidates = lambda library: filter(None, [library])\n"
        "print(opus.available(found), opus.available(), len(opus.OpusEncoder().encode(bytes(960))))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout == "None None 1\n", done.stderr
