"""Style, scripts and the icon: files of the package, which browsers keep until they change."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException
from starlette.responses import Response

router: Final = APIRouter(include_in_schema=False)

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "theme.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def _data(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


@cache
def fingerprint() -> str:
    """Another one whenever a file is another: part of their addresses."""
    return hashlib.sha256(b"".join(_data(name) for name in _TYPES)).hexdigest()[:12]


@router.get("/ui/static/{name}")
async def static(name: str) -> Response:
    """One of the files."""
    if name not in _TYPES:
        raise HTTPException(404, "no such file")
    return Response(_data(name), media_type=_TYPES[name], headers=_KEPT)
