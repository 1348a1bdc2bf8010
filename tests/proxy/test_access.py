"""Who may send: everybody on the machine, or who knows the token."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from spanfuse_processor.errors import ConfigError
from spanfuse_processor.proxy.settings import ProxySettings
from tests.proxy.conftest import CHAT, body
from tests.support.fake_provider import FakeProvider
from tests.support.proxied import Proxied

TOKEN = SecretStr("s3cret")


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
def test_on_the_machine_itself_no_token_is_needed(listen: str) -> None:
    assert ProxySettings(listen=listen).token is None


@pytest.mark.parametrize("listen", ["0.0.0.0:8788", "[::]:8788", "10.0.0.7:8788", "proxy.internal:8788"])
def test_an_address_that_others_can_reach_needs_a_token(listen: str) -> None:
    with pytest.raises(ConfigError, match="set a token"):
        ProxySettings(listen=listen)
    assert ProxySettings(listen=listen, token=TOKEN).address[1] == 8788


@pytest.mark.parametrize(
    "settings",
    [
        {"listen": "8788"},
        {"listen": "127.0.0.1:port"},
        {"listen": "127.0.0.1:70000"},
        {"openai_url": "api.openai.com"},
        {"anthropic_url": "ftp://host"},
        {"token": SecretStr(" ")},
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ProxySettings(**settings)


def test_a_token_is_never_shown() -> None:
    assert "s3cret" not in repr(ProxySettings(token=TOKEN))


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Spanfuse-Token": "s3cret", "Authorization": "Bearer sk-mine"},
        {"Authorization": "Bearer s3cret", "X-Loopers-Provider-Key": "sk-mine"},
        {"x-api-key": "s3cret", "X-Spanfuse-Provider-Key": "sk-mine"},
    ],
)
def test_who_knows_the_token_may_send(provider: FakeProvider, headers: dict[str, str]) -> None:
    with Proxied(provider, token=TOKEN) as proxied:
        assert httpx.post(f"{proxied.url}{CHAT}", json=body(), headers=headers).status_code == 200
    sent = provider.requests[0].headers
    assert sent["authorization"] == "Bearer sk-mine"
    assert "s3cret" not in str(sent)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Spanfuse-Token": "wrong"},
        {"X-Spanfuse-Token": ""},
        {"Authorization": "Bearer s3cret"},
        {"X-Spanfuse-Provider-Key": "sk-mine", "Authorization": "Bearer wrong"},
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/models"])
def test_who_does_not_is_turned_away(provider: FakeProvider, headers: dict[str, str], path: str) -> None:
    with Proxied(provider, token=TOKEN) as proxied:
        answer = httpx.post(f"{proxied.url}{path}", json=body(), headers=headers)
        assert httpx.get(f"{proxied.url}/healthz").status_code == 200
    assert (answer.status_code, answer.json()["error"]["code"], provider.calls) == (401, "spanfuse_unauthorized", 0)
