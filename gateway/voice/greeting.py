"""What client and server agree on in `hello`, and how each utterance is spoken by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata

from engine.api import SAMPLE_RATE, Info
from gateway.protocol import PROTOCOL, ProtocolError, messages
from gateway.protocol.requests import Hello, Say
from gateway.voice.coding import Coder, PcmCoder
from gateway.voice.house import House

LISTED_VOICES = 64  # in the answer; all of them by HTTP
FEATURES = ("queue", "replace", "parallel", "flush", "marks", "stats", "heard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What client and server agreed on in `hello`."""

    hello: Hello  # the client's wishes, and the defaults of each `say`
    codec: str
    bitrate: int  # bit/s
    pre_skip: int  # ticks
    new_coder: Callable[[], Coder]
    max_lead: float  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an utterance is spoken, resolved from `say`, `hello` and the engine's defaults."""

    voice: str
    language: str
    instructions: str
    seed: int
    max_audio: float  # s


def agree(hello: Hello, house: House) -> Terms:
    """Settle codec and lead, and check the defaults.

    Raises: ProtocolError `unsupported_audio`, or as `manner` does.
    """
    config = house.config
    if hello.audio.sample_rate != SAMPLE_RATE:
        raise ProtocolError(
            "unsupported_audio",
            f"hello: `audio.sample_rate`: want {SAMPLE_RATE}, got: {hello.audio.sample_rate}",
            param="audio.sample_rate",
        )
    bitrate = hello.audio.bitrate or config.opus.bitrate
    codec, pre_skip, new_coder = _coder(hello, house, bitrate)
    limit = config.max_lead if hello.acks else config.max_lead_open_loop
    wish_ms = hello.player.max_lead_ms
    terms = Terms(
        hello=hello,
        codec=codec,
        bitrate=bitrate,
        pre_skip=pre_skip,
        new_coder=new_coder,
        max_lead=limit if wish_ms is None else _lead(wish_ms / 1000, limit, hello.acks),
    )
    manner(Say(utterance="hello"), terms, house.engine.info, max_audio=config.limits.max_audio)
    return terms


def answer(terms: Terms, house: House, session: str) -> str:
    """The server's `hello`."""
    config, info = house.config, house.engine.info
    limits = config.limits
    return messages.build(
        "hello",
        {
            "session": session,
            "protocol": PROTOCOL,
            "server": {"name": "playhead", "version": version()},
            "model": info.model,
            "audio": {
                "codec": terms.codec,
                "sample_rate": SAMPLE_RATE,
                "channels": 1,
                "packet_ms": 20,
                "pre_skip": terms.pre_skip,
                "bitrate": terms.bitrate if terms.codec == "opus" else 16 * SAMPLE_RATE,
            },
            "ack": {
                "interval_ms": config.ack_interval * 1000,
                "max_per_s": limits.acks_per_second,
            },
            "limits": {
                "message_bytes": limits.message_bytes,
                "text": limits.text,
                "text_message": limits.text_message,
                "utterances": limits.utterances,
                "messages_per_s": limits.messages_per_second,
                "message_burst": limits.message_burst,
                "max_audio_ms": limits.max_audio * 1000,
                "max_lead_ms": terms.max_lead * 1000,
            },
            "voices": info.voices[:LISTED_VOICES],
            "default_voice": info.default_voice,
            "languages": info.languages,
            "instructions": info.instructions,
            "features": FEATURES,
            "expires_in_s": config.age,
        },
    )


def manner(say: Say, terms: Terms, info: Info, *, max_audio: float) -> Manner:
    """How this utterance is spoken: by its own word, else `hello`'s, else the engine's.

    Raises: ProtocolError naming the field and what there is.
    """
    defaults = terms.hello
    voice = _one_of("voice", say.voice or defaults.voice or info.default_voice, info.voices)
    wished = say.language or defaults.language or "auto"
    language = _one_of("language", wished, ("auto", *info.languages))
    instructions = defaults.instructions if say.instructions is None else say.instructions
    if instructions and not info.instructions:
        raise ProtocolError(
            "unsupported_instructions",
            f"`instructions`: {info.model} takes none; leave them out",
            param="instructions",
        )
    wish_ms = say.max_audio_ms
    return Manner(
        voice=voice,
        language=language,
        instructions=instructions or "",
        seed=next((seed for seed in (say.seed, defaults.seed) if seed is not None), 0),
        max_audio=max_audio if wish_ms is None else min(wish_ms / 1000, max_audio),
    )


def _one_of(param: str, wished: str, known: Sequence[str]) -> str:
    """The engine's spelling of what was wished, whatever its case."""
    for name in known:
        if name.casefold() == wished.casefold():
            return name
    listed = ", ".join(known[:LISTED_VOICES])
    raise ProtocolError(
        f"unsupported_{param}", f"`{param}`: want one of {listed}, got: {wished}", param=param
    )


def version() -> str:
    """The installed version; `0` in a checkout that is not installed."""
    try:
        return metadata.version("playhead")
    except metadata.PackageNotFoundError:
        return "0"


def _coder(hello: Hello, house: House, bitrate: int) -> tuple[str, int, Callable[[], Coder]]:
    new_opus = house.new_opus
    for codec in hello.audio.codecs:
        if codec == "pcm_s16le":
            return codec, 0, PcmCoder
        if codec == "opus" and new_opus:
            return codec, house.pre_skip, partial(new_opus, bitrate)
    known = "`opus`, `pcm_s16le`" if house.new_opus else "`pcm_s16le`"
    raise ProtocolError(
        "unsupported_audio",
        f"hello: `audio.codecs`: want {known}, got: {', '.join(hello.audio.codecs)}",
        param="audio.codecs",
    )


def _lead(wish: float, limit: float, acks: bool) -> float:
    """Without acks a large lead would only be a guess; with them the client may ask for more."""
    return wish if acks else min(wish, limit)
