"""What the read model of an embedded host shows."""

from __future__ import annotations

import asyncio

from spanfuse_processor.exporters.readmodel.model import DetectionQuery
from spanfuse_processor.hosts.store import Store
from spanfuse_schemas import Detection


def detections(store: Store, limit: int = 99) -> list[Detection]:
    """The last detections, newest first."""
    return list(asyncio.run(store.shown.detections(DetectionQuery(limit=limit))).detections)
