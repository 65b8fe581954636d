"""Sound as bytes: packets and files. Positions everywhere are ticks of the 48 kHz clock of Opus."""

from engine.api import SAMPLE_RATE

TICKS_PER_SECOND = 48_000
TICKS_PER_MS = TICKS_PER_SECOND // 1000
TICKS_PER_SAMPLE = TICKS_PER_SECOND // SAMPLE_RATE
PACKET_TICKS = 960  # 20 ms
