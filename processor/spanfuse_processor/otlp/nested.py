"""One model call that several spans of a request tell of: counted once, with the best of each."""

from __future__ import annotations

from collections.abc import Sequence

from spanfuse_processor.otlp import pairs
from spanfuse_processor.otlp.candidates import Candidate, merged, shows
from spanfuse_processor.otlp.traces import Traces


def seen_once(candidates: Sequence[Candidate], traces: Traces) -> tuple[dict[int, Candidate], dict[int, int]]:
    """The candidates that count, by their place, and for each of the others the place of the one that it repeats.

    Only the innermost model span is a model call: one that holds others repeats them, whatever is between them but an agent or
    a tool. Spans with the same response id are one call if they come from different instrumentations and overlap, and so are
    failures, which often have none, if one encloses the other; spans that differ in their id alone are one span recorded twice.
    """
    kept: dict[int, Candidate] = dict(enumerate(candidates))
    repeats: dict[int, int] = {}
    if sum(c.call.kind == "llm" for c in candidates) > 1:
        within = dict.fromkeys(pairs.within(candidates, traces))
        sums = {outer for outer, _, merges in within if not merges}  # they are none of the calls that they hold
        found = [
            *pairs.twins(candidates),
            *pairs.again(candidates),
            *within,
            *pairs.beside(candidates, sums),
            *pairs.unnamed(candidates),
        ]
        for first, second, merges in found:
            gone, stays = _last(repeats, first), _last(repeats, second)
            if (first, second, merges) not in within:
                if gone != first or (second in sums and stays != second):
                    continue  # it went for one that is nearer, or the other tells of several
            elif gone != first and (first in sums or shows(kept[gone].call) > shows(kept[stays].call)):
                gone, stays = stays, gone  # it went for one that shows more than this one, too
            if gone != stays:
                repeated = kept.pop(gone)
                repeats[gone] = stays
                if first in sums:
                    sums.add(gone)
                elif merges:
                    kept[stays] = merged(kept[stays], repeated)
    return kept, {gone: _last(repeats, gone) for gone in repeats}


def _last(repeats: dict[int, int], place: int) -> int:
    while place in repeats:
        place = repeats[place]
    return place
