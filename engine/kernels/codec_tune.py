"""Find the tiles of the full-size codec's products: writes `codec_tiles.json`.

`python -m engine.kernels.codec_tune` compiles in as many processes as there are cores, times what
the table lacks, product by product, and then tries the candidates of the smallest steps inside the
whole step: there, kernels start while others end and share the chip with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import torch
from triton.runtime.errors import OutOfResources

from engine.kernels import codec_tiles
from engine.kernels.codec_bench import full_size_codec, step_of
from engine.kernels.codec_candidates import Call, calls, candidates
from engine.kernels.codec_gemm import multiply
from engine.kernels.codec_launch import Scratch
from engine.kernels.codec_tiles import Tile
from engine.kernels.replay import replay_seconds
from engine.model.codec_fused import FusedCodec

SHAPES = [
    (1, 1), (1, 2), (1, 4), (8, 1), (4, 4), (32, 1), (16, 4), (32, 4), (32, 8), (32, 12), (64, 8),
    (64, 12),
]  # fmt: skip
REFINED = [(1, 1), (1, 2), (1, 4), (8, 1)]  # tuned inside the whole step
GAIN = 0.997  # of the step's time: less counts as noise
CACHE_BYTES = 128 << 20  # twice the L2 cache
MOST_COPIES = 16
MANY_ROWS = 4096  # weights count for nothing then
SHARE_BYTES = 14 << 30  # of device memory, for one process that compiles


def missing(codec: FusedCodec) -> Iterator[Call]:
    """List every product that the table lacks, once."""
    seen = set(codec_tiles.table())
    for rows, frames in SHAPES:
        for call in calls(codec, rows, frames):
            if call.name not in seen:
                seen.add(call.name)
                yield call


def refined(codec: FusedCodec, rows: int, frames: int) -> list[Call]:
    """List the products of one step, once each."""
    return list({call.name: call for call in calls(codec, rows, frames)}.values())


def seconds(call: Call, tile: Tile, scratch: Scratch) -> float:
    """Time one product with one tile, its weights rotated among copies."""
    weight = call.product.weight
    copies = max(4, min(MOST_COPIES, CACHE_BYTES // (weight.numel() * weight.itemsize)))
    if call.size[0] > MANY_ROWS:
        copies = 1
    products = [replace(call.product, weight=weight.clone()) for _ in range(copies)]

    def work() -> None:
        for each in products:
            multiply(call.x, each, scratch, tile=tile, **call.others)

    return replay_seconds(work, times=copies, groups=3, group_seconds=0.002)


def compile_share(index: int, shares: int) -> None:
    """Compile the kernels of one process by launching each once."""
    codec = full_size_codec(torch.float16)
    scratch = Scratch.allocate(codec.device)
    wanted = [*missing(codec), *(call for shape in REFINED for call in refined(codec, *shape))]
    done = set()
    for call in wanted:
        for tile in candidates(call):
            name = f"{tile} {call.kind}"
            if name not in done and zlib.crc32(name.encode()) % shares == index:
                done.add(name)
                try:
                    multiply(call.x, call.product, scratch, tile=tile, **call.others)
                except OutOfResources:
                    continue
    torch.cuda.synchronize()


def measure(codec: FusedCodec) -> list[str]:
    """Put the best tile of each missing product into the table; return a report."""
    scratch, report = Scratch.allocate(codec.device), []
    for call in list(missing(codec)):
        times = {}
        for tile in candidates(call):
            try:
                times[tile] = seconds(call, tile, scratch)
            except OutOfResources:
                continue
        ranked = sorted(times, key=lambda tile: times[tile])
        codec_tiles.table()[call.name] = ranked[0]
        shown = [f"{times[tile] * 1e6:.2f} {list(astuple(tile))}" for tile in ranked[:4]]
        report.append(f"{call.size} {call.rate(times[ranked[0]]):.0f} TFLOP/s: {' | '.join(shown)}")
    return report


def refine(codec: FusedCodec, rows: int, frames: int) -> str:
    """Replace tiles by those that make the whole step faster; return a report."""
    table, step = codec_tiles.table(), step_of(codec, rows, frames)

    def measured() -> float:
        return replay_seconds(step, groups=5, group_seconds=0.002)

    before = best = measured()
    for call in refined(codec, rows, frames):
        for tile in candidates(call):
            kept = table.get(call.name)
            table[call.name] = tile
            try:
                found = measured()
            except OutOfResources:
                found = best
            if found < GAIN * best:
                best = found
            elif kept is None:
                del table[call.name]
            else:
                table[call.name] = kept
    return f"step of {rows} x {frames}: {before * 1e3:.3f} -> {best * 1e3:.3f} ms"


def compile_all() -> None:
    """Compile everything, in parallel."""
    assert __spec__ is not None
    room = torch.cuda.mem_get_info()[0] // SHARE_BYTES
    shares = max(1, min((os.cpu_count() or 2) - 1, room))
    command = [sys.executable, "-m", __spec__.name, "compile"]
    for each in [subprocess.Popen([*command, str(n), str(shares)]) for n in range(shares)]:
        each.wait()


def main(folder: Path) -> None:
    """Compile, time what is missing, refine the smallest steps, write table and report there."""
    compile_all()
    codec = full_size_codec(torch.float16)
    for rows, frames in REFINED:
        print(refine(codec, rows, frames), flush=True)
        codec_tiles.save(folder / codec_tiles.TABLE.name)
    report = measure(codec)
    (folder / "codec_tune.txt").write_text("\n".join(report) + "\n")
    codec_tiles.save(folder / codec_tiles.TABLE.name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compile"]:
        compile_share(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]) if sys.argv[1:] else codec_tiles.TABLE.parent)
