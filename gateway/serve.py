"""`playhead serve`: take the port, load the engine, speak once, then serve until told to stop.

The port comes first, so a second server ends before it reads a weight. The first SIGTERM lets open
utterances end, the second kills. With `--processes` several serve on one port; they share a
`playhead engine`, whose address is `gateway.engine`.
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
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from engine.api import EngineGone
from gateway import processes
from gateway.address import bind_all, is_public, url
from gateway.config import Config, GatewayConfig
from gateway.options import add_configuration, configured
from gateway.seats import Seats

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
    gateway = config.gateway
    with ExitStack() as sockets:
        listeners = bind_all(gateway.host, gateway.port, gateway.processes)
        for listener in listeners:
            sockets.enter_context(closing(listener))
        _say(f"playhead listening on {url(listeners[0])}")
        seats = Seats(processes=gateway.processes, each=gateway.limits.sessions)
        serve = partial(_serve_in, config, listeners, seats)
        if gateway.processes > 1:
            forked = sockets.close  # a port held open here would still take callers during a drain
            return processes.run(serve, gateway.processes, forked=forked, announce=_say)
        serve(0, None, _say)
    return 0


def _serve_in(
    config: Config,
    listeners: Sequence[socket.socket],
    seats: Seats,
    number: int,
    lifeline: int | None,
    announce: Callable[[str], None],
) -> None:
    """Serve in this process, one of those that share the port."""
    from gateway.logs import logging_to  # the port is ours: time to import the slow things

    for other in (each for each in listeners if each is not listeners[number]):
        other.close()
    seats.choose_row(number)
    with logging_to(sys.stderr, form=config.gateway.log_format):
        if number == 0:
            logger.info("configured %s", described(config))
            _warn(config.gateway, listeners[0])
        asyncio.run(_serve(config, listeners[number], seats, lifeline, announce))


def _say(text: str) -> None:
    print(text, flush=True)


def described(config: Config) -> str:
    """The whole configuration on one line, without secrets."""
    tokens = ("…",) * len(config.gateway.tokens)
    gateway = dataclasses.replace(config.gateway, tokens=tokens)
    return str(dataclasses.replace(config, gateway=gateway))


async def _serve(
    config: Config,
    listener: socket.socket,
    seats: Seats,
    lifeline: int | None,
    announce: Callable[[str], None],
) -> None:
    from aiohttp import web

    from engine.client import EngineClient, LocalEngine
    from engine.remote import RemoteEngine
    from gateway.app import READINESS, create_app

    place = config.gateway.engine
    engine: EngineClient = LocalEngine(config.engine) if place == "local" else RemoteEngine(place)
    app = create_app(engine, config.gateway, seats)
    runner = web.AppRunner(
        app,
        handler_cancellation=True,  # a client that leaves cancels what it asked for
        access_log=None,
        shutdown_timeout=config.gateway.drain,
    )
    _stop_when_told(lifeline)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        await app[READINESS].wait()
        gc.collect()
        gc.freeze()  # modules live as long as the process: no later collection need look at them
        announce(f"playhead ready: {', '.join(engine.info.voices)}")
        await engine.gone()
        raise EngineGone("the engine is lost, see the log; a new process would have a new one")
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


def _stop_when_told(lifeline: int | None) -> None:
    """Cancel this task, as `asyncio.run` does on SIGINT; a second SIGTERM kills as ever.

    One of several processes heeds the first word alone: a supervisor's SIGTERM may reach it after
    its parent's word, and a second one reaches the parent, which kills.
    """
    loop = asyncio.get_running_loop()
    serving = asyncio.current_task()
    assert serving

    def told() -> None:
        if lifeline is None:
            loop.remove_signal_handler(signal.SIGTERM)
        elif not loop.remove_reader(lifeline):
            return
        serving.cancel()

    with suppress(NotImplementedError):  # Windows has no SIGTERM to speak of
        loop.add_signal_handler(signal.SIGTERM, told)
    if lifeline is not None:
        loop.add_reader(lifeline, told)


def _warn(config: GatewayConfig, listener: socket.socket) -> None:
    if not is_public(listener):
        return
    logger.warning("public: browsers play sound only over https or from this machine; see README")
    if not config.tokens:
        logger.warning("public: without `gateway.tokens` everyone who reaches the port can speak")
