"""OpenTelemetry's GenAI semantic conventions, current and as they were: what every dialect has unless it says otherwise."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import Dialect

GENAI: Final = Dialect(name="genai")
