"""PCM: rounding, and which silence is sent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import TrimConfig
from engine.pcm import FRAME_BYTES, PACKET_BYTES, PACKET_SAMPLES, LeadingSilence, to_bytes, to_int16

SECOND = 50  # packets
FRAME = 4  # packets


def tone(packets: int, *, rms_db: float = -20.0) -> bytes:
    """A sine of whole periods in every packet; its level is exact but for rounding."""
    phase = np.arange(PACKET_SAMPLES) * 2 * np.pi * 8 / PACKET_SAMPLES
    amplitude = 10 ** (rms_db / 20) * 32_767 * np.sqrt(2)
    period: bytes = np.round(amplitude * np.sin(phase)).astype("<i2").tobytes()
    return period * packets


def silence(packets: int) -> bytes:
    return b"\0" * PACKET_BYTES * packets


def trim(pcm: bytes, *, chunk: int = FRAME_BYTES, config: TrimConfig | None = None) -> bytes:
    """What is sent of an utterance that comes in chunks of `chunk` bytes."""
    filter = LeadingSilence(config or TrimConfig())
    starts = range(0, len(pcm), chunk)
    return b"".join(
        filter.push(pcm[start : start + chunk], last=start + chunk >= len(pcm)) for start in starts
    )


@pytest.mark.parametrize(
    ("sample", "value"),
    [(0.0, 0), (1.0, 32767), (-1.0, -32767), (3.0, 32767), (-3.0, -32767), (0.6 / 32767, 1)],
)
def test_samples_are_rounded_and_clipped(sample: float, value: int) -> None:
    pcm = to_int16(torch.tensor([sample]))

    assert pcm.tolist() == [value]


def test_bytes_are_little_endian() -> None:
    assert to_bytes(torch.tensor([1, -2, 256], dtype=torch.int16)) == b"\1\0\xfe\xff\0\1"


def test_sound_at_once_is_sent_at_once() -> None:
    assert trim(tone(8)) == tone(8)


@pytest.mark.parametrize("packets", [1, 3, 4, 7, 25, 51])
def test_one_packet_of_silence_is_kept_before_the_onset(packets: int) -> None:
    sent = trim(silence(packets) + tone(10))

    assert sent == silence(1) + tone(10)


def test_at_most_a_second_is_removed() -> None:
    sent = trim(silence(SECOND + 10) + tone(10))

    assert sent == silence(10) + tone(10)


@pytest.mark.parametrize(("level", "kept"), [(-44.5, 8), (-45.5, 0)])
def test_silence_is_below_45_decibels(level: float, kept: int) -> None:
    sent = trim(tone(8, rms_db=level) + tone(8))

    assert len(sent) == (kept + 8 + (1 if kept == 0 else 0)) * PACKET_BYTES


def test_nothing_is_sent_before_a_frame_of_sound_is_there() -> None:
    filter = LeadingSilence(TrimConfig())
    frames = [silence(4), silence(3) + tone(1), tone(4)]  # the first sound: 20 ms

    sent = [filter.push(frame, last=False) for frame in frames]

    assert sent == [b"", b"", silence(1) + tone(5)]


def test_silence_after_the_onset_is_sent() -> None:
    pcm = tone(4) + silence(100) + tone(4)

    assert trim(pcm) == pcm


def test_short_sound_is_sent_when_it_is_all() -> None:
    assert trim(silence(3) + tone(1)) == silence(1) + tone(1)


@pytest.mark.parametrize("packets", [0, 1, 4, 50])
def test_silent_utterance_leaves_nothing(packets: int) -> None:
    filter = LeadingSilence(TrimConfig())

    assert filter.push(silence(packets), last=True) == b""


def test_long_silent_utterance_keeps_what_may_not_be_removed() -> None:
    assert trim(silence(SECOND + 8)) == silence(8)


def test_long_silence_is_sent_as_soon_as_a_frame_may_not_be_removed() -> None:
    filter = LeadingSilence(TrimConfig())

    sent = [len(filter.push(silence(1), last=False)) for _ in range(SECOND + 6)]

    assert sent == [0] * (SECOND + 3) + [FRAME_BYTES, PACKET_BYTES, PACKET_BYTES]


def test_ending_without_more_sound_releases_what_was_held() -> None:
    filter = LeadingSilence(TrimConfig())
    filter.push(silence(3) + tone(1), last=False)

    assert filter.push(b"", last=True) == silence(1) + tone(1)
    assert filter.push(b"", last=True) == b""


def test_trimming_can_be_turned_off() -> None:
    pcm = silence(60) + tone(4)

    assert trim(pcm, config=TrimConfig(longest=0.0)) == pcm


def test_more_may_be_kept() -> None:
    config = TrimConfig(keep=0.06, longest=0.2)

    assert trim(silence(8) + tone(4), config=config) == silence(3) + tone(4)
    assert trim(silence(20) + tone(4), config=config) == silence(10) + tone(4)


@given(
    quiet=st.integers(0, 70),
    loud=st.integers(0, 12),
    chunks=st.lists(st.integers(1, 12), min_size=1, max_size=6),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_chunks_do_not_change_what_is_sent(quiet: int, loud: int, chunks: list[int]) -> None:
    pcm = silence(quiet) + tone(loud)
    filter, rest = LeadingSilence(TrimConfig()), pcm
    parts: list[bytes] = []

    while rest:
        size = chunks[len(parts) % len(chunks)] * FRAME_BYTES
        part, rest = rest[:size], rest[size:]
        parts.append(filter.push(part, last=not rest))

    assert b"".join(parts) == trim(pcm, chunk=max(1, len(pcm)))
    assert pcm.endswith(b"".join(parts))
    first = next((part for part in parts if part), b"")
    assert len(first) >= min(FRAME_BYTES, len(b"".join(parts)))


def test_silence_at_the_end_is_measured_across_chunks() -> None:
    listening = LeadingSilence(TrimConfig())

    listening.push(tone(4) + silence(3), last=False)
    assert listening.quiet == pytest.approx(0.06)
    listening.push(silence(5), last=False)
    assert listening.quiet == pytest.approx(0.16)
    listening.push(tone(1), last=False)
    assert listening.quiet == 0


@given(
    chunks=st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), min_size=1, max_size=4),
)
def test_silence_at_the_end_is_measured_across_frames_and_chunks(
    chunks: list[tuple[int, int]],
) -> None:
    listening, behind = LeadingSilence(TrimConfig()), 0

    for loud, quiet in chunks:
        listening.push(tone(loud) + silence(quiet), last=False)
        behind = quiet if loud else behind + quiet
        assert listening.quiet == pytest.approx(behind / SECOND)
