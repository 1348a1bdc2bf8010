"""`python -m deploy.collector.generator`: write without-content.yaml from the tables of dialects.

What is kept is a list: an attribute that nobody foresaw goes. On it is what ingest reads as a name or a number, which ends
up on the call as it is; what ingest reads as content, or as an object that may hold any, is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from spanfuse.emission.report_record import EVENT, PREFIX
from spanfuse.reading.messages import FINGERPRINT_ATTRIBUTE
from spanfuse.steering import progress
from spanfuse_processor.otlp import failure
from spanfuse_processor.otlp.dialects import DIALECTS, identity
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, SYSTEM, Flat
from spanfuse_processor.otlp.values import EventKey, JsonKey, Keys, Sum
from spanfuse_schemas.guard_report import GuardReport

FILE: Final = Path(__file__).parent / "without-content.yaml"

_READ: Final = (
    "operation", "agent", "provider", "response_model", "request_model", "response_id", "input_tokens", "output_tokens",
    "cache_read", "cache_write", "reasoning", "total_tokens", "cost", "finish", "first_token_at", "tool_name", "tool_call_id",
)  # fmt: skip
"""Fields of a dialect that are read as names and numbers."""
NUMBERS: Final = frozenset(
    {
        "gen_ai.usage.input_token_details", "gen_ai.usage.output_token_details", "gen_ai.usage.raw",
        "langfuse.observation.cost_details", "langfuse.observation.usage_details", "langsmith.metadata.usage_metadata",
        "llm.anthropic.usage", "llm.azure.usage", "llm.openai.usage", "metadata.usage_object", "mlflow.chat.tokenUsage",
        "mlflow.llm.cost", "usage",
    }
)  # fmt: skip
"""Objects of numbers alone."""
MARKS: Final = frozenset(
    {"gcp.vertex.agent.invocation_id", "gen_ai.is_streaming", "litellm.call_id", "llm.request.type"}
)
"""By which a dialect is told, beside what is read anyway."""
RESOURCE: Final = frozenset(
    {
        "service.name", "service.namespace", "service.version", "service.instance.id", "deployment.environment.name",
        "host.name", "k8s.cluster.name", "k8s.namespace.name", "k8s.pod.name", "k8s.node.name", "telemetry.sdk.language",
        "telemetry.sdk.name", "telemetry.sdk.version", "user.id", "enduser.id", "session.id", "team", "team.id", "department",
    }
)  # fmt: skip
"""Of the process: not its command line, which is where some agents are told what to do."""
_MAX_BYTES: Final = 4_000_000
"""As in gateway.yaml: fingerprints of a long turn are long."""


def kept(dialects: Iterable[Dialect] = DIALECTS) -> frozenset[str]:
    """Attributes of spans that stay."""
    found = {*NUMBERS, *MARKS, FINGERPRINT_ATTRIBUTE, progress.ATTRIBUTE, "error.type"}
    found |= {*failure.CODE_KEYS, *(key for key, _ in failure.FAILED)}
    for keys in (identity.SESSION, identity.USER, identity.TEAM, identity.AGENT):
        found |= {*_plain(keys)}
    ends: set[str] = set()
    for dialect in dialects:
        found |= {name for field in _READ for name in _plain(getattr(dialect, field))}
        found |= {roles.attribute for roles in dialect.roles} | {key for key, _ in dialect.ttft}
        ends |= {*_plain(dialect.finish)}
        if dialect.agent_span:
            found |= {dialect.agent_span.attribute, *_plain(dialect.agent_span.keys)}
    whole, beginnings = content(dialects)
    return frozenset(key for key in found - whole - {""} if key in ends or not key.startswith(tuple(beginnings)))


def content(dialects: Iterable[Dialect] = DIALECTS) -> tuple[frozenset[str], frozenset[str]]:
    """Attributes with content, and how the names of those begin that hold a part of it."""
    whole, beginnings = {*_all(SYSTEM)}, set[str]()
    for dialect in dialects:
        for place in _places((*dialect.input, *dialect.output, *INPUT, *OUTPUT)):
            if isinstance(place, Flat):
                beginnings.add(place.prefix)
            else:
                whole |= {*_all((place,))}
        whole |= {*_all(dialect.tool_arguments), *_all(dialect.tool_result)}
    return frozenset(whole), frozenset(beginnings)


def _places(sources: Iterable[Any]) -> Iterator[Any]:
    """Keys and flattened messages, wherever a source has them."""
    for source in sources:
        if isinstance(source, (str, JsonKey, EventKey, Flat)):
            yield source
        elif isinstance(source, tuple):
            yield from _places(source)


def _plain(keys: Keys) -> Iterator[str]:
    """Attributes whose value is what is read."""
    for key in keys:
        if isinstance(key, str):
            yield key
        elif isinstance(key, Sum):
            yield from _plain(key.keys)


def _all(keys: Keys) -> Iterator[str]:
    """Attributes in which anything is read."""
    for key in keys:
        if isinstance(key, str):
            yield key
        elif isinstance(key, JsonKey):
            yield key.attribute


def _chunks(dialects: Iterable[Dialect] = DIALECTS) -> list[str]:
    """Events by whose time the first token is known."""
    return sorted({name for dialect in dialects for name in dialect.ttft_events})


def text() -> str:
    """The file."""
    span, resource = _listed(kept()), _listed(RESOURCE)
    events = "|".join(name.replace(".", "[.]") for name in ("exception", *_chunks()))
    report = {f"{PREFIX}{name}" for name in GuardReport.model_fields}
    sender = f"""\
      - statements:
          - >-
            keep_keys(resource.attributes, [
{resource}
            ])
      - statements:
          - keep_keys(scope.attributes, ["-"])"""
    log = _listed({"event.name", "event_name", "cost_usd", *report} | {*_plain(identity.SESSION)})
    return f"""\
# Written by `make collector` from the tables of dialects: change deploy/collector/generator.py instead.
# Beside agent.yaml or gateway.yaml, where agents state fingerprints: --config agent.yaml --config without-content.yaml
processors:
  filter/unread:
    error_mode: propagate
    log_conditions:
      - >-
        not IsMatch(Concat([log.event_name, log.attributes["event.name"], log.attributes["event_name"]], " "),
        "(^| )({EVENT.replace(".", "[.]")}|(claude_code[.])?api_request)( |$)")
  # What fails is not sent on: content must not pass because of an error.
  transform/content:
    error_mode: propagate
    trace_statements:
      # Each kind apart: together they would be applied to events alone, and to no span without any.
{sender}
      - statements:
          # Older versions of Logfire tell by these that an answer came: it stays known, and what it was goes.
          - >-
            set(span.attributes["response_data"], "{{}}") where span.attributes["response_data"] != nil or
            (IsMatch(scope.name, "^logfire[.]") and (span.attributes["output"] != nil or span.attributes["events"] != nil))
          - >-
            keep_keys(span.attributes, [
            "response_data",
{span}
            ])
          - truncate_all(span.attributes, {_MAX_BYTES})
          - set(span.status.message, "")
          - set(span.trace_state, "")
      - statements:
          - keep_keys(spanevent.attributes, ["exception.type"])
          - >-
            set(spanevent.name, "event") where not IsMatch(spanevent.name,
            "^({events})$")
    log_statements:
{sender}
      - statements:
          - >-
            keep_keys(log.attributes, [
{log}
            ])
          - set(log.body, "")
"""


def _listed(names: Iterable[str]) -> str:
    return ",\n".join(f'            "{name}"' for name in sorted(names))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
