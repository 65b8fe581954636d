"""What a launch tells the device about each row: sixteen int32 words, one copy for a whole batch.

Captured graphs read everything that changes from here, so nothing of a launch is baked into them.
Floats travel as their bits. A row for padding writes into the scratch slot and nowhere else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int32]

WIDTH = 16  # words per row
SLOT = 0
POSITION = 1  # cache position of the new token
BEFORE = 2  # where the codes of the frame before stand
PLACE = 3  # where this frame's codes go
TEXT = 4  # text id that joins the frame before
SEED_LOW, SEED_HIGH, SEGMENT, STEP = 5, 6, 7, 8  # the random counter
EOS_ALLOWED = 9
TEMPERATURE = 10  # float; 0: greedy
TOP_K = 11
TOP_P = 12  # float
PENALTY = 13  # float
LENGTH = 14  # prefill: prompt rows


def empty(rows: int, width: int, scratch: int) -> Words:
    """Return `rows` padding rows of `width` words that only ever touch the slot `scratch`."""
    words = np.zeros((rows, width), np.int32)
    words[:, SLOT] = scratch
    words[:, TOP_K] = 1
    words[:, LENGTH] = 1
    floats = words.view(np.float32)
    floats[:, TOP_P] = 1.0
    floats[:, PENALTY] = 1.0
    return words
