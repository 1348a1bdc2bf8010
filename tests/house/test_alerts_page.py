"""docs/alerts.md says what is so."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from spanfuse_processor.config import load_config
from spanfuse_processor.exporters.alerts.model import Alert, Notice
from spanfuse_processor.exporters.alerts.receivers.webhook import payload, signature
from spanfuse_processor.exporters.otlp.records import attributes
from spanfuse_schemas import Detection, Evidence

PAGE = Path(__file__).parents[2].joinpath("docs/alerts.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_its_configuration_is_one(tmp_path: Path) -> None:
    """Both examples, with the environment that they name."""
    names = re.findall(r"\$\{env:(\w+)\}", PAGE)
    for n, text in enumerate(blocks("yaml")):
        path = tmp_path / f"{n}.yaml"
        path.write_text(text)
        assert load_config(path, dict.fromkeys(names, "https://example.com/x")).exporters


def test_its_snippet_accepts_what_is_signed_and_nothing_else() -> None:
    """A receiver may copy it."""
    (snippet,) = blocks("python")
    scope: dict[str, Any] = {}
    exec(snippet, scope)
    now = int(time.time())
    assert scope["is_ours"]("key", b"{}", signature("key", b"{}", now))
    assert not scope["is_ours"]("key", b"{ }", signature("key", b"{}", now))
    assert not scope["is_ours"]("key", b"{}", signature("key", b"{}", now - 600))


def test_its_webhook_has_the_fields_that_are_sent() -> None:
    """All of them, of a budget."""
    (shown,) = map(json.loads, blocks("json"))
    alert = Alert(
        id="a", rule="budget.x", key="agent:a", limit=50, evidence=Evidence(threshold=40, value=40.12, unit="USD")
    )
    sent = payload(Notice("firing", alert))
    assert list(shown) == list(sent)
    assert set(shown["data"]) == set(sent["data"])


def test_its_attributes_are_those_of_the_spans() -> None:
    """Each is named in the table, and no other."""
    names = set(re.findall(r"`((?:spanfuse|session|user|team|gen_ai)\.[a-z_.]+)`", PAGE))
    evidence = Evidence(
        count=1,
        threshold=1,
        value=1,
        unit="x",
        tool="t",
        first_span_id="1" * 16,
        last_span_id="2" * 16,
        cost_nano_usd=1,
    )
    found = Detection(
        id="i", rule="r", action="warn", mode="warn", session="s", scope="agent:a", agent="a", user="u", team="t", model="m",
        call=0, at_ns=0, message="m", evidence=evidence, conditional=True,
    )  # fmt: skip
    sent = attributes(found)
    parts = {name.removeprefix("spanfuse.evidence.") for name in sent if name.startswith("spanfuse.evidence.")}
    assert {name for name in sent if "evidence" not in name} == names - {"spanfuse.detection"}
    assert all(f"`{part}`" in PAGE for part in parts)
