"""`playhead engine --listen unix:/run/playhead.sock`: one device on one address."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from engine.api import EngineError
from engine.config import EngineConfig, load
from engine.server import EngineServer

SWITCH = 0.0002  # s after which the engine's thread lets others send what it made; by default 5 ms


def main(arguments: list[str] | None = None) -> int:
    """Serve until the engine dies or the process is told to stop."""
    parser = argparse.ArgumentParser(prog="playhead engine", description=__doc__)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML; see configs/default.toml"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="one key of it, such as engine.model.slots=16; may be repeated",
    )
    parser.add_argument("--listen", required=True, help="unix:/path or tcp://host:port")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        tables = {"engine": EngineConfig}
        sections = load(options.config, options.set, tables, others=["gateway"])
        sys.setswitchinterval(SWITCH)
        asyncio.run(_serve(sections["engine"], options.listen))
    except (EngineError, OSError) as error:
        print(f"playhead engine: {error}", file=sys.stderr)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
    return 1


async def _serve(config: EngineConfig, address: str) -> None:
    serving = asyncio.current_task()
    if serving and config.trace:  # else there is nothing to save, and no reason to wait
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    await EngineServer(config, address).serve()


if __name__ == "__main__":
    sys.exit(main())
