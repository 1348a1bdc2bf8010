"""The dialects that spans speak. To add one: write its file, put its row here, where the more specific comes first."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.dialects.genai import GENAI
from spanfuse_processor.otlp.dialects.openinference import OPENINFERENCE
from spanfuse_processor.otlp.dialects.openllmetry import OPENLLMETRY
from spanfuse_processor.otlp.span import Span

DIALECTS: Final[tuple[Dialect, ...]] = (
    OPENINFERENCE,
    OPENLLMETRY,
    GENAI,
)


def dialect_of(span: Span) -> Dialect:
    """The first dialect that knows a span as its own, else the plain conventions."""
    return next((dialect for dialect in DIALECTS if dialect.detect(span)), GENAI)
