"""Whether a call was made beside another."""

from __future__ import annotations

from typing import Final

from spanfuse_schemas import Call

_MS_NS: Final = 1_000_000


def began_before(call: Call, end_ns: int) -> bool:
    """Whether a call began before something else ended.

    OpenTelemetry for JavaScript starts a span on the whole millisecond that `Date.now()` says, and ends it by a finer clock. A
    start on a whole millisecond may have been as late as that one's end: a call that follows the last at once is not beside it.

    Args:
        end_ns: when the other ended, nanoseconds since the Unix epoch.
    """
    return call.start_ns + (0 if call.start_ns % _MS_NS else _MS_NS - 1) < end_ns
