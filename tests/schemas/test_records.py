"""What holds of every wire record: frozen, readable by older and newer readers, small, and described to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import spanfuse_schemas
from spanfuse_schemas import (
    SCHEMA_VERSION,
    Action,
    Call,
    CallBatch,
    Charge,
    Decision,
    Detection,
    Evidence,
    Fingerprint,
    LoopPrint,
    Message,
    Override,
    Policy,
    Record,
    Reset,
    Tokens,
)
from spanfuse_schemas.fingerprint import fingerprint

PRINT = fingerprint("What is the weather in Tokyo?")
EVIDENCE = Evidence(count=3, threshold=3, value=4, unit="repeats", tool="search", last_span_id="b" * 16)
CALL = Call(
    trace_id="a" * 32,
    span_id="b" * 16,
    start_ns=1_800_000_000_000_000_000,
    end_ns=1_800_000_000_100_000_000,
    session="checkout-42",
    agent="checkout",
    tokens=Tokens(input=120, output=7, cache_read=100),
    cost_nano_usd=1_250_000,
    cost_source="computed",
    content="content",
    input=PRINT,
    messages=(Message(role="user", print=PRINT), Message(role="tool", print=PRINT, call_id="c1", error=True)),
    actions=(Action(tool="search", print=PRINT, call_id="c1"),),
    action=PRINT,
)
RECORDS: list[Record] = [
    CALL,
    CallBatch(calls=(CALL, CALL), resets=(Reset(key="session:checkout-42", at_ns=1, actor="ops"),)),
    Charge(scope="team:shop", source="spanfuse.calls-3", offset=17, cost_nano_usd=5, calls=2, at_ns=1),
    Decision(
        key="session:checkout-42",
        state="open",
        action="block",
        rule="cycle",
        evidence=EVIDENCE,
        issued_at_ns=1,
        expires_at_ns=2,
        epoch=4,
        scope_of_block="loop",
        loop=(LoopPrint(canon=PRINT.canon, action=PRINT.canon),),
    ),
    Detection(
        id="d1",
        rule="cycle",
        action="block",
        mode="block",
        session="checkout-42",
        call=6,
        at_ns=1,
        message="Three rounds of the same two steps.",
        evidence=EVIDENCE,
    ),
    Policy.model_validate(
        {
            "mode": "enforce",
            "rules": {"repeat.error": {"count": 5}, "budget.session": {"limit_usd": 0.5}},
            "overrides": [{"tool": "poll*", "rules": {"repeat.no_progress": {"exempt": True}}}],
        }
    ),
]
each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)


def test_the_package_offers_what_it_names() -> None:
    assert all(hasattr(spanfuse_schemas, name) for name in spanfuse_schemas.__all__)
    assert sorted(spanfuse_schemas.__all__, key=lambda n: (n != n.upper(), n)) == spanfuse_schemas.__all__


@each_record
def test_what_is_written_is_read_back_equal(record: Record) -> None:
    assert type(record).from_json(record.to_json()) == record


@each_record
def test_a_record_never_changes(record: Record) -> None:
    field = next(iter(type(record).model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(record, field, getattr(record, field))


@each_record
def test_a_reader_ignores_what_a_newer_writer_adds(record: Record) -> None:
    newer = {**json.loads(record.to_json()), "added_in_version_9": {"a": [1]}}
    assert type(record).from_json(json.dumps(newer)) == record


@each_record
def test_every_record_that_travels_alone_has_the_schema_version(record: Record) -> None:
    assert getattr(record, "v") == SCHEMA_VERSION  # noqa: B009
    assert type(record).from_json(json.dumps({**json.loads(record.to_json()), "v": 7})).v == 7


@each_record
def test_defaults_cost_no_bytes(record: Record) -> None:
    text = record.to_json().decode()
    assert '"v":' not in text
    assert "null" not in text
    assert ", " not in text.replace("Three rounds", "")


@each_record
@pytest.mark.parametrize("garbage", [b"", b"\x00\xff", b"[]", b"null", b'{"calls": 7, "key": []', b"\xc3("])
def test_garbage_is_one_kind_of_error(record: Record, garbage: bytes) -> None:
    with pytest.raises(ValidationError):
        type(record).from_json(garbage)


def test_required_fields_are_required() -> None:
    for name in ("trace_id", "span_id", "start_ns", "end_ns", "session"):
        with pytest.raises(ValidationError, match=name):
            Call.model_validate(CALL.model_dump(exclude={name}))


def test_money_is_a_whole_number_of_nano_dollars_and_never_negative() -> None:
    for wrong in (-1, 0.5, float("nan")):
        with pytest.raises(ValidationError):
            Call.model_validate({**CALL.model_dump(), "cost_nano_usd": wrong})


def test_a_number_that_json_does_not_know_becomes_null_not_an_error_at_the_reader() -> None:
    assert b"NaN" not in Evidence(value=float("nan")).to_json()


def test_a_call_without_content_is_small() -> None:
    """Thousands a second travel through the topic."""
    assert len(CALL.to_json()) < 900


@given(
    st.from_regex(r"\A[0-9a-f]{16}\Z"), st.from_regex(r"\A[0-9a-f]{16}\Z"), st.integers(0, 10**12 - 1), st.booleans()
)
def test_a_fingerprint_is_one_string_and_comes_apart_again(exact: str, canon: str, size: int, near: bool) -> None:
    packed = Fingerprint(exact=exact, canon=canon, near=canon if near else "", size=size)
    read = Fingerprint(str(packed))
    assert (read.exact, read.canon, read.near, read.size) == (exact, canon, canon if near else "", size)
    assert Action.from_json(Action(print=packed).to_json()).print == packed


@pytest.mark.parametrize(
    "wrong", ["", "abc", "0" * 32, "0" * 31 + ":1", "0" * 40 + ":1", "G" * 32 + ":1", ":-1", 7, None]
)
def test_what_is_no_fingerprint_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        Action.model_validate({"print": wrong})


@pytest.mark.parametrize(
    "policy",
    [
        {"rules": {"repeat.eror": {}}},
        {"rules": {"cycle": {"round": 3}}},
        {"rules": {"cycle": {"max_period": 13}}},
        {"rules": {"repeat.error": {"mode": "stop"}}},
        {"overrides": [{"agent": "a", "rules": {"cycle": {"round": 3}}}]},
        {"overrides": [{"tool": "a", "rules": {"velocity": {"factor": 9}}}]},
        {"overrides": [{"agnt": "a", "rules": {}}]},
        {"idle_timeout_s": 0},
    ],
)
def test_a_mistake_in_a_policy_is_an_error_at_once(policy: dict[str, Any]) -> None:
    """What people write is checked to the letter, unlike what machines write."""
    with pytest.raises(ValidationError):
        Policy.model_validate(policy)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"agent": "x", "rules": {"fanout": {"max_agents": 9}}}, "cannot change fanout"),
        ({"team": "t", "rules": {"fanout": {"max_agents": 9}}}, "cannot change fanout"),
        ({"team": "t", "rules": {"agent.breaker": {"sessions": 2}}}, "cannot change agent.breaker"),
        ({"team": "t", "rules": {"adaptive": {"mode": "warn"}}}, "cannot change adaptive"),
        ({"agent": "x", "team": "t", "rules": {"retries": {"count": 9}}}, "cannot change retries"),
    ],
)
def test_an_override_that_would_never_be_looked_at_is_refused(override: dict[str, Any], said: str) -> None:
    """Rules beyond one session are asked by agent or by team, or by neither."""
    with pytest.raises(ValidationError, match=said):
        Override.model_validate(override)


@pytest.mark.parametrize(
    "override",
    [
        {"rules": {"fanout": {"max_agents": 9}, "agent.breaker": {}, "adaptive": {}, "retries": {}}},
        {
            "agent": "x",
            "rules": {"agent.breaker": {"sessions": 2}, "adaptive": {"mode": "warn"}, "retries": {"count": 9}},
        },
        {"team": "t", "rules": {"retries": {"count": 9}, "cycle": {"rounds": 6}}},
    ],
)
def test_an_override_of_what_a_rule_is_asked_by_is_taken(override: dict[str, Any]) -> None:
    assert Override.model_validate(override).rules == override["rules"]


def test_an_override_says_what_it_changes_by_the_rule_names_that_the_policy_has() -> None:
    override = Override(agent="batch-*", rules={"cycle": {"rounds": 6}, "velocity": {"mode": "off"}})
    assert Policy(overrides=(override,)).overrides[0].rules["cycle"] == {"rounds": 6}


def test_every_setting_of_the_rules_is_described() -> None:
    def described(model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                described(field.annotation)

    described(Policy)


@pytest.mark.parametrize(
    "record",
    [
        Tokens(input=3, cache_read=1),
        Call(trace_id="a" * 32, span_id="b" * 16, start_ns=1, end_ns=2, session="s", tokens=Tokens(output=1)),
    ],
)
def test_a_record_that_is_made_is_one_that_was_checked(record: Record) -> None:
    """It is equal, and so are its JSON, its copies and what it says was set."""
    made = type(record).made(**{name: getattr(record, name) for name in record.model_fields_set})
    assert made == record
    assert made.to_json() == record.to_json()
    assert made.model_fields_set == record.model_fields_set
    assert made.model_copy(update={"v": 1}) == record.model_copy(update={"v": 1})
