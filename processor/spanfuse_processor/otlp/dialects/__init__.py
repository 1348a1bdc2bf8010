"""The dialects that spans speak. To add one: write its file, put its row here, where the more specific comes first."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.detect import Detector
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.dialects.genai import GENAI
from spanfuse_processor.otlp.dialects.openinference import OPENINFERENCE
from spanfuse_processor.otlp.dialects.openllmetry import OPENLLMETRY

DIALECTS: Final[tuple[Dialect, ...]] = (
    OPENINFERENCE,
    OPENLLMETRY,
    GENAI,
)

dialect_of: Final = Detector(DIALECTS, GENAI)
"""Which dialect a span speaks; the plain conventions where none knows it."""
