"""From an address, keywords or the environment to a subscriber."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse import Guard
from spanfuse.subscribers.connect import connect
from spanfuse.subscribers.kafka import Connection, KafkaSubscriber
from spanfuse.subscribers.sse import SseSubscriber
from spanfuse.testing import MemorySubscriber, block
from spanfuse_schemas.topics import CONTROL
from tests.client.sse_server import SseServer


def address(subscriber: object) -> tuple[str, int, str]:
    assert isinstance(subscriber, SseSubscriber)
    return subscriber._host, subscriber._port, subscriber._path


def test_without_an_address_it_is_the_environments_else_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPANFUSE_API_URL", raising=False)
    assert address(connect(None)) == ("127.0.0.1", 8787, "/v1/decisions/stream")
    monkeypatch.setenv("SPANFUSE_API_URL", "https://fuse.example/base/")
    assert address(connect(None)) == ("fuse.example", 443, "/base/v1/decisions/stream")


def test_a_kafka_address_names_brokers_and_the_control_topic() -> None:
    subscriber = connect("kafka://one:9092,two:9092/")
    assert isinstance(subscriber, KafkaSubscriber)
    assert subscriber.connection.options()["bootstrap_servers"] == ["one:9092", "two:9092"]
    assert subscriber._topic == CONTROL


def test_a_subscriber_is_taken_as_it_is() -> None:
    mine = MemorySubscriber()
    assert connect(mine) is mine


def test_a_token_is_presented_to_the_api_from_a_keyword_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPANFUSE_API_TOKEN", raising=False)
    with SseServer(block("session:s")) as server:
        for keyword, environment, sent in (
            (None, "", None),
            (None, "env-token\n", "env-token"),
            ("mine", "env", "mine"),
        ):
            monkeypatch.setenv("SPANFUSE_API_TOKEN", environment)
            with Guard(server.url, token=keyword) as guard:
                assert guard.wait_ready(10)
            assert server.requests[-1].get("Authorization") == (f"Bearer {sent}" if sent else None)


@pytest.mark.parametrize("token", ["two\nlines-of-a-file", "schl\u00fcssel"])
def test_a_token_that_fits_into_no_header_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ValueError, match="in ASCII, on one line") as refused:
        Guard("http://127.0.0.1:1", token=token)
    assert token not in str(refused.value)


@pytest.mark.parametrize("wrong", ["127.0.0.1:8787", "ftp://x", "http://"])
def test_anything_else_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError, match="address"):
        connect(wrong)


@pytest.mark.parametrize("wrong", [5, b"http://127.0.0.1:8787", {}, object(), MemorySubscriber])
def test_what_is_no_subscriber_is_an_error_before_a_fork_or_check_meets_it(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a subscriber is an address or has start, close, after_fork"):
        Guard(wrong)


def test_keywords_win_over_the_environment_and_that_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Connection().resolved() == Connection("127.0.0.1:9092", "PLAINTEXT", "PLAIN", client_id="spanfuse-guard")
    monkeypatch.setenv("SPANFUSE_KAFKA_BROKERS", "env:1")
    monkeypatch.setenv("SPANFUSE_KAFKA_SASL_USERNAME", "u")
    monkeypatch.setenv("SPANFUSE_KAFKA_SASL_PASSWORD", "p")
    found = Connection(brokers="mine:1").resolved()
    assert (found.brokers, found.sasl_username, found.sasl_password) == ("mine:1", "u", "p")
    assert found.security_protocol == "SASL_SSL", "a password is not sent in clear unless asked for"


@pytest.mark.parametrize("wrong", [{"security_protocol": "TLS"}, {"sasl_mechanism": "GSSAPI"}])
def test_an_unknown_protocol_is_an_error_at_once(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is one of"):
        KafkaSubscriber(**wrong)


def test_the_password_is_never_shown() -> None:
    assert "secret" not in repr(Connection(sasl_username="u", sasl_password="secret", ssl_keyfile="secret"))
