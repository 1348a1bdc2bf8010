"""Whose API a path is, and what is asked there."""

from __future__ import annotations

import pytest

from spanfuse_processor.proxy.routes import Route, route


def found(path: str, method: str = "POST", query: str = "", **headers: str) -> Route:
    """The route of a request that has one."""
    there = route(method, path, query, {name.replace("_", "-"): value for name, value in headers.items()})
    assert there is not None
    return there


@pytest.mark.parametrize(
    ("path", "provider", "kind"),
    [
        ("/v1/chat/completions", "openai", "chat"),
        ("/v1/responses", "openai", "responses"),
        ("/v1/completions", "openai", "completions"),
        ("/v1/embeddings", "openai", "embeddings"),
        ("/v1/messages", "anthropic", "messages"),
        ("/openai/v1/chat/completions", "openai", "chat"),
        ("/anthropic/v1/messages", "anthropic", "messages"),
        ("/v1/models", "openai", None),
        ("/v1/messages/count_tokens", "anthropic", None),
        ("/v1/responses/resp_1/cancel", "openai", None),
        ("/anthropic/v1/models", "anthropic", None),
    ],
)
def test_a_path_says_whose_api_it_is_and_what_is_asked(path: str, provider: str, kind: str | None) -> None:
    there = found(path)
    assert (there.provider, there.kind) == (provider, kind)


def test_where_the_path_does_not_say_anthropics_clients_are_known_by_their_headers() -> None:
    assert found("/v1/models", "GET", anthropic_version="2023-06-01").provider == "anthropic"
    assert found("/v1/models", "GET", authorization="Bearer k").provider == "openai"


def test_only_a_post_calls_a_model() -> None:
    assert found("/v1/chat/completions", "GET").kind is None


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v1/%63hat/completions",
        "/v1/models/../chat/completions",
        "/v1/./chat%2Fcompletions",
        "//v1/chat/completions",
    ],
)
def test_no_spelling_of_a_path_leads_around_the_guard(path: str) -> None:
    assert found(path).kind == "chat"


def test_what_goes_upstream_is_the_path_and_the_query_as_they_came() -> None:
    assert found("/openai/v1/files/a%2Fb", "GET", "limit=2&after=x%20y").target == "files/a%2Fb?limit=2&after=x%20y"


def test_a_base_url_can_name_whose_the_calls_are() -> None:
    there = found("/session/run%2F1/agent/planner/user/ada/team/research/openai/v1/chat/completions")
    assert there.names == {"session": "run/1", "agent": "planner", "user": "ada", "team": "research"}
    assert (there.provider, there.target, there.kind) == ("openai", "chat/completions", "chat")


@pytest.mark.parametrize(
    "path", ["/", "/v2/chat/completions", "/chat/completions", "/mistral/v1/chat/completions", "/session/v1"]
)
def test_other_paths_lead_nowhere(path: str) -> None:
    assert route("POST", path, "", {}) is None
