"""Providers and models under one name each."""

from __future__ import annotations

import re
from typing import Final

from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import name

_ALIASES: Final = {
    "xai": "x_ai",
    "x_ai": "x_ai",
    "az.ai.openai": "azure.ai.openai",
    "azure": "azure.ai.openai",
    "azure_openai": "azure.ai.openai",
    "az.ai.inference": "azure.ai.inference",
    "azure_ai": "azure.ai.inference",
    "vertex_ai": "gcp.vertex_ai",
    "vertexai": "gcp.vertex_ai",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google_genai": "gcp.gemini",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "bedrock": "aws.bedrock",
    "aws_bedrock": "aws.bedrock",
    "aws": "aws.bedrock",
    "amazon_bedrock": "aws.bedrock",
    "google.generative_ai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "google.vertex": "gcp.vertex_ai",
}
"""Names in use → the names of the OpenTelemetry conventions."""

_SURFACE: Final = re.compile(r"\.(?:chat|completion|responses|messages|embedding|image)\Z|\.textembeddingmodel\Z")
"""What the Vercel AI SDK puts behind a provider: which of its interfaces was used."""

_FRAMEWORKS: Final = frozenset(
    {
        "strands-agents",
        "autogen",
        "langchain",
        "langgraph",
        "gcp.vertex.agent",
        "microsoft.agent_framework",
        "crewai",
        "litellm",
        "unknown",
        "_other",
    }
)
"""Frameworks that put themselves in the provider's place."""

_BY_MODEL: Final = (
    (("gpt-", "o1", "o3", "o4", "chatgpt", "text-embedding-", "davinci"), "openai"),
    (("claude",), "anthropic"),
    (("gemini",), "gcp.gemini"),
    (("mistral", "ministral", "magistral", "codestral", "devstral"), "mistral_ai"),
    (("grok",), "x_ai"),
    (("deepseek",), "deepseek"),
    (("command-",), "cohere"),
)
"""Beginnings of model names → provider, where none is stated."""

_PREFIXES: Final = frozenset(
    {"openai", "anthropic", "azure", "gemini", "vertex_ai", "bedrock", "mistral", "xai", "models"}
)
_RESELLERS: Final = frozenset(
    {"openrouter", "together", "together_ai", "fireworks", "fireworks_ai", "huggingface", "groq"}
)
"""Providers whose own model names hold a maker's name and a slash."""


def provider_and_model(span: Span, dialect: Dialect) -> tuple[str, str]:
    """Provider under its OpenTelemetry name, and the model that answered, else the one that was asked."""
    attributes = span.attributes
    provider = _SURFACE.sub("", name(attributes, dialect.provider).lower().partition(" ")[0])
    model = name(attributes, dialect.response_model) or name(attributes, dialect.request_model)
    provider = "" if provider in _FRAMEWORKS else _ALIASES.get(provider.replace("-", "_"), provider)
    prefix, slash, rest = model.partition("/")
    if slash and provider not in _RESELLERS and prefix.lower() in _PREFIXES:
        model = rest
        provider = provider or ("" if prefix == "models" else _ALIASES.get(prefix.lower(), prefix.lower()))
    return provider or _by_model(model.lower()), model


def _by_model(model: str) -> str:
    return next((provider for starts, provider in _BY_MODEL if model.startswith(starts)), "")
