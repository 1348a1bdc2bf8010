"""What the processor says of itself: counts, metrics, traces of its own work, and logs.

Read `catalogue.py` first: everything that is measured stands there. What is heavy, OpenTelemetry's SDK, is imported by
`meters`, `traces` and `export` alone, and these by hosts that are told to use it.
"""

from spanfuse_processor.telemetry.counters import COUNTERS, DETECTIONS_SCOPE, FAMILIES, OWN_SCOPES, REJECTED, Counters

__all__ = ["COUNTERS", "DETECTIONS_SCOPE", "FAMILIES", "OWN_SCOPES", "REJECTED", "Counters"]
