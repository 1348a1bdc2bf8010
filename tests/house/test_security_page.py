"""What the page on security shows is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spanfuse.decisions.table import MAX_CLOSED
from spanfuse_processor.config import load_config
from spanfuse_schemas import Decision, Evidence
from spanfuse_schemas.signing import MIN_KEY_CHARS, Keyring

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")


def shown(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_verifier_that_is_shown_computes_the_signatures_that_are_sent() -> None:
    names: dict[str, Any] = {}
    exec(shown("python"), names)
    secret = "the key of this test"
    record = Decision(key="session:ü", state="open", evidence=Evidence(value=0.1), issued_at_ns=1)
    signed = json.loads(Keyring([secret]).signed(record.to_json()))
    assert names["signature"](signed, secret) == signed["signature"]


def test_the_configuration_that_is_shown_signs(tmp_path: Path) -> None:
    path = tmp_path / "spanfuse.yaml"
    path.write_text(shown("yaml"))
    assert load_config(path, {"SPANFUSE_SIGNING_KEY": "first of the keys,second of the keys"}).service.keys()
    assert not load_config(path, {"SPANFUSE_SIGNING_KEY": " "}).service.keys()


@pytest.mark.parametrize("text", [f"at least {MIN_KEY_CHARS} characters", f"the last {MAX_CLOSED:,} keys"])
def test_its_numbers_are_those_in_force(text: str) -> None:
    assert text in " ".join(PAGE.split())
