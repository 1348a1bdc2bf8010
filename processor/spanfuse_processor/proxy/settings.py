"""What a proxy is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from spanfuse_processor.config.section import on_loopback
from spanfuse_processor.errors import ConfigError

OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"
LISTEN: Final = "127.0.0.1:8788"
"""The port after that of the API."""
TIMEOUT_S: Final = 600.0
"""How long a provider may be silent, seconds: as long as the clients of OpenAI and Anthropic wait by default."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Largest request to a model, bytes: twice what Anthropic takes, more than OpenAI's images come to."""


@dataclass(frozen=True)
class ProxySettings:
    """Settings of `spanfuse proxy`.

    Raises:
        ConfigError: an address cannot be used, or the proxy would be open to others.
    """

    listen: str = LISTEN
    """Address to listen on, HOST:PORT; port 0 takes a free one. Default: loopback only."""
    openai_url: str = OPENAI_URL
    """OpenAI's API, or one like it, as its client takes it as `base_url`; without a path, `/v1` is added."""
    anthropic_url: str = ANTHROPIC_URL
    """Anthropic's API, or one like it, as its client takes it as `base_url`."""
    guard_url: str | None = None
    """Where decisions come from. Default: `SPANFUSE_API_URL`, else nowhere: the default rules, of this process alone."""
    ledger: str | None = None
    """Where strict budgets are kept. Default: `SPANFUSE_LEDGER`, else none."""
    mode: Literal["observe", "enforce"] | None = None
    """Whether blocks are enforced. Default: as each decision says."""
    token: SecretStr | None = None
    """What clients have to know. Default: everybody who reaches the port may send."""
    nudge: bool = False
    """Whether nudges are added to conversations. Default: requests pass as they are."""
    timeout_s: float = TIMEOUT_S
    """How long a provider may be silent, seconds."""
    max_body_bytes: int = MAX_BODY_BYTES
    """Largest request to a model, bytes."""
    otlp_url: str | None = None
    """Where spans of the model calls go, OTLP/HTTP. Default: none are made, the agents make their own."""
    metrics: str | None = None
    """Address to serve `/metrics`, `/healthz` and `/readyz` on, HOST:PORT; port 0 takes a free one. Default: nowhere."""
    address: tuple[str, int] = field(init=False)
    """Host and port."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", _address(self.listen))
        if self.metrics is not None:
            _address(self.metrics)
        for url in (self.openai_url, self.anthropic_url):
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
                raise ConfigError([f"{url!r} is no address of an API: http(s)://host[:port][/path]"])
        if self.token is None and not on_loopback(self.listen):
            raise ConfigError(
                [f"{self.listen} can be reached from other machines: set a token that clients have to know"]
            )
        if self.token is not None and not self.token.get_secret_value().strip():
            raise ConfigError(["the token is empty"])


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError([f"{listen!r} is no address to listen on: HOST:PORT"])
    return host.strip("[]"), int(port)
