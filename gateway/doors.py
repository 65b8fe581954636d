"""Who may connect: origins, tokens, subprotocols. Decided without touching the engine."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from gateway.protocol import PROTOCOL

TOKEN_PREFIX = "voice.auth."  # of the subprotocol that carries a browser's token
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Pass:
    """What the handshake proved."""

    authorised: bool  # False: `hello` may still bring the token
    wrong: bool  # a token came by subprotocol and is not valid
    key: str  # whose session it is: of the token, else of the address
    subprotocol: str | None  # to select


def check(request: web.Request, tokens: Sequence[str], origins: Sequence[str]) -> Pass:
    """Decide on a handshake.

    Raises: HTTPForbidden for a foreign origin, HTTPUnauthorized for a wrong bearer token,
        HTTPBadRequest if subprotocols are offered and ours is not among them.
    """
    if not origin_allowed(request, origins):
        raise web.HTTPForbidden(text="`Origin`: this page may not connect; see `gateway.origins`")
    offered = [
        part.strip()
        for header in request.headers.getall("Sec-WebSocket-Protocol", ())
        for part in header.split(",")
    ]
    subprotocol = PROTOCOL if PROTOCOL in offered else None
    if offered and not subprotocol:
        raise web.HTTPBadRequest(text=f"`Sec-WebSocket-Protocol`: want {PROTOCOL}")
    token = bearer(request)
    if token is not None and tokens:
        if not token_valid(token, tokens):
            raise web.HTTPUnauthorized(text="`Authorization`: want `Bearer` and a valid token")
        return Pass(True, False, key_of(token), subprotocol)
    sent = next((each for each in offered if each.startswith(TOKEN_PREFIX)), None)
    if sent is not None and tokens:
        token = sent.removeprefix(TOKEN_PREFIX)
        valid = token_valid(token, tokens)
        return Pass(valid, not valid, key_of(token), subprotocol)
    return Pass(not tokens, False, request.remote or "", subprotocol)


def bearer(request: web.Request) -> str | None:
    """The token of the `Authorization` header; None if there is no such header."""
    header = request.headers.get("Authorization")
    return None if header is None else header.removeprefix("Bearer ").strip()


def token_valid(token: str, tokens: Sequence[str]) -> bool:
    """Compare in constant time with each."""
    sent = _bytes(token)
    return any([hmac.compare_digest(sent, _bytes(each)) for each in tokens])


def key_of(token: str) -> str:
    """A name for a token that tells nothing of it."""
    return hashlib.sha256(_bytes(token)).hexdigest()[:12]


def _bytes(token: str) -> bytes:
    """Of any token: a header that is no UTF-8 arrives with lone surrogates."""
    return token.encode(errors="surrogatepass")


def origin_allowed(request: web.Request, origins: Sequence[str]) -> bool:
    """Programs send no `Origin`; pages must come from this host or from the list, letter by letter.

    Any name can be made to lead to a loopback address (DNS rebinding), so a server there answers
    only to loopback names.
    """
    sent = request.headers.getall("Origin", ())
    if not sent or "*" in origins:
        return True
    if len(sent) > 1:
        return False
    if sent[0] in origins:
        return True
    same = sent[0] in (f"http://{request.host}", f"https://{request.host}")
    return same and (not _on_loopback(request) or _name(request.host) in LOOPBACK)


def _on_loopback(request: web.Request) -> bool:
    socket = request.get_extra_info("sockname")
    return bool(socket) and str(socket[0]) in ("127.0.0.1", "::1")


def _name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
