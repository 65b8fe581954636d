"""The audible onset: within 10 ms of where the sound was put, whatever stands before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import SAMPLE_RATE
from gateway.bench.onset import Onset
from tests.gateway.bench.sounds_made import packed, silence, sine

QUIET = 32_768 * 10 ** (-46 / 20) * 2**0.5  # amplitude of a sine of −46 dBFS
LOUD = 32_768 * 10 ** (-44 / 20) * 2**0.5  # of −44 dBFS


def onset_of(pcm: bytes) -> float | None:
    onset = Onset()
    onset.add(pcm)
    return onset.position


@pytest.mark.parametrize("milliseconds", [0, 10, 80, 160, 330, 1000])
def test_onset_is_found_within_10_ms(milliseconds: int) -> None:
    position = onset_of(silence(milliseconds / 1000) + sine(0.2))

    assert position == pytest.approx(milliseconds / 1000, abs=0.0101)


@given(st.integers(0, 9_600))
def test_onset_lies_at_most_a_window_before_loud_sound_and_never_after(samples: int) -> None:
    position = onset_of(bytes(2 * samples) + sine(0.2))

    assert position is not None
    assert 0 <= samples / SAMPLE_RATE - position < 0.020


@given(st.lists(st.floats(-60, -30), min_size=4, max_size=12))
def test_onset_is_the_start_of_the_first_of_two_loud_windows(levels: list[float]) -> None:
    """Against the definition written out: 20 ms windows, every 10 ms, mean removed, −45 dBFS."""
    pcm = b"".join(sine(0.01, amplitude=32_768 * 10 ** (level / 20)) for level in levels)
    samples = np.frombuffer(pcm, "<i2").astype(float)
    windows = [samples[at : at + 480] for at in range(0, len(samples) - 479, 240)]
    loud = [window.std() >= 32_768 * 10 ** (-45 / 20) for window in windows]

    pairs = (index * 0.01 for index in range(len(loud) - 1) if loud[index] and loud[index + 1])
    assert onset_of(pcm) == pytest.approx(next(pairs, None))


def test_constant_level_is_silence() -> None:
    position = onset_of(silence(0.1, level=6_000) + sine(0.1, level=6_000))

    assert position == pytest.approx(0.1, abs=0.0101)


@pytest.mark.parametrize(("amplitude", "found"), [(QUIET, False), (LOUD, True)])
def test_threshold_is_45_db_below_full_scale(amplitude: float, found: bool) -> None:
    position = onset_of(sine(0.2, amplitude=amplitude))

    assert (position is not None) == found


def test_click_in_one_window_is_no_onset() -> None:
    click = packed([0.0] * 5 + [9_000.0] + [0.0] * 5)  # within the first hop of a window only

    assert onset_of(click + silence(0.2)) is None


def test_silence_has_no_onset() -> None:
    assert onset_of(silence(1.0)) is None


@given(st.lists(st.integers(1, 900), max_size=12))
def test_pieces_do_not_matter(sizes: list[int]) -> None:
    pcm = silence(0.047) + sine(0.1)
    onset = Onset()
    at = 0
    for size in (*sizes, len(pcm)):
        onset.add(pcm[at : at + 2 * size])
        at += 2 * size

    assert onset.position == onset_of(pcm)
