"""Calls into the state: all of a batch at once, or, where that fails, session by session."""

from __future__ import annotations

import logging
import time
from collections import defaultdict

from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.workspace import Workspace, told
from spanfuse_schemas import Alias, Call, CallBatch
from spanfuse_schemas.guard_report import GuardReport

log = logging.getLogger(__name__)


class Applier:
    """Applies batches.

    Args:
        work: the state that they change.
    """

    def __init__(self, work: Workspace) -> None:
        self._work = work

    def apply(self, batch: CallBatch, counts: dict[str, int], received_ns: int) -> None:
        """Apply a batch, and store what it leads to.

        Args:
            counts: what is added to the counters for it, besides.

        Raises:
            UnavailableError: the storage failed; the caller rolls back.
            Exception: no session of it could be applied.
        """
        try:
            self._apply_together(batch, counts, received_ns)
        except UnavailableError:
            raise
        except Exception:
            self._work.rolled_back()
            self._apply_apart(batch, counts, received_ns)

    def _apply_together(self, batch: CallBatch, counts: dict[str, int], received_ns: int) -> None:
        began_s, recorder = time.perf_counter(), self._work.recorder
        with recorder.traces.work("spanfuse.apply") as work:
            first = self._work.process(batch)
            second = self._work.stage.process(first.charges, self._work.scopes.load)
            self._work.commit(first, second, counts | first.counts() | told(first, second), received_ns)
            work.tell(attributes={"spanfuse.calls": first.counted, "spanfuse.decisions": len(first.decisions)})
            if not batch.calls:
                work.drop()
        recorder.step("detect", began_s, batch.calls)
        recorder.published((*first.decisions, *second.decisions))

    def _apply_apart(self, batch: CallBatch, counts: dict[str, int], received_ns: int) -> None:
        """One that cannot be applied or stored costs none of the others."""
        parts = _by_session(batch)
        failures: list[Exception] = []
        unapplied = 0
        for part in parts:
            try:
                self._apply_together(part, {}, received_ns)
            except UnavailableError:
                raise
            except Exception as error:
                self._work.rolled_back()
                failures.append(error)
                unapplied += len(part.calls)
        if failures and len(failures) == len(parts):
            raise failures[0]
        if failures:
            if not self._work.counters["unapplied_calls"]:
                log.error("calls of a session cannot be applied; such are left out and counted", exc_info=failures[0])
            counts = counts | {"unapplied_calls": unapplied}
        self._work.commit(Outcome(), ScopeOutcome(), counts, received_ns)


def part_of(
    calls: tuple[Call, ...], aliases: tuple[Alias, ...] = (), reports: tuple[GuardReport, ...] = ()
) -> CallBatch:
    """A part of a batch."""
    return CallBatch.model_construct(calls=calls, aliases=aliases, reports=reports)


def _by_session(batch: CallBatch) -> list[CallBatch]:
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for call in batch.calls:
        calls[call.session].append(call)
    aliases: defaultdict[str, list[Alias]] = defaultdict(list)
    for alias in batch.aliases:
        aliases[alias.session].append(alias)
    parts = [part_of(tuple(calls[session]), tuple(aliases[session])) for session in {**calls, **aliases}]
    return [*parts, *(part_of((), (), (report,)) for report in batch.reports)]
