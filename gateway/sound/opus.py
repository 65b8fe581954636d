"""Opus packets from 24 kHz PCM; the only file that knows opuslib or looks for libopus.

opuslib asks `find_library` at import and gives up if that knows nothing, so the library is
searched here first and opuslib is imported with the answer in its hand. Without a library the
gateway speaks PCM only: `available` says why.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib
import importlib.util
import math
import os
import re
import struct
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.api import SAMPLE_RATE
from gateway.sound import TICKS_PER_SAMPLE

PACKET_SAMPLES = 480  # 20 ms at SAMPLE_RATE: a codec frame is exactly four packets
PACKET_BYTES = 2 * PACKET_SAMPLES

HINT = (
    "install it with `apt install libopus0`, `brew install opus` or `pip install "
    "opuslib-next-bundled`, or name its path in `gateway.opus.library`"
)
_NAMES = ("libopus.so.0", "libopus.0.dylib", "/opt/homebrew/lib/libopus.0.dylib", "opus.dll")


class OpusError(Exception):
    """libopus is missing or refused a call; the message is libopus' own word for its code."""


@functools.cache
def available(library: str = "") -> str | None:
    """Why Opus cannot be used, with what to install; None if it can, tried out once.

    Args:
        library: path of libopus to try before all others; the first that loads serves the whole
            process.
    """
    try:
        _loaded(library)
        self_test()
    except OpusError as error:
        return str(error)
    return None


def description() -> str:
    """Path and version of the library in use, for logs. Raises OpusError if there is none."""
    opuslib = _loaded()
    return f"{opuslib.api.lib_location} ({opuslib.api.info.get_version_string().decode()})"


@functools.cache
def _loaded(library: str = "") -> Any:
    if "opuslib.api" in sys.modules:  # a process has one library: the first
        return _bindings(sys.modules["opuslib.api"].lib_location)
    path = next((name for name in _candidates(library) if _is_opus(name)), None)
    if path is None:
        raise OpusError(f"opus: no libopus found; {HINT}")
    try:
        return _bindings(path)
    except Exception as error:  # opuslib raises bare exceptions at import
        raise OpusError(f"opus: opuslib cannot use {path}: {error}; {HINT}") from error


def _bindings(path: str) -> Any:
    """Import opuslib on the library at `path`; without effect if opuslib is imported already."""
    search = ctypes.util.find_library
    ctypes.util.find_library = lambda name: path
    try:
        with warnings.catch_warnings():  # opuslib 3.0.1 compares with `is not 0`
            warnings.simplefilter("ignore", SyntaxWarning)
            opuslib = importlib.import_module("opuslib")
    finally:
        ctypes.util.find_library = search
    encoder = importlib.import_module("opuslib.api.encoder")
    # opus_encoder_ctl is variadic: unless ctypes knows the fixed part, Apple silicon reads garbage
    encoder.libopus_ctl.argtypes = [encoder.EncoderPointer, ctypes.c_int]
    return opuslib


def _candidates(library: str) -> Iterator[str]:
    yield from filter(None, (library, os.environ.get("PLAYHEAD_OPUS_LIBRARY")))
    yield from filter(None, (ctypes.util.find_library("opus"),))
    yield from _NAMES
    for package, folder in (("opuslib_next", "_native"), ("av", "../av.libs")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(map(str, (Path(place) / folder).glob("*opus*")))


def _is_opus(name: str) -> bool:
    try:
        return hasattr(ctypes.CDLL(name), "opus_encoder_create")
    except OSError:
        return False


class OpusEncoder:
    """One utterance's encoder: PCM of any length in, 20 ms packets out, nothing lost at the end.

    A fresh encoder per chunk would click, so one lives as long as its utterance. The decoded
    signal lags by `lookahead` samples: a listener drops `pre_skip` once, and `finish` pushes the
    last of it out.
    """

    def __init__(self, *, bitrate: int = 32_000, complexity: int = 5) -> None:
        """Raises OpusError without libopus, or if libopus refuses a setting."""
        self._opuslib = opuslib = _loaded()
        self._lock = threading.Lock()
        self._rest = b""
        self._began = -math.inf  # s; every gap moves it on
        self.samples = 0  # PCM samples taken in, padding not counted
        with _named_errors(opuslib):
            # AUDIO: VOIP's high-pass is for microphones. VOICE: keeps the hybrid mode for speech.
            self._encoder = opuslib.Encoder(SAMPLE_RATE, 1, opuslib.APPLICATION_AUDIO)
            self._encoder.signal = opuslib.SIGNAL_VOICE
            self._encoder.bitrate = bitrate
            self._encoder.complexity = complexity

    @property
    def lookahead(self) -> int:
        """Samples by which the decoded signal lags."""
        return int(self._encoder.lookahead)

    @property
    def pre_skip(self) -> int:
        """48 kHz ticks a listener drops at the start."""
        return self.lookahead * TICKS_PER_SAMPLE

    @property
    def bitrate(self) -> int:
        """Bits per second, as libopus has it."""
        return int(self._encoder.bitrate)

    def dry_at(self, now: float) -> float:
        """When a listener who plays on would run out of what was encoded; `now` if he has.

        Time in which there was nothing to hear, as in a pause, does not count against him later.
        """
        encoded = self.samples / SAMPLE_RATE
        self._began = max(self._began, now - encoded)
        return self._began + encoded

    def encode(self, pcm: bytes) -> list[bytes]:
        """Take int16 PCM of any even length; return the packets it completes."""
        assert len(pcm) % 2 == 0, len(pcm)
        with self._lock:
            self.samples += len(pcm) // 2
            return self._packets(pcm)

    def finish(self) -> list[bytes]:
        """The last packets, padded with silence until all sound given has left the encoder."""
        with self._lock:
            if not self.samples:
                return []
            waiting = len(self._rest) // 2 + self.lookahead
            packets = math.ceil(waiting / PACKET_SAMPLES)
            return self._packets(bytes(packets * PACKET_BYTES - len(self._rest)))

    def _packets(self, pcm: bytes) -> list[bytes]:
        pcm = self._rest + pcm
        whole = len(pcm) - len(pcm) % PACKET_BYTES
        self._rest = pcm[whole:]
        with _named_errors(self._opuslib):
            return [
                self._encoder.encode(pcm[start : start + PACKET_BYTES], PACKET_SAMPLES)
                for start in range(0, whole, PACKET_BYTES)
            ]


class OpusDecoder:
    """Packets back to PCM at SAMPLE_RATE, lagging by the encoder's lookahead."""

    def __init__(self) -> None:
        self._opuslib = _loaded()
        self._decoder = self._opuslib.Decoder(SAMPLE_RATE, 1)

    def decode(self, packet: bytes) -> bytes:
        """One packet's int16 PCM. Raises OpusError for what is no packet."""
        with _named_errors(self._opuslib):
            return bytes(self._decoder.decode(packet, PACKET_SAMPLES))


def self_test() -> str:
    """Encode and decode three packets of tone; return `description` if the delay is right.

    Raises: OpusError if there is no library or the sound comes back elsewhere.
    """
    encoder, decoder = OpusEncoder(), OpusDecoder()
    samples = 3 * PACKET_SAMPLES
    tone = [round(9_000 * math.sin(2 * math.pi * 440 * i / SAMPLE_RATE)) for i in range(samples)]
    packets = encoder.encode(struct.pack(f"<{samples}h", *tone)) + encoder.finish()
    pcm = b"".join(map(decoder.decode, packets))
    heard = struct.unpack(f"<{len(pcm) // 2}h", pcm)
    promised = encoder.lookahead
    half_period = SAMPLE_RATE // 440 // 2  # a tone cannot tell delays a period apart
    delay = max(
        range(promised - half_period, promised + half_period),
        key=lambda lag: sum(a * b for a, b in zip(tone, heard[lag:], strict=False)),
    )
    if abs(delay - promised) > 1:
        raise OpusError(f"opus: sound comes back late; want {promised} samples, got: {delay}")
    return description()


@contextmanager
def _named_errors(opuslib: Any) -> Iterator[None]:
    """Turn opuslib's errors, which cannot be printed, into an OpusError with libopus' words."""
    try:
        yield
    except opuslib.OpusError as error:
        digits = re.search(r"-\d+", str(error.code))
        code = int(digits[0]) if digits else 0
        raise OpusError(f"opus: {opuslib.api.info.strerror(code).decode()}: {code}") from None
