"""Detections as telemetry: each leaves as a log record, and as a span of the trace in which it was made."""
