"""What listeners hear of one configuration, over loopback: engine, gateway and load as processes.

    python -m tests.load.end_to_end --config configs/h200.toml --checkpoint random:1.7b --out folder

Runs `playhead bench` over HTTP without a lead limit, the mode in which other servers publish
figures, and over voice.v1 with acks; leaves `http.json` and `voice.json`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.serving import serving

ROOT = Path(__file__).resolve().parents[2]
PLAYHEAD = (sys.executable, "-m", "gateway.cli")


def main(arguments: Sequence[str]) -> int:
    """Measure; 0 if both runs were good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--checkpoint", required=True, help="as in the configuration")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    parser.add_argument("--http", default="1,10,20,50,100,150,200", help="replies/s over HTTP")
    parser.add_argument("--voice", default="20,100,150", help="replies/s over voice.v1")
    parser.add_argument("--seconds", type=float, default=8.0, help="measured at each load")
    parser.add_argument("--max-audio", type=float, default=4.0, help="s: random weights never end")
    parser.add_argument("--gateways", type=int, default=2, help="processes that serve")
    parser.add_argument("--processes", type=int, default=4, help="that make the load")
    options = parser.parse_args(arguments)
    shared = ["--config", str(options.config.resolve())]
    model = f'engine.model.checkpoint="{options.checkpoint}"'
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/engine"
        gateway = [
            f'gateway.engine="{address}"',
            f"gateway.processes={options.gateways}",
            f"gateway.limits.max_audio={options.max_audio}",
        ]
        with (
            _engine([*shared, "--set", model, "--listen", address]),
            serving(PLAYHEAD, [*shared, *(f"--set={each}" for each in gateway)]) as url,
        ):
            return max([_bench(url, name, options) for name in ("http", "voice")])


def _bench(url: str, transport: str, options: argparse.Namespace) -> int:
    """Run one sweep and leave its document; the tool prints its table."""
    command = [
        *(*PLAYHEAD, "bench", "--url", url, "--transport", transport),
        *("--sweep", getattr(options, transport), "--duration", str(options.seconds)),
        *("--warmup", "1.5", "--processes", str(options.processes)),
        *("--out", str(options.out / f"{transport}.json")),
    ]
    print("$ playhead", *command[len(PLAYHEAD) :], flush=True)
    return subprocess.run(command, cwd=ROOT).returncode


@contextmanager
def _engine(arguments: Sequence[str]) -> Iterator[None]:
    """An engine process; the gateway waits until it answers."""
    process = subprocess.Popen([sys.executable, "-m", "engine", *arguments], cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
