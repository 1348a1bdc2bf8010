"""The dialects that spans speak. To add one: write its file, put its row here, where the more specific comes first."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.anthropic_sdk import ANTHROPIC_SDK
from spanfuse_processor.otlp.dialects.claude_code import CLAUDE_CODE
from spanfuse_processor.otlp.dialects.detect import Detector
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.dialects.genai import GENAI
from spanfuse_processor.otlp.dialects.google_adk import GOOGLE_ADK
from spanfuse_processor.otlp.dialects.langfuse import LANGFUSE
from spanfuse_processor.otlp.dialects.langsmith import LANGSMITH
from spanfuse_processor.otlp.dialects.litellm import LITELLM
from spanfuse_processor.otlp.dialects.logfire import LOGFIRE
from spanfuse_processor.otlp.dialects.microsoft import AGENT_FRAMEWORK, AUTOGEN, SEMANTIC_KERNEL
from spanfuse_processor.otlp.dialects.mlflow import MLFLOW
from spanfuse_processor.otlp.dialects.openai_agents import OPENAI_AGENTS
from spanfuse_processor.otlp.dialects.openinference import OPENINFERENCE
from spanfuse_processor.otlp.dialects.openllmetry import OPENLLMETRY
from spanfuse_processor.otlp.dialects.pydantic_ai import PYDANTIC_AI
from spanfuse_processor.otlp.dialects.strands import STRANDS
from spanfuse_processor.otlp.dialects.vercel import VERCEL, VERCEL_GENAI

DIALECTS: Final[tuple[Dialect, ...]] = (
    OPENINFERENCE,
    LANGFUSE,
    LANGSMITH,
    VERCEL,
    VERCEL_GENAI,
    MLFLOW,
    LITELLM,
    PYDANTIC_AI,
    LOGFIRE,
    STRANDS,
    GOOGLE_ADK,
    OPENAI_AGENTS,
    AUTOGEN,
    SEMANTIC_KERNEL,
    AGENT_FRAMEWORK,
    ANTHROPIC_SDK,
    CLAUDE_CODE,
    OPENLLMETRY,
    GENAI,
)

dialect_of: Final = Detector(DIALECTS, GENAI)
"""Which dialect a span speaks; the plain conventions where none knows it."""
