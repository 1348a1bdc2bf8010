"""CrewAI reads its environment when it is imported: it asks nobody anything, and sends nothing to its makers."""

from __future__ import annotations

import os

for name in ("CREWAI_TESTING", "CREWAI_DISABLE_TELEMETRY", "CREWAI_DISABLE_TRACKING", "OTEL_SDK_DISABLED"):
    os.environ[name] = "true"
