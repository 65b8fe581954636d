"""Taking the port, before anything expensive is loaded, and saying where the server is."""

from __future__ import annotations

import ipaddress
import os
import socket

from engine.api import ConfigError

BACKLOG = 128  # connections that wait while the model loads


def bind_all(host: str, port: int, count: int) -> list[socket.socket]:
    """Listening sockets on one port, for as many processes; port 0 takes any free one.

    Raises: ConfigError with address and port if they cannot be had.
    """
    alone = bind(host, port)
    if count == 1:
        return [alone]
    host, port = alone.getsockname()[:2]
    alone.close()  # it only made sure that no other server listens there
    return [bind(host, port, shared=True) for _ in range(count)]


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """One listening socket; `shared`: beside others that are shared, connections are spread.

    Raises: ConfigError with address and port if they cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"serve: cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        if os.name == "posix":  # elsewhere it would share the port with a running server
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        way_out = "stop what listens there, or choose another with `--port`"
        raise ConfigError(
            f"serve: cannot listen on {host}:{port}: {error.strerror}; {way_out}"
        ) from error
    return listener


def url(listener: socket.socket) -> str:
    """Where a browser on this machine finds the server."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return f"http://localhost:{port}"
    return f"http://[{host}]:{port}" if address.version == 6 else f"http://{host}:{port}"


def is_public(listener: socket.socket) -> bool:
    """Whether other machines can reach it."""
    return not ipaddress.ip_address(listener.getsockname()[0]).is_loopback
