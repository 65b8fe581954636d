"""An engine that does what a test tells it, and remembers what it was told."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from engine.api import (
    FRAME_SAMPLES,
    SAMPLE_RATE,
    Append,
    Audio,
    Cancel,
    Command,
    Ended,
    EngineGone,
    Finish,
    Flush,
    Info,
    Load,
    Open,
    Playback,
)
from engine.client import EngineClient

INFO = Info(
    model="fake",
    voices=("alba", "bruno"),
    default_voice="alba",
    languages=("English", "German"),
    instructions=False,
    slots=8,
)
SAMPLES_PER_CHARACTER = FRAME_SAMPLES  # one frame of sound for each code point


def tone(samples: int, hertz: float = 440.0, *, start: int = 0) -> bytes:
    """int16 PCM of a sine that goes on where `start` samples of it ended."""
    step = 2 * math.pi * hertz / SAMPLE_RATE
    values = (round(8_000 * math.sin(step * index)) for index in range(start, start + samples))
    return struct.pack(f"<{samples}h", *values)


@dataclass
class Spoken:
    """What the engine knows of one utterance."""

    options: Open
    text: str = ""
    made: int = 0  # samples
    playback: list[Playback] = field(default_factory=list)
    flushes: int = 0
    finished: bool = False


class FakeEngine(EngineClient):
    """Speaks a frame for each code point, unless `silent` leaves the speaking to the test."""

    def __init__(self, *, silent: bool = False, starting: bool = False) -> None:
        super().__init__()
        self.silent = silent
        self.spoken: dict[str, Spoken] = {}
        self.cancelled: list[str] = []
        self.opened = 0
        self._starting = starting
        self._info: Info | None = None

    @property
    def info(self) -> Info:
        """Known once started."""
        if self._info is None:
            raise EngineGone("fake: want `start` first")
        return self._info

    @property
    def live(self) -> int:
        """Speeches not ended."""
        return len(self._speeches)

    async def start(self) -> None:
        """Ready at once, unless it is to stay `starting`."""
        if self._starting:
            raise EngineGone("fake: will not start")
        self._info = INFO
        self.alive = True
        self.load = Load(utterances=0, slots=8, lateness=0.0)

    async def close(self) -> None:
        """Lose everything."""
        self.lose()

    def lose(self) -> None:
        """As if the engine process had died."""
        self._lose("engine_lost")

    def last(self) -> Spoken:
        """The utterance opened last."""
        return list(self.spoken.values())[-1]

    def send(self, command: Command) -> None:
        """Obey."""
        match command:
            case Open(utterance=utterance):
                self.opened += 1
                self.spoken[utterance] = Spoken(command)
            case Append(utterance, text):
                self.spoken[utterance].text += text
            case Flush(utterance):
                self.spoken[utterance].flushes += 1
                self._speak(utterance)
            case Finish(utterance):
                self.spoken[utterance].finished = True
                self._speak(utterance)
            case Playback(utterance=utterance):
                self.spoken[utterance].playback.append(command)
            case Cancel(utterance) if utterance in self._speeches:
                self.cancelled.append(utterance)
                self.end(utterance, "cancelled")

    def say(self, utterance: str, samples: int, *, text_to: int, last: bool = False) -> None:
        """Deliver the next sound of an utterance."""
        spoken = self.spoken[utterance]
        pcm = tone(samples, 300.0 + 40.0 * self.opened, start=spoken.made)
        self._dispatch(Audio(utterance, spoken.made, pcm, text_to, last))
        spoken.made += samples

    def end(
        self, utterance: str, reason: str = "complete", detail: str = "", **more: float
    ) -> None:
        """Deliver the last event of an utterance."""
        spoken = self.spoken[utterance]
        ended = Ended(utterance, reason, detail, generated=spoken.made, **more)  # type: ignore[arg-type]
        self._dispatch(ended)

    def _speak(self, utterance: str) -> None:
        spoken = self.spoken[utterance]
        if self.silent:
            return
        already = spoken.made // SAMPLES_PER_CHARACTER
        for place in range(already + 1, len(spoken.text) + 1):
            last = spoken.finished and place == len(spoken.text)
            self.say(utterance, SAMPLES_PER_CHARACTER, text_to=place, last=last)
        if spoken.finished:
            self.end(utterance)
