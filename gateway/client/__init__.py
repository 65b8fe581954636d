"""A Python client of `voice.v1`: `say`, the tests and the benchmarks are made of it.

    async with VoiceClient(url) as voice:
        utterance = await voice.speak("Hello there.")
        async for chunk in utterance:
            ...

With a `Player` it acks like a browser; without one the server assumes that playback starts on
arrival and never pauses.
"""

from gateway.client.connection import VoiceClient
from gateway.client.player import Player
from gateway.client.utterance import Fields, Utterance, VoiceError

__all__ = ["Fields", "Player", "Utterance", "VoiceClient", "VoiceError"]
