"""The section `extensions.api`: who may use the API is said before it listens."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.config import load_config
from spanfuse_processor.config.api import Api
from spanfuse_processor.errors import ConfigError

TOKEN = {"name": "ci", "token": "0123456789abcdef"}


@pytest.mark.parametrize("endpoint", ["127.0.0.1:0", "127.8.0.1:1", "[::1]:0", "localhost:0"])
def test_on_the_machine_itself_no_token_is_needed(endpoint: str) -> None:
    assert Api(endpoint=endpoint).tokens == ()


@pytest.mark.parametrize("endpoint", ["0.0.0.0:8787", "[::]:8787", "10.0.0.7:8787", "api.internal:8787"])
def test_an_address_that_others_can_reach_needs_a_token(endpoint: str) -> None:
    with pytest.raises(ValidationError, match="can be reached from other machines: set tokens, or listen on 127"):
        Api(endpoint=endpoint)
    assert len(Api.model_validate({"endpoint": endpoint, "tokens": [TOKEN]}).tokens) == 1


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ([TOKEN | {"token": "0123456789abcde"}], "must have at least 16 characters"),
        ([TOKEN | {"token": "0123456789 abcdef"}], "without spaces, in ASCII"),
        ([TOKEN | {"token": "0123456789äbcdef"}], "without spaces, in ASCII"),
        ([TOKEN | {"name": "c i"}], "should match pattern"),
        ([TOKEN | {"role": "root"}], "'read', 'operate' or 'admin'"),
        ([TOKEN | {"expires": "soon"}], "valid datetime"),
        ([TOKEN, TOKEN | {"token": "f" * 16}], "two tokens have the same name"),
        ([TOKEN, TOKEN | {"name": "b"}], "two names have the same token"),
    ],
)
def test_a_token_that_cannot_be_used_is_refused_without_being_shown(tokens: list[Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why) as refused:
        Api.model_validate({"tokens": tokens})
    assert tokens[0]["token"] not in str(refused.value)


def test_a_token_looks_and_never_expires_unless_told_otherwise() -> None:
    (token,) = Api.model_validate({"tokens": [TOKEN]}).tokens
    assert (token.role, token.expires) == ("read", None)
    assert TOKEN["token"] not in repr(token)


def test_an_expiry_is_of_utc_unless_it_says_otherwise() -> None:
    (token,) = Api.model_validate({"tokens": [TOKEN | {"expires": "2027-01-31"}]}).tokens
    assert token.expires == datetime(2027, 1, 31, tzinfo=UTC)


def test_tokens_come_from_the_environment_and_what_is_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "extensions:\n  api:\n    endpoint: 0.0.0.0:8787\n    tokens: [{name: ci, token: '${env:API_TOKEN}'}]\n"
    )
    (token,) = load_config(file, {"API_TOKEN": "t" * 16}).extensions.api.tokens
    assert token.token.get_secret_value() == "t" * 16
    with pytest.raises(ConfigError, match=r"c\.yaml:4: extensions\.api\.tokens\[0\]\.token: must have at least 16"):
        load_config(file, {"API_TOKEN": "short"})


def test_a_file_that_would_open_the_api_to_others_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("extensions:\n  api:\n    endpoint: 0.0.0.0:8787\n")
    with pytest.raises(
        ConfigError, match=r"c\.yaml:2: extensions\.api: 0\.0\.0\.0:8787 can be reached from other machines"
    ):
        load_config(file)
