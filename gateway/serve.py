"""`playhead serve`: take the port, load the engine, speak once, then serve until told to stop.

The port comes first, so a second server ends before it reads a weight. The first SIGTERM lets open
utterances end, the second kills.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from gateway.address import bind, is_public, url
from gateway.config import Config, GatewayConfig
from gateway.options import add_configuration, configured

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger(__name__)

GRACE = 1.5  # s after the drain for everything else to close


def main(arguments: Sequence[str]) -> int:
    """Serve; 0 after an orderly end.

    Raises: ConfigError if the port cannot be had, and what starting the engine raises.
    """
    parser = argparse.ArgumentParser(prog="playhead serve", description=__doc__)
    add_configuration(parser)
    config = configured(parser.parse_args(arguments))
    with closing(bind(config.gateway.host, config.gateway.port)) as listener:
        from gateway.logs import logging_to  # the port is ours: time to import the slow things

        with logging_to(sys.stderr, form=config.gateway.log_format):
            logger.info("configured %s", described(config))
            asyncio.run(_serve(config, listener))
    return 0


def described(config: Config) -> str:
    """The whole configuration on one line, without secrets."""
    tokens = ("…",) * len(config.gateway.tokens)
    gateway = dataclasses.replace(config.gateway, tokens=tokens)
    return str(dataclasses.replace(config, gateway=gateway))


async def _serve(config: Config, listener: socket.socket) -> None:
    from aiohttp import web

    from engine.client import EngineClient, LocalEngine, RemoteEngine
    from gateway.app import READINESS, create_app

    place = config.gateway.engine
    engine: EngineClient = LocalEngine(config.engine) if place == "local" else RemoteEngine(place)
    app = create_app(engine, config.gateway)
    runner = web.AppRunner(
        app,
        handler_cancellation=True,  # a client that leaves cancels what it asked for
        access_log=None,
        shutdown_timeout=config.gateway.drain,
    )
    _stop_on_sigterm()
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        print(f"playhead listening on {url(listener)}", flush=True)
        _warn(config.gateway, listener)
        await app[READINESS].wait()
        gc.collect()
        gc.freeze()  # modules live as long as the process: no later collection need look at them
        print(f"playhead ready: {', '.join(engine.info.voices)}", flush=True)
        await asyncio.Event().wait()
    except asyncio.CancelledError:  # SIGTERM or SIGINT: the end everybody wants
        logger.info("stopping drain=%s", config.gateway.drain)
    finally:
        await _clean_up(runner, limit=config.gateway.drain + GRACE)


async def _clean_up(runner: web.AppRunner, *, limit: float) -> None:
    try:
        async with asyncio.timeout(limit):
            await runner.cleanup()
    except TimeoutError:  # a thread that still loads a model would hold the process for minutes
        print(f"playhead: not everything ended within {limit} s; leaving", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)


def _stop_on_sigterm() -> None:
    """Cancel this task, as `asyncio.run` does on SIGINT; a second one kills as ever."""
    loop = asyncio.get_running_loop()
    serving = asyncio.current_task()
    assert serving

    def told() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        serving.cancel()

    with suppress(NotImplementedError):  # Windows has no SIGTERM to speak of
        loop.add_signal_handler(signal.SIGTERM, told)


def _warn(config: GatewayConfig, listener: socket.socket) -> None:
    if not is_public(listener):
        return
    logger.warning("public: browsers play sound only over https or from this machine; see README")
    if not config.tokens:
        logger.warning("public: without `gateway.tokens` everyone who reaches the port can speak")
