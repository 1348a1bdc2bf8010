"""repeat.prompt, near.prompt: the agent starts over with the same prompt.

The same new input in a row, while the history does not grow and nothing new was observed in between. Failed calls do not
count (retrying them is right), nor do the same request's parallel siblings.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence, gently
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn, hexed
from spanfuse_schemas import LoopPrint


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Judge the lane's run of equal prompts."""
    run, call = turn.run, turn.call
    if run is None or run.count < 2:
        return None
    rules = turn.rules
    rule = rules.repeat_prompt
    exact = run.exact_count >= rule.count
    mode = rule.mode if exact else rules.near.mode
    if mode == "off" or run.count < rule.count:
        return None
    kind = "same" if exact else "all but the same"
    waits = not run.hurried and run.count < rule.wait_count
    near = hexed(run.near) if rules.near.max_distance and not exact else ""
    return Finding(
        rule="repeat.prompt" if exact else "near.prompt",
        mode=mode,
        action=gently(action_of(mode)) if waits else action_of(mode),
        message=f"The {kind} prompt was sent {run.count} times and nothing was done with the answers. Use what was "
        "answered, or change the question.",
        evidence=evidence(
            session,
            call,
            (run.span_id, run.since_ns, run.spent),
            count=run.count,
            threshold=rule.count,
            unit="repeats",
        ),
        loop=(LoopPrint(canon=hexed(run.canon), near=near, size=run.size if near else 0),),
        max_distance=rules.near.max_distance,
    )
