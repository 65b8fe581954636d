"""`python -m engine.tools.compile_kernels --capability 80`: do kernels compile for another card?

Compiles the generating stages' kernels for a compute capability, with full-size tiles, on a machine
that needs no GPU. It says that they compile and what they take, not that they are right or fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.kernels import (
    embed,
    linear,
    norm,
    predictor_attention,
    prompt_attention,
    prompt_heads,
    sampler,
    step_attention,
)
from engine.kernels.tile_table import ADD, STORE, SWIGLU

CHAINING = 90  # capability that can start a kernel while the one before drains
SHARED_MEMORY = {80: 163, 86: 99, 89: 99, 90: 227}  # KiB a program may have

HEADS = {"KEYS": 8, "GROUP": 2, "HALF": 64}
OTHER_TYPES = {
    "rows_ptr": "*i32",
    "codes_ptr": "*i64",
    "seen_ptr": "*i1",
    "flags_ptr": "*i32",
    "partial_ptr": "*fp32",
    "arrived_ptr": "*i32",
    "eps": "fp32",
    "scale": "fp32",
}
ALIGNED = ("features", "size", "width", "x_stride", "out_stride")  # multiples of 16


def main() -> int:
    """Compile everything; return 1 if something does not compile or does not fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capability", type=int, default=90, help="80, 86, 89, 90, …")
    capability = parser.parse_args().capability
    limit = SHARED_MEMORY.get(capability, max(SHARED_MEMORY.values()))
    bad = 0
    for kernel, constants, warps in variants(chained=capability >= CHAINING):
        try:
            compiled = build(kernel, constants, warps, capability)
        except Exception as error:  # any failure is the answer
            print(f"{kernel.__name__:<20} fails: {error}")
            bad += 1
            continue
        shared = compiled.metadata.shared / 1024
        bad += shared > limit
        verdict = "ok" if shared <= limit else f"needs more than {limit} KiB"
        print(f"{kernel.__name__:<20} {shared:6.1f} KiB shared  {verdict}")
    return int(bad > 0)


def variants(*, chained: bool) -> Iterator[tuple[Any, dict[str, Any], int]]:
    """Name each kernel with the constants it is launched with, and its warps."""
    chain = {"CHAINED": chained}
    threads = {"THREADS": 128 if chained else 0}
    past = HEADS | chain | threads | {"CHUNK": 64}
    yield step_attention._step_attention, past | {"SPLITS": 1, "STAGES": 3}, 4
    yield step_attention._step_attention, past | {"SPLITS": 16, "STAGES": 2}, 4
    for pair in (True, False):
        frame = HEADS | chain | {"QUERIES": 2, "REACH": 16, "PAIR": pair}
        yield predictor_attention._frame_attention, frame, 1
    for length, warps in ((16, 4), (64, 8)):
        yield prompt_attention._prompt_attention, HEADS | chain | {"LENGTH": length}, warps
    yield prompt_heads._prompt_heads, {"HEADS": 16, "KEYS": 8, "HALF": 64}, 1
    draw = chain | {"COPY": True, "COPY_BLOCK": 2048}
    for first, vocabulary, block, unit, warps in (
        (True, 3072, 4096, 1, 8),
        (False, 2048, 2048, 65536, 4),
    ):
        cut = {"vocabulary": vocabulary, "BLOCK": block, "UNIT": unit, "WARPS": warps}
        yield sampler._draw, draw | cut | {"FIRST": first}, warps
    yield embed._embed_frames, chain | {"GROUPS": 16, "BLOCK": 1024}, 4
    yield embed._begin_frame, chain | {"WIDE": 2048, "NARROW": 1024}, 4
    yield norm._rms_norm, chain | {"ADD": False, "BLOCK": 2048}, 4
    yield norm._swiglu, {"BLOCK": 1024}, 4
    for kind, parts in ((STORE, 1), (ADD, 3), (SWIGLU, 1)):
        vector = chain | {"ROWS": 1, "DEPTH": 2048, "PARTS": parts, "FEATURES": 4}
        yield linear.vector_product, vector | {"NORM": kind != ADD, "KIND": kind}, 4
        slab = chain | {"ROWS": 8, "DEPTH": 128, "PARTS": 8, "PASSES": parts, "FEATURES": 16}
        yield linear.slab_product, slab | {"NORM": kind != ADD, "KIND": kind}, 4
        splits = 4 if kind == ADD else 1
        loop = chain | threads | {"ROWS": 64, "FEATURES": 64, "DEPTH": 128, "STAGES": 4}
        loop |= {"SHARE": 2048 // splits, "SPLITS": splits, "KIND": kind}
        if kind == SWIGLU:
            loop |= {"DEPTH": 64, "THREADS": 0}
        yield linear.loop_product, loop, 4


def build(kernel: Any, constants: dict[str, Any], warps: int, capability: int) -> Any:
    """Compile one kernel for bfloat16."""
    signature, attributes = {}, {}
    for place, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
            continue
        pointer = "*bf16" if name.endswith(("_ptr", "_out")) else "i32"
        signature[name] = OTHER_TYPES.get(name, pointer)
        if signature[name].startswith("*") or name in ALIGNED:
            attributes[(place,)] = [["tt.divisibility", 16]]
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places, attrs=attributes)
    options = {"num_warps": warps, "launch_pdl": capability >= CHAINING}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


if __name__ == "__main__":
    sys.exit(main())
