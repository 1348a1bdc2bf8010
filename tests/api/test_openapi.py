"""The document: every route has a summary, a typed answer and an example, and docs/api.md names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.api.app import create_app
from spanfuse_processor.api.examples import EXAMPLES
from tests.support.api import Api
from tests.support.console import FakeConsole
from tests.support.loops import in_loop
from tests.support.openapi import Document

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
STREAMS = {"/v1/events", "/v1/decisions/stream"}
NO_JSON = STREAMS | {"/metrics"}
ASKED: dict[str, str] = {
    "{session}": "run-00011",
    "{key}": "session:run-00011",
}


def _document() -> dict[str, Any]:
    app: Any = create_app(FakeConsole(1))
    found: dict[str, Any] = app.app.openapi()
    return found


RAW = _document()
DOCUMENT = Document(RAW)
ROUTES = [(method, path) for path, methods in DOCUMENT.paths.items() for method in methods]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_route_has_a_summary_and_says_what_it_does_and_answers(method: str, path: str) -> None:
    route = DOCUMENT.paths[path][method]
    assert route["summary"]
    assert route["description"]
    assert route["tags"]
    if path not in NO_JSON and path != "/logout":
        assert DOCUMENT.schema(method, path).get("$ref"), "no typed answer"
        DOCUMENT.check(method, path, EXAMPLES[method, path])
    assert "4XX" in route["responses"]
    assert "422" not in route["responses"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_route_says_which_tokens_it_takes(method: str, path: str) -> None:
    apart = path in ("/healthz", "/readyz", "/login", "/logout")
    assert bool(DOCUMENT.paths[path][method].get("security")) != apart


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_the_page_names_each_route(method: str, path: str) -> None:
    """A route is named as `GET /v1/sessions/ID`."""
    named = path.replace("{session}", "ID").replace("{key}", "KEY").replace("{id}", "ID")
    assert f"`{method.upper()} {named}" in PAGE.read_text()


@pytest.mark.parametrize(
    "path", [p for m, p in ROUTES if m == "get" and p not in NO_JSON | {"/v1/alerts"}], ids=lambda path: str(path)
)
def test_what_is_answered_has_the_shape_that_is_promised(path: str) -> None:
    @in_loop
    async def run() -> None:
        asked = path
        for name, value in ASKED.items():
            asked = asked.replace(name, value)
        status, body = await Api()("GET", asked)
        assert status == 200
        DOCUMENT.check("get", path, body)

    run()


def test_the_document_needs_nothing_from_elsewhere() -> None:
    assert {server["url"] for server in RAW.get("servers", [])} <= {"/"}
    assert not any("://" in str(value) for value in RAW["info"].values())
