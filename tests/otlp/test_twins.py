"""One call that two instrumentations see in traces of their own, in requests of their own."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.otlp.span import Span
from tests.core.test_belated import Host
from tests.otlp.fixtures import calls, chat, says, span

HERE, THERE = "0" * 31 + "a", "0" * 31 + "b"
ONE_CALL_NANO_USD = 100 * 150 + 10 * 600


def own(**more: Any) -> Span:
    """The client's own span, which knows neither content nor session."""
    ids = {"gen_ai.response.id": "msg_1"}
    return chat(**{"id": 3, "trace": THERE, "at": 0.1, "lasts": 0.5, "scope": "client", "attributes": ids, **more})


def traced(**attributes: Any) -> Span:
    """That of whoever traces the client."""
    ids = {"gen_ai.response.id": "msg_1", **attributes}
    return chat(id=2, trace=HERE, attributes=ids, input=[says("hi")], scope="tracer")


def came(*spans: Span) -> Host:
    host = Host()
    for one in spans:
        host.take([one])
    return host


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("named", [{}, {"session.id": "s", "user.id": "u", "team.id": "t"}])
def test_it_counts_once_where_more_is_known_of_it(order: int, named: dict[str, str]) -> None:
    host = came(*[own(), traced(**named)][::order])
    session = named.get("session.id", f"trace:{HERE}")
    counted = {name: (s.calls, s.cost_nano_usd) for name, s in host.states.items() if s.calls}
    assert counted == {session: (1, ONE_CALL_NANO_USD)}
    assert host.charged["global:*"] == ONE_CALL_NANO_USD
    assert [host.charged[scope] for scope in ("user:u", "team:t")] == [ONE_CALL_NANO_USD * bool(named)] * 2


@pytest.mark.parametrize(
    "other",
    [
        own(attributes={"gen_ai.response.id": "msg_2"}),
        own(attributes={}),
        own(at=60),  # an id that was used again
        own(scope="tracer"),
    ],
)
def test_other_calls_count_themselves(other: Span) -> None:
    host = came(traced(), other)
    assert {name: s.calls for name, s in host.states.items()} == {f"trace:{HERE}": 1, f"trace:{THERE}": 1}


def test_two_spans_beside_one_another_owe_once() -> None:
    """Of whoever traces the client, and of what calls it, below a request that says whose both are only when it ends."""
    ids = {"gen_ai.response.id": "chatcmpl-1"}
    client, library = (chat(id=n, parent=1, trace=HERE, attributes=ids, scope=f"scope {n}") for n in (2, 3))
    request = span({"session.id": "s", "user.id": "u", "team.id": "t"}, id=1, trace=HERE, kind=2, lasts=2)
    host = came(client, library, request)
    assert [host.charged[scope] for scope in ("user:u", "team:t", "global:*")] == [ONE_CALL_NANO_USD] * 3


@pytest.mark.parametrize("order", [1, -1])
def test_two_spans_that_counted_a_stream_differently_are_one_call(order: int) -> None:
    ids = {"gen_ai.response.id": "msg_1"}
    one = chat(id=2, parent=1, trace=HERE, attributes=ids, scope="client")
    other = chat(id=3, parent=1, trace=HERE, attributes=ids | {"gen_ai.usage.output_tokens": 11}, scope="tracer")
    assert came(*[one, other][::order]).calls["global:*"] == 1


WHOSE = {"session.id": "s", "user.id": "u"}


def listened(**more: Any) -> Span:
    """That of a framework that is told of its calls: it has a trace of its own, and no id of the response."""
    return chat(**{"id": 2, "parent": 1, "trace": HERE, "attributes": WHOSE, "lasts": 2, "scope": "listener", **more})


def test_one_that_knows_no_response_id_is_told_by_session_and_tokens() -> None:
    client = own(attributes=WHOSE | {"gen_ai.response.id": "msg_1"})
    assert len(calls(listened(), client)) == 1
    for order in (1, -1):
        host = came(*[listened(), client][::order])
        assert [host.calls[scope] for scope in ("user:u", "global:*")] == [1, 1]
        assert {name: s.calls for name, s in host.states.items() if s.calls} == {"s": 1}


@pytest.mark.parametrize(
    "other",
    [
        own(attributes=WHOSE, lasts=5),  # neither encloses the other
        own(attributes=WHOSE, scope="listener"),
        own(attributes=WHOSE | {"gen_ai.usage.output_tokens": 11}),
        own(attributes={"session.id": "another"}),
    ],
)
def test_calls_that_are_merely_alike_count_themselves(other: Span) -> None:
    assert len(calls(listened(), other)) == 2
    for order in (1, -1):
        assert came(*[listened(), other][::order]).calls["global:*"] == 2


def test_a_stream_counts_as_what_the_client_saw_of_it() -> None:
    """The library that asked for it hands it on, and knows neither its end nor its usage."""
    asked = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    library = chat(id=1, trace=HERE, attributes=asked, input=[says("hi")], lasts=0.2, scope="library")
    client = chat(
        id=2, parent=1, trace=HERE, at=0.1, input=[says("hi")], output=[says("Hi.", "assistant")], scope="client"
    )
    (found,) = calls(library, client)
    assert (found.tokens.input, found.tokens.output, found.usage_estimated, found.action is None) == (
        100,
        10,
        False,
        False,
    )


@pytest.mark.parametrize("parent", [0, 1])
@pytest.mark.parametrize(
    ("other", "count"),
    [({}, 1), ({"scope": "tracer"}, 2), ({"lasts": 2}, 2), ({"error": None}, 2), ({"at": 2}, 2)],
)
def test_a_failure_that_a_client_and_its_tracer_tell_of_is_one(parent: int, other: dict[str, Any], count: int) -> None:
    """It has no response, and so no id of one."""
    failed = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    one = chat(id=2, parent=parent, trace=HERE, attributes=failed, input=[says("hi")], error="429", scope="tracer")
    more = {"at": 0.1, "lasts": 0.5, "scope": "client", "error": "429", **other}
    two = chat(id=3, parent=parent, trace=HERE if parent else THERE, attributes=failed, **more)
    assert len(calls(one, two)) == len(calls(two, one)) == count


@pytest.mark.parametrize("order", [1, -1])
def test_a_stream_that_is_told_of_again_with_its_usage_counts_with_it(order: int) -> None:
    ended = traced(**{"gen_ai.usage.input_tokens": 9})
    used = own(id=4, at=0, lasts=2, scope="tracer")
    assert [found.tokens.input for found in calls(*[ended, used][::order])] == [100]


@pytest.mark.parametrize("richer", ["library", "client", ""])
def test_calls_made_at_once_that_took_the_same_each_have_their_own_second_span(richer: str) -> None:
    found: list[Span] = []
    for n in range(4):
        for scope, id, at, lasts in (("library", 10, 1.0, 1.0), ("client", 20, 1.1, 0.8)):
            asked = [says(f"Question {n}")] if scope == richer else None
            own = {"session.id": "s"}
            found.append(
                chat(id=id + n, parent=1, at=at + n / 100, lasts=lasts, scope=scope, input=asked, attributes=own)
            )
    assert len(calls(*found)) == 4
