"""What instrumentations do not record, or record otherwise than it was: each gap was seen in the recordings themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

SERVICE: Final = "demo-agent"
"""`service.name`, which names the agent where nothing else does."""
GEO: Final = "geo_agent"


class Gap(NamedTuple):
    """A field that cannot hold the truth."""

    field: str
    value: Any
    """What it holds instead: for each call, or of each if it is a tuple. Empty: nothing."""
    why: str
    scenarios: tuple[str, ...] = ()
    """In which; none: in all but failures."""

    def in_scenario(self, scenario: str) -> bool:
        """Whether it is there."""
        return scenario in self.scenarios if self.scenarios else scenario != "error"


@dataclass(frozen=True)
class About:
    """One folder of recordings."""

    agent: str = GEO
    agents: Mapping[str, str] = field(default_factory=dict)
    """The agent of single scenarios."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Model calls of single scenarios, where they are not those of the others."""
    gaps: tuple[Gap, ...] = ()


def gaps(capture: str, scenario: str) -> list[Gap]:
    """The gaps of a recording, later ones first by name."""
    return [gap for gap in ABOUT[capture].gaps if gap.in_scenario(scenario)]


_SDK_AGENTS: Final = {"tools": GEO}
_TOLD: Final = ("session",)
_NO_SESSION: Final = Gap("session", "", "not emitted", _TOLD)
_NO_USER: Final = Gap("user", "", "not emitted", _TOLD)
_NO_TEAM: Final = Gap("team", "", "not emitted", _TOLD)
_NO_CACHE: Final = Gap("read", 0, "not emitted: no cache tokens on the span, so that the cost is of fresh tokens")
_NO_FIRST: Final = Gap("streams", False, "no time of the first token", ("stream",))
_NO_THOUGHT: Final = Gap("thought", 0, "not emitted")
_REQUESTED: Final = Gap("model", "gpt-4o-mini", "the answering model is not emitted, only the one that was asked")
_RESPONSES: Final = Gap("model", "gpt-4o-mini", "the Responses endpoint answered with the short name", ("responses",))
_BY_PARENT: Final = (
    _NO_TEAM,
    Gap("session", "sess-42", "the span of the agent, made by hand, says so", ("tools",)),
)
_ADK: Final = (
    _NO_USER,
    _NO_TEAM,
    _NO_FIRST,
    Gap("session", "sess-42", "ADK has a session always", ("chat", "tools", "stream", "error")),
    _REQUESTED,
    Gap("finish", "stop", "Gemini's word for the end of any answer, also of one that calls tools", ("tools",)),
)


def _error(kind: str, why: str = "the library's own type") -> Gap:
    return Gap("error", f"client {kind}".strip(), why, ("error",))


_OPENAI_V2: Final = (*_BY_PARENT, _NO_CACHE, _NO_THOUGHT, _NO_FIRST)
_SILENT: Final = "not recorded"
_ONE_CALL: Final = {"session": 1}

ABOUT: Final[Mapping[str, About]] = {
    "autogen": About(
        calls=dict.fromkeys(("chat", "tools", "session", "error"), 0),
        gaps=(
            _NO_SESSION,
            _NO_USER,
            _NO_TEAM,
            Gap("hears", (), "no model spans", ("tools",)),
            Gap("does", (), "no model spans", ("tools",)),
            Gap("finish", (), "no model spans", ("tools",)),
            Gap("ran", ("get_weather", "get_weather", "convert_temp"), "arguments are not emitted", ("tools",)),
            Gap("brought", "", "results are not emitted", ("tools",)),
        ),
    ),
    "genai_openai_official": About(SERVICE, _SDK_AGENTS, gaps=(*_BY_PARENT, _RESPONSES)),
    "google_adk": About(
        gaps=(
            *_ADK,
            Gap("hears", "", "content is off"),
            Gap("hears", "", "content is off", ("error",)),
            Gap("does", "", "content is off"),
            Gap("ran", ("get_weather", "get_weather", "convert_temp"), "content is off", ("tools",)),
            Gap("brought", "", "content is off", ("tools",)),
        ),
    ),
    "google_adk_content": About(gaps=_ADK),
    "langchain_openinference": About(
        SERVICE,
        {"tools": GEO, "session": f"{SERVICE} {GEO}"},
        gaps=(
            _NO_FIRST,
            _error("OpenAIInvalidRequestError"),
            Gap("model", "gpt-4o-mini", "streams have the model that was asked", ("stream",)),
            Gap(
                "ran",
                ("get_weather ?", "get_weather ?", "convert_temp 18.5"),
                "the bare text of an only argument",
                ("tools",),
            ),
        ),
    ),
    "langfuse": About(
        SERVICE,
        _SDK_AGENTS,
        gaps=(
            _error("error", "the type is not emitted"),
            Gap("finish", "", "not emitted but of streams", ("chat", "tools", "session")),
        ),
    ),
    "langsmith": About(
        SERVICE,
        {"tools": GEO, "session": f"{SERVICE} {GEO}"},
        gaps=(_error("OpenAIInvalidRequestError", "as LangChain calls it"), _NO_FIRST),
    ),
    "litellm": About(
        SERVICE,
        calls={"session": 1, "stream": 2},
        gaps=(
            _NO_FIRST,
            _NO_SESSION,
            Gap("model", "gpt-4o-mini", "streams have the model that was asked", ("stream",)),
            Gap("ran", (), "LiteLLM runs no tools", ("tools",)),
            Gap("brought", (), "LiteLLM runs no tools", ("tools",)),
        ),
    ),
    "mlflow": About(SERVICE, _SDK_AGENTS, gaps=(_NO_SESSION, _NO_USER)),
    "ms_agent_framework": About(gaps=(_NO_SESSION, _NO_USER, _NO_TEAM, _NO_FIRST, _error("ChatClientException"))),
    "openai_agents_openllmetry": About(
        calls=_ONE_CALL,
        gaps=(
            _NO_SESSION,
            _NO_USER,
            _NO_TEAM,
            _NO_FIRST,
            Gap("model", "gpt-4o-mini", "the Responses endpoint answered with the short name"),
            Gap("model", "", "not emitted on failures", ("error",)),
            _error("error", "the type is not emitted"),
            Gap("hears", "", "not emitted on failures", ("error",)),
        ),
    ),
    "openai_agents_v2": About(
        calls=_ONE_CALL,
        gaps=(
            _NO_SESSION,
            _NO_USER,
            _NO_TEAM,
            _NO_FIRST,
            _NO_CACHE,
            _NO_THOUGHT,
            Gap("model", "gpt-4o-mini", "the Responses endpoint answered with the short name"),
            Gap("model", "", "not emitted on failures", ("error",)),
            Gap("finish", "", "not emitted"),
            Gap("hears", "", "results of tools are not in the input, so that it is not looked at"),
            _error("error", "the type is not emitted"),
            Gap("hears", "", "not emitted on failures", ("error",)),
        ),
    ),
    "openai_v2": About(SERVICE, _SDK_AGENTS, gaps=_OPENAI_V2),
    "openai_v2_events": About(SERVICE, _SDK_AGENTS, gaps=_OPENAI_V2),
    "openinference": About(
        SERVICE,
        _SDK_AGENTS,
        calls={"anthropic": 3},
        gaps=(
            _RESPONSES,
            Gap("finish", ("stop", "tool_calls", "stop"), "the second request had a tool", ("anthropic",)),
            Gap("does", ("answer", "get_weather Paris", "answer"), "the second request had a tool", ("anthropic",)),
        ),
    ),
    "openllmetry": About(
        SERVICE,
        _SDK_AGENTS,
        calls={"anthropic": 2},
        gaps=(
            _RESPONSES,
            _NO_THOUGHT._replace(scenarios=("stream",)),
            Gap("finish", ("stop", "tool_calls"), "the second request had a tool", ("anthropic",)),
            Gap("does", ("answer", "get_weather Paris"), "the second request had a tool", ("anthropic",)),
        ),
    ),
    "pydantic_ai": About(
        gaps=(
            Gap(
                "session",
                "uuid",
                "Pydantic AI makes an id of its own",
                ("chat", "tools", "stream", "error", "anthropic"),
            ),
            _error("ModelRequestRejectedError"),
            Gap("hears", "", "not emitted on failures", ("error",)),
        ),
    ),
    "strands": About(gaps=(_REQUESTED, _NO_THOUGHT)),
    "strands_latest": About(gaps=(_REQUESTED, _NO_THOUGHT)),
    "vercel_ai_v6": About(calls=_ONE_CALL, gaps=(_error("AI_APICallError"),)),
    "vercel_ai_v7_genai": About(
        calls=_ONE_CALL, gaps=(_NO_SESSION, _NO_USER, _NO_TEAM, _NO_THOUGHT, _error("AI_APICallError"))
    ),
}
