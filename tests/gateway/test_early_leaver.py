"""A client that leaves during the handshake is nobody's mistake."""

from __future__ import annotations

import logging
import socket
import struct

from tests.gateway.wires import greeted
from tests.waiting import until

UPGRADE = (
    "GET /v1/voice HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def test_reset_during_the_handshake_leaves_no_traceback(serve, caplog):
    caplog.set_level(logging.INFO)
    served = await serve()
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", served.port)) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.sendall(UPGRADE.encode())

    async with greeted(served.voice_url) as wire:  # after all of them
        assert await wire.works()
    await until(lambda: not served.sessions)

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
