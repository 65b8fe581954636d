"""How many utterances a card has memory for, computed before anything is allocated. Pure.

A slot is allocated whole, for the longest segment: an utterance that was admitted cannot run out of
memory, and one for which no slot is left is refused at admission.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from engine.api import FRAME_SECONDS
from engine.graphs import Shape, buckets, places
from engine.model.codec_layers import DILATIONS, KERNEL
from engine.model.config import CheckpointConfig, CodecConfig, DecoderConfig
from engine.model.rows import WIDTH
from engine.stages.shapes import (
    CHUNKS,
    FIRST_CHUNKS,
    first_frame_shapes,
    prompt_shapes,
    row_shapes,
)
from engine.stages.state import CODES_CAPACITY, positions_for
from engine.work import FAST_ROWS

WORKSPACE = 4 << 30  # bytes: the codec's weights, libraries, graphs that do not grow with rows
LANES = 2  # times the codec's lane: its graphs' own activations are no larger than the lane
FASTEST_FRAME = 0.0025  # s that a batch's frame takes at least: an H200's, at one row
INT32, INT64 = 4, 8  # bytes
ALIGNMENT = 16  # frames: a ring of the codec's attention is a multiple of them


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the card that one utterance takes."""

    cache: int  # the Talker's keys and values, for the longest segment
    codes: int  # frames until the codec has decoded them
    history: int  # the Talker's last hidden state, and the codes it has drawn
    codec: int  # what the codec remembers between chunks

    @property
    def total(self) -> int:
        """All of it."""
        return self.cache + self.codes + self.history + self.codec


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the card's memory is for, in bytes."""

    free: int  # once the Talker and the Code Predictor are loaded
    reserve: int  # the codec's weights, graphs and workspace
    utterance: Footprint
    pinned: int  # of the host's memory: inputs and results of launches, sound in flight
    slots: int  # utterances that there is room for

    def holds(self, slots: int) -> bool:
        """Whether so many utterances fit beside everything else, and the spare slot for padding."""
        return self.reserve + (slots + 1) * self.utterance.total <= self.free

    def __str__(self) -> str:
        return (
            f"{self.free / 1e9:.1f} GB free, {self.reserve / 1e9:.1f} GB of them for graphs and "
            f"workspace, {self.utterance.total / 1e6:.1f} MB an utterance: {self.slots} slots"
        )


def plan(
    config: CheckpointConfig,
    *,
    free: int,
    rows: int,
    segment_seconds: float,
    itemsize: int,
    codec_itemsize: int,
) -> MemoryPlan:
    """Divide the memory that is free.

    Args:
        free: bytes of the card, once the Talker and the Code Predictor are loaded.
        rows: most works in one batch.
        segment_seconds: s of speech per prompt.
        itemsize: bytes of a value in the Talker.
        codec_itemsize: bytes of a value in the codec.
    """
    utterance = footprint(
        config, segment_seconds=segment_seconds, itemsize=itemsize, codec_itemsize=codec_itemsize
    )
    kept = reserve(config.codec, rows=rows, itemsize=codec_itemsize)
    return MemoryPlan(
        free,
        kept,
        utterance,
        pinned_bytes(config.codec, rows=rows, positions=positions_for(segment_seconds)),
        slots_within(free - kept, utterance.total, rows=rows),
    )


def footprint(
    config: CheckpointConfig, *, segment_seconds: float, itemsize: int, codec_itemsize: int
) -> Footprint:
    """Return what one slot takes, as `engine.stages.state` and `FusedCodec` allocate it."""
    talker, codec = config.talker, config.codec
    key = talker.num_hidden_layers * talker.num_key_value_heads * talker.head_dim
    values = sum(columns * channels for columns, _, channels in histories(codec))
    frames = codec.sliding_window - 1 + max(CHUNKS)
    frames = -(-frames // ALIGNMENT) * ALIGNMENT
    ring = codec.num_hidden_layers * codec.num_attention_heads * codec.head_dim
    return Footprint(
        cache=2 * key * positions_for(segment_seconds) * itemsize,
        codes=CODES_CAPACITY * talker.num_code_groups * INT64,
        history=talker.hidden_size * itemsize + talker.vocab_size,
        codec=(values + 2 * ring * frames) * codec_itemsize,
    )


def reserve(config: CodecConfig, *, rows: int, itemsize: int) -> int:
    """Return the bytes that are nobody's: they grow with the frames of the largest chunks."""
    frames = buckets(rows)[-1] * max(CHUNKS)
    frames += buckets(min(rows, FAST_ROWS))[-1] * max(FIRST_CHUNKS)
    lane = frames * sum((columns + rate) * width for columns, rate, width in histories(config))
    return WORKSPACE + LANES * lane * itemsize


def slots_within(room: int, each: int, *, rows: int) -> int:
    """Return how many utterances fit, beside the spare slot that padding uses; at least one.

    No more than a fast device could serve in time, full batch after full batch.
    """
    useful = rows * round(FRAME_SECONDS / FASTEST_FRAME)
    return max(1, min(useful, room // each - 1))


def pinned_bytes(config: CodecConfig, *, rows: int, positions: int) -> int:
    """Return the host's page-locked memory: the graphs' rings, and two batches' longest chunks."""
    steps = row_shapes(rows)
    graphs = (prompt_shapes(positions), steps, steps, first_frame_shapes(rows))
    rings = places(rows) * sum(INT32 * _ring_words(shapes) for shapes in graphs)
    samples = max(CHUNKS) * prod(config.upsample_rates) * prod(config.upsampling_ratios)
    return rings + 2 * rows * samples * 2


def histories(config: CodecConfig) -> Iterator[tuple[int, int, int]]:
    """List (columns kept, columns per frame, channels) of each layer of the codec's decoder."""
    rate, channels = 1, config.decoder_dim
    for factor in config.upsampling_ratios:
        rate *= factor
        yield KERNEL - 1, rate, config.latent_dim
    yield KERNEL - 1, rate, config.latent_dim
    for stride in config.upsample_rates:
        yield 1, rate, channels
        rate *= stride
        channels //= 2
        for dilation in DILATIONS:
            yield (KERNEL - 1) * dilation, rate, channels
    yield KERNEL - 1, rate, channels


def weights_bytes(config: CheckpointConfig, *, itemsize: int) -> int:
    """Return what Talker and Code Predictor take once loaded on a card; norms count for nothing."""
    talker, predictor = config.talker, config.predictor
    codes = (talker.num_code_groups - 1) * talker.codes
    values = _decoder_values(talker) + _decoder_values(predictor)
    values += talker.text_vocab_size * talker.hidden_size  # projected once, at load
    values += talker.text_hidden_size * (talker.text_hidden_size + talker.hidden_size)
    values += (2 * talker.vocab_size + codes) * talker.hidden_size
    values += codes * predictor.hidden_size  # heads
    if talker.hidden_size != predictor.hidden_size:  # else the tables are shared
        tables = talker.vocab_size + codes - talker.codes
        values += (tables + talker.hidden_size) * predictor.hidden_size
    return values * itemsize


def _decoder_values(config: DecoderConfig) -> int:
    """Values of a decoder's matrices."""
    heads = 2 * (config.num_attention_heads + config.num_key_value_heads) * config.head_dim
    layer = (heads + 3 * config.intermediate_size) * config.hidden_size
    return config.num_hidden_layers * layer


def _ring_words(shapes: list[Shape]) -> int:
    """Words of the longest inputs and of the most results."""
    return max(each.words(WIDTH) for each in shapes) + max(each.rows for each in shapes)
