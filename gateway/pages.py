"""The page and its scripts, with the headers that keep foreign code out."""

from __future__ import annotations

import logging
from pathlib import Path

from aiohttp import web

from gateway import assets

logger = logging.getLogger(__name__)

# No COOP or COEP: the page embeds nothing, and pages that embed the SDK must not need them.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # with an ETag: page and gateway must never differ in version
}
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".map": "application/json; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
}


def routes() -> list[web.RouteDef]:
    """`/` and each file of the `web` folder, listed once so that no path can lead elsewhere."""
    try:
        files = _files(assets.folder("web"))
    except FileNotFoundError as error:
        logger.warning("no page: %s", error)
        files = {}

    async def page(request: web.Request) -> web.StreamResponse:
        path = files.get(request.match_info["path"] or "index.html")
        if path is None:
            raise web.HTTPNotFound(text="404: no such page\n")
        headers = HEADERS | {"Content-Type": CONTENT_TYPES[path.suffix]}
        return web.FileResponse(path, headers=headers)

    return [web.get("/{path:.*}", page)]


def _files(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.suffix in CONTENT_TYPES and path.is_file()
    }
