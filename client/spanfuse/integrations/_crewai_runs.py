"""CrewAI: the run at hand, and how a refusal passes the loops, which try again after any error but `HookAborted`."""

from __future__ import annotations

import functools
from typing import Any

try:
    from crewai import hooks
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra crewai: pip install 'spanfuse[crewai]'") from error

from spanfuse.blocked import Blocked
from spanfuse.integrations._names import otherwise

try:
    from crewai.execution import get_execution_uuid
except ImportError:  # its runs have no names
    get_execution_uuid = None


def whose(task: Any, agent: Any) -> dict[str, Any]:
    """Whose call is made: of the run, else of the task since it was begun."""
    run = get_execution_uuid() if get_execution_uuid is not None else None
    if run is None and task is not None:
        run = f"{task.id}:{getattr(task, 'start_time', None)}"
    return otherwise(run, getattr(agent, "role", None))


def stop(refusal: Blocked) -> Blocked:
    """The refusal as one that CrewAI lets through at once; before it knew `HookAborted`, as it is."""
    aborted = getattr(hooks, "HookAborted", None)
    if aborted is None or isinstance(refusal, aborted):
        return refusal
    kind: Any = type(refusal)
    stopped: Blocked = _kind(kind, aborted)(refusal.decision)
    return stopped


@functools.cache
def _kind(refused: type[Blocked], aborted: type[Exception]) -> Any:
    """A class that is both. It is pickled as what it was."""

    def __init__(self: Any, decision: Any) -> None:
        refused.__init__(self, decision)
        self.reason, self.source = str(self), "spanfuse"

    return type(
        refused.__name__,
        (refused, aborted),
        {
            "__init__": __init__,
            "__reduce__": lambda self: (refused, (self.decision,)),
            "__module__": refused.__module__,
            "__doc__": refused.__doc__,
        },
    )
