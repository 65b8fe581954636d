"""Which shapes are captured, and which of them a batch takes: nothing runs that was not captured.

Pure, so that a CPU can prove it: every batch that the scheduler may ask for finds a graph here.
What would find none is refused at the start (`engine.stages.build`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.graphs import Shape, buckets, smallest
from engine.work import FAST_ROWS

CHUNKS = (1, 2, 3, 4, 8, 12)  # frames of the codec: the ladder's, and 3 for a first chunk
FIRST_CHUNKS = (1, 2, 3, 4)  # of these, the ones a first sound is made of
PROMPTS = (1, 2, 4, 8, 16)  # prompts run together
TOGETHER = 512  # prompt rows of all of them: beyond, company saves nothing
PROMPT_TOKENS = (16, 32, 64, 128, 256)
LONG_PROMPT_TOKENS = (512, 1024, 4096)  # one at a time; cut to what the cache holds


def row_shapes(rows: int, *, deterministic: bool = False) -> list[Shape]:
    """Return the shapes of Talker and predictor steps for up to `rows` works.

    Args:
        deterministic: one shape for any number of works. It decides how sums are cut and rounded,
            so a row comes out the same alone and in company.
    """
    counts = buckets(rows)
    return [Shape(each) for each in (counts[-1:] if deterministic else counts)]


def first_frame_shapes(rows: int, *, deterministic: bool = False) -> list[Shape]:
    """Return the shapes of the predictor's steps on the fast stream, where few come together.

    Args:
        deterministic: the one shape of all other frames: without a fast stream nothing changes.
    """
    return row_shapes(rows if deterministic else min(rows, FAST_ROWS), deterministic=deterministic)


def prompt_shapes(positions: int, *, deterministic: bool = False) -> list[Shape]:
    """Return the shapes of prefill; the longest is all of a slot's `positions`.

    Args:
        deterministic: one prompt at a time, so that its own length alone decides on its shape.
    """
    together = PROMPTS[:1] if deterministic else PROMPTS
    shapes = [Shape(each, tokens) for tokens in PROMPT_TOKENS for each in together]
    shapes = [each for each in shapes if each.rows <= 4 or each.rows * each.tokens <= TOGETHER]
    shapes += [Shape(1, min(tokens, positions)) for tokens in LONG_PROMPT_TOKENS]
    return sorted({shape for shape in shapes if shape.tokens <= positions})


def grouped(lengths: Sequence[int], shapes: Sequence[Shape]) -> Iterator[tuple[slice, Shape]]:
    """Divide prompts, in order, into replays: as many together as there is a shape for.

    Args:
        lengths: rows of each prompt, at most those of the longest shape.
        shapes: from `prompt_shapes`.
    """
    begin = 0
    while begin < len(lengths):
        count = max(each for each in PROMPTS if each <= len(lengths) - begin)
        while (shape := smallest(shapes, count, max(lengths[begin : begin + count]))) is None:
            count //= 2
            assert count, f"prefill: longer than what was captured: {lengths[begin]}"
        yield slice(begin, begin + count), shape
        begin += count


def divided(frames: int, chunks: Sequence[int]) -> list[int]:
    """Divide a chunk into captured ones, the longest first; 1 is among `chunks`."""
    parts = []
    while frames:
        parts.append(max(each for each in chunks if each <= frames))
        frames -= parts[-1]
    return parts
