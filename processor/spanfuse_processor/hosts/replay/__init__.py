"""The replay host: the core on recorded traffic, in memory of its own, without side effects and without a clock.

Read `run` first: a source (`sources`) is read once into packed calls (`ingest`, `spool`), in lanes that have nothing to do with
one another; each lane goes through the first stage of the core (`sessions`) in some process (`processes`); what all lanes add
up to goes through the second one (`scopes`), in one order, and becomes one report (`together`, `report`).
"""

from spanfuse_processor.hosts.replay.ingest import calls_of, spools_of
from spanfuse_processor.hosts.replay.record import record
from spanfuse_processor.hosts.replay.report import Report, SessionReport
from spanfuse_processor.hosts.replay.run import replay_calls
from spanfuse_processor.hosts.replay.sources import Files, Progress, Source, TopicRange, cores
from spanfuse_processor.hosts.replay.spool import Spool

__all__ = [
    "Files",
    "Progress",
    "Report",
    "SessionReport",
    "Source",
    "Spool",
    "TopicRange",
    "calls_of",
    "cores",
    "record",
    "replay_calls",
    "spools_of",
]
