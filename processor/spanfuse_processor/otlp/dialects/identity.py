"""Whose call a span is: keys of session, user, team and agent, whichever dialect the span speaks.

They are read on spans of every dialect, since users and their span processors set them on any.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.values import JsonKey, Keys, attributes_of


def _under(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in names)


def _within(attribute: str, *names: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey(attribute, name) for name in names)


_TRACELOOP: Final = "traceloop.association.properties."
_LANGSMITH: Final = "langsmith.metadata."
_LANGFUSE: Final = "langfuse.trace.metadata."
_OBSERVED: Final = "langfuse.observation.metadata."
_OLD_VERCEL: Final = "ai.telemetry.metadata."
_VERCEL: Final = "ai.settings.context."
_LITELLM: Final = "metadata.requester_metadata"
"""What a client of LiteLLM's proxy sent beside its request."""
_PARAMETERS: Final = "llm.invocation_parameters"
"""What a client of OpenAI or LiteLLM sent with its request, as OpenInference has it."""

SESSION: Final[Keys] = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    *_under(_OBSERVED, "langfuse_session_id", "session_id", "thread_id"),
    *_under(_TRACELOOP, "session_id", "conversation_id", "chat_id", "thread_id", "session.id"),
    *_under(_LANGSMITH, "session_id", "conversation_id", "thread_id"),
    *_under(_OLD_VERCEL, "sessionId", "session_id", "conversationId", "chatId", "threadId", "thread_id"),
    *_under(_VERCEL, "sessionId", "session_id", "conversationId", "chatId", "threadId", "thread_id"),
    "gcp.vertex.agent.session_id",
    "anthropic.session.id",
    "mlflow.trace.session",
    *_within("metadata", "session_id", "thread_id", "conversation_id"),
    JsonKey(_LITELLM, "session_id"),
    *_within(_PARAMETERS, "metadata.session_id", "litellm_session_id"),
)
USER: Final[Keys] = (
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    *_under(_OBSERVED, "langfuse_user_id", "user_id"),
    *_under(_TRACELOOP, "user_id", "customer_id", "user.id"),
    _LANGSMITH + "user_id",
    *_under(_OLD_VERCEL, "userId", "user_id"),
    *_under(_VERCEL, "userId", "user_id"),
    "mlflow.trace.user",
    "llm.user",
    "gen_ai.user",
    "gen_ai.request.user",
    *_under("metadata.user_api_key_", "end_user_id", "user_id", "user_email"),
    JsonKey("metadata", "user_id"),
    JsonKey(_LITELLM, "user_id"),
    *_within(_PARAMETERS, "user", "metadata.user_id", "metadata.trace_user_id"),
)
TEAM: Final[Keys] = (
    "spanfuse.team",
    "team.id",
    "team.name",
    "team",
    *_under("metadata.user_api_key_", "team_alias", "team_id"),
    *_under(_TRACELOOP, "team", "team_id"),
    *_under(_LANGFUSE, "team", "team_id"),
    *_under(_OBSERVED, "team", "team_id"),
    *_under(_LANGSMITH, "team", "team_id"),
    *_under(_OLD_VERCEL, "team", "teamId"),
    *_under(_VERCEL, "team", "teamId"),
    "mlflow.traceTag.team",
    *_within("metadata", "team", "team_id"),
    *_within(_LITELLM, "team", "team_id"),
    "metadata.team_alias",
    "metadata.team_id",
    *_within(_PARAMETERS, "metadata.team", "metadata.team_id"),
)
AGENT: Final[Keys] = (
    "gen_ai.agent.name",
    "agent.name",
    "agent_name",
    _LANGSMITH + "lc_agent_name",
    _OBSERVED + "lc_agent_name",
    JsonKey("metadata", "lc_agent_name"),
    "ai.telemetry.functionId",
)

NO_NAMES: Final = frozenset({"agent", "LangGraph", "RunnableSequence", "AgentExecutor", "Task._execute_core"})
"""What LangChain and CrewAI call an agent that nobody named: agents of many services, which are not to share their limits."""

MADE_UP: Final[Keys] = ("gen_ai.conversation.id",)
"""What some libraries fill in where nobody named the session."""
ATTRIBUTES: Final = frozenset(attributes_of((*SESSION, *USER, *TEAM)))
"""Without any of these a span says nothing of session, user and team."""


def named(agent: str) -> str:
    """The name of an agent, if it is one."""
    return "" if agent in NO_NAMES else agent
