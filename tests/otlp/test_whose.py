"""Whose a call is: by attributes of one's own, of libraries, of ancestors, of the process."""

from __future__ import annotations

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.hosts.reading import normaliser_of
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.whose import Whose
from tests.otlp.fixtures import call, calls, chat, span

OWN = Whose(session=["app.session", "app.run"], user=["app.user"], team=["tenant.id"], agent=["app.agent"])


def using() -> Normaliser:
    return Normaliser(Prices(), OWN)


def test_attributes_of_ones_own_go_before_those_of_libraries() -> None:
    said = {"session.id": "x", "user.id": "x", "team.id": "x", "gen_ai.agent.name": "x"}
    own = {"app.session": "s", "app.user": "u", "tenant.id": "t", "app.agent": "a"}
    found = call(chat(attributes=said | own), using())
    assert (found.session, found.user, found.team, found.agent) == ("s", "u", "t", "a")
    rest = call(chat(attributes=said), using())
    assert (rest.session, rest.user, rest.team, rest.agent) == ("x", "x", "x", "x")


def test_they_are_tried_in_order() -> None:
    assert call(chat(attributes={"app.run": "second", "app.session": "first"}), using()).session == "first"
    assert call(chat(attributes={"app.run": "second", "app.session": ""}), using()).session == "second"


def test_an_ancestor_goes_before_the_process() -> None:
    resource = {"app.session": "process", "app.user": "process", "tenant.id": "process", "app.agent": "process"}
    root = span({"app.session": "s", "app.user": "u", "tenant.id": "t"}, id=1, name="request", resource=resource)
    (found,) = calls(root, chat(id=2, parent=1, resource=resource), using=using())
    assert (found.session, found.session_source, found.user, found.team) == ("s", "inherited", "u", "t")
    alone = call(chat(resource=resource), using())
    assert (alone.session, alone.session_source) == ("process", "inherited")
    assert (alone.user, alone.team, alone.agent) == ("process", "process", "process")


def test_without_them_the_process_names_team_and_agent() -> None:
    found = call(chat(resource={"service.name": "guide", "service.namespace": "travel"}))
    assert (found.agent, found.team) == ("guide", "travel")
    assert call(chat(resource={"service.name": "unknown_service:python"})).agent == ""


def test_a_name_that_was_scrubbed_is_none() -> None:
    scrubbed = "[Scrubbed due to 'session']"
    found = call(chat(attributes={"session.id": scrubbed, "gen_ai.conversation.id": "c", "user.id": scrubbed}))
    assert (found.session, found.user) == ("c", "")
    assert call(chat(attributes={"session.id": scrubbed})).session_source == "trace"


def test_the_id_of_a_response_is_no_session() -> None:
    request = span({"session.id": "s"}, id=1, name="request")
    answered = {"gen_ai.conversation.id": "resp_0a1b"}
    found = calls(request, chat(id=2, parent=1, attributes=answered), chat(id=3, parent=1, at=2, attributes=answered))
    assert [(c.session, c.session_source) for c in found] == [("s", "inherited")] * 2
    thread = answered | {"traceloop.association.properties.thread_id": "t"}
    assert call(chat(attributes=thread)).session == "t"


@pytest.mark.parametrize("field", ["session", "user", "team", "agent"])
def test_the_configuration_names_them(field: str) -> None:
    config = Config.model_validate({"identity": {field: ["app.who"]}})
    found = call(chat(attributes={"app.who": "w"}), normaliser_of(config, Prices()))
    assert getattr(found, field) == "w"


@pytest.mark.parametrize("names", [[""], ["x"] * 33, ["x" * 257]])
def test_names_that_cannot_be_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match=r"identity\.user"):
        Config.model_validate({"identity": {"user": names}})
