"""Reports over OTLP/HTTP in JSON, with the standard library alone."""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from spanfuse.emission.destination import Outcome

_LATER: Final = frozenset({408, 429})
"""Refusals that are for now only, besides those of 5xx."""


class HttpTransport:
    """Posts them, through the proxy that the environment names, as OpenTelemetry's exporters do.

    Args:
        url: of the receiver's logs.
        headers: sent along.

    Raises:
        ValueError: if `url` is not an http or https address.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) address: {url!r}")
        self._url = url
        self._headers = {**headers, "Content-Type": "application/json"}
        trusted = os.environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE")
        self._context = ssl.create_default_context(cafile=trusted) if parts.scheme == "https" else None

    def send(self, body: bytes, timeout_s: float) -> Outcome:
        """Send one request."""
        request = urllib.request.Request(self._url, body, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s, context=self._context):
                return "taken"
        except urllib.error.HTTPError as error:
            error.close()
            return "away" if error.code >= 500 or error.code in _LATER else "refused"
        except Exception:  # whatever keeps it from arriving may be over the next time
            return "away"

    def close(self) -> None:
        """Nothing is kept open."""
