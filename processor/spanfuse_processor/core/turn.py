"""What one call means to its session: the step it completes, and whether the agent started over."""

from __future__ import annotations

from typing import Literal, NamedTuple

from spanfuse_processor.core.rules import RuleBook
from spanfuse_processor.core.session import MAX_LANES, PromptRun, SessionState
from spanfuse_processor.core.steps import Step, Steps, mix
from spanfuse_schemas import Call, Fingerprint, Message, Rules
from spanfuse_schemas.fingerprint import alike, input_print
from spanfuse_schemas.policy import Near


class Turn(NamedTuple):
    """A call as the rules see it."""

    call: Call
    rules: Rules
    """The settings for the call's agent and team, and the step's tool."""
    step: Step | None = None
    """The step that this call completed; none for failed calls, and where there is nothing to compare."""
    run: PromptRun | None = None
    """The lane's run of equal prompts, which this call has extended or begun; none where it says nothing of prompts."""
    pending: int = 0
    """Canonical hash of the tool calls this call issued; 0: none, or unknown. Their observation comes with the next call."""
    pending_rules: Rules | None = None
    """The settings for the tool of `pending`."""


def number(text: str) -> int:
    """A hash in hex as an integer; 0 for none."""
    return int(text, 16) if text else 0


def hexed(value: int) -> str:
    """The inverse of `number`."""
    return f"{value:016x}" if value else ""


def fold(session: SessionState, call: Call, book: RuleBook) -> Turn:
    """Bring a call into the session's step model."""
    agent, team = call.agent, call.team
    if call.kind == "tool":
        step = _tool_step(session, call)
        return Turn(call, book.of(agent, team, step.tool if step else ""), step)
    if call.error_type or call.operation == "embeddings" or call.content == "structure":
        return Turn(call, book.of(agent, team))
    step = _turn_step(session, call) if call.prior else _prompt_step(session, call)
    rules = book.of(agent, team, step.tool if step else "")
    run = _extend_run(session, call, rules.near)
    acted = call.action
    if acted is None or not acted.canon or not (tool := call.actions[0].tool):
        return Turn(call, rules, step, run)
    return Turn(
        call, rules, step, run, int(acted.canon, 16), book.of(agent, team, tool if len(call.actions) == 1 else "")
    )


def _tool_step(session: SessionState, call: Call) -> Step | None:
    """A tool span that shows arguments and result is a step; parallel siblings are one step together."""
    action = call.action
    if action is None or not action.canon or call.output is None:
        return None
    tool = call.actions[0].tool
    session.open_tools = [*session.open_tools[-15:], tool]
    result = input_print((Message(role="tool", print=call.output),)) or call.output
    step = _step("tool", session, call, action, result, tool, bool(call.error_type))
    last = session.steps.last
    if last and last.kind == "tool" and last.parent == step.parent and call.start_ns < last.end_ns:
        step = _joined(session, call.agent, last, step)
    return _append(session, call.agent, step)


def _joined(session: SessionState, agent: str, last: Step, sibling: Step) -> Step:
    """Take the last step back and give it together with its sibling, in an order that does not depend on arrival."""
    session.steps.drop_last()
    if last.canon and not session.steps.count(last.canon):
        lane(session, agent).novel -= 1
    return last._replace(
        exact=(last.exact + sibling.exact) % 2**64 if last.exact and sibling.exact else 0,
        canon=(last.canon + sibling.canon) % 2**64 if last.canon and sibling.canon else 0,
        action_exact=(last.action_exact + sibling.action_exact) % 2**64,
        action=(last.action + sibling.action) % 2**64,
        observation=(last.observation + sibling.observation) % 2**64,
        tool="",
        near=0,
        error=last.error and sibling.error,
        span_id=sibling.span_id,
        end_ns=max(last.end_ns, sibling.end_ns),
    )


def _turn_step(session: SessionState, call: Call) -> Step | None:
    """The action that the last assistant message took, and what came back."""
    tools = [a.tool for a in call.prior if a.tool]
    if session.open_tools and tools and _restated(session, tools):
        return None
    action = call.answers
    if action is None or call.input is None:
        return None
    messages = call.messages
    failed = bool(messages) and all(m.error for m in messages)
    step = _step(
        "turn",
        session,
        call,
        action,
        call.input,
        tools[0] if len(tools) == 1 else "",
        failed,
        bool(messages) and messages[0].restates,
    )
    return None if _is_sibling(session.steps, call, step) else _append(session, call.agent, step)


def _restated(session: SessionState, tools: list[str]) -> bool:
    """Whether tool spans have told of these tool calls already; if so, they are told off."""
    seen = list(session.open_tools)
    for tool in tools:
        if tool not in seen:
            return False
        seen.remove(tool)
    session.open_tools = seen
    return True


def _prompt_step(session: SessionState, call: Call) -> Step | None:
    """The agent starts over: the prompt is all there is."""
    if call.input is None:
        return None
    step = _step("prompt", session, call, call.input, call.input, "", False)
    if _is_sibling(session.prompts, call, step):
        return None
    session.prompts.append(step)
    return step


def _is_sibling(steps: Steps, call: Call, step: Step) -> bool:
    """The same request in parallel with the last one is the same step (best of n, a fan-out)."""
    last = steps.last
    return last is not None and last.canon == step.canon != 0 and call.start_ns < last.end_ns


def _step(
    kind: Literal["prompt", "turn", "tool"],
    session: SessionState,
    call: Call,
    action: Fingerprint,
    observation: Fingerprint,
    tool: str,
    error: bool,
    restated: bool = False,
) -> Step:
    act, obs = number(action.canon), number(observation.canon)
    act_exact = number(action.exact)
    return Step(
        kind,
        mix(act_exact, number(observation.exact)),
        mix(act, obs),
        act_exact,
        act,
        obs,
        int(action.near, 16) if action.near else 0,
        action.size,
        tool,
        error,
        restated,
        int(call.span_id, 16),
        number(call.parent_span_id),
        call.end_ns,
        session.cost_nano_usd - call.cost_nano_usd,
    )


def _append(session: SessionState, agent: str, step: Step) -> Step:
    steps = session.steps
    steps.append(step)
    if not step.canon or steps.count(step.canon) == 1:
        lane(session, agent).novel += 1
    return step


def _extend_run(session: SessionState, call: Call, near: Near) -> PromptRun | None:
    """Count the same new input in a row, as long as neither the history grows nor anything new was observed."""
    new = call.input
    if new is None or not new.canon:
        return None
    run = lane(session, call.agent)
    canon = number(new.canon)
    same = canon == run.canon or (
        run.near != 0 and near.mode != "off" and alike(hexed(run.near), run.size, new.near, new.size, near.max_distance)
    )
    if same and call.start_ns < run.end_ns:
        return None  # siblings in parallel ask once
    if same and call.history <= run.history and run.novel == run.novel_before:
        run.count += 1
        run.exact_count = run.exact_count + 1 if number(new.exact) == run.exact else 1
    else:
        run.count = run.exact_count = 1
        run.span_id, run.since_ns = number(call.span_id), call.end_ns
        run.spent = session.cost_nano_usd - call.cost_nano_usd
    run.exact, run.canon, run.near, run.size = number(new.exact), canon, number(new.near), new.size
    run.history, run.end_ns, run.novel_before = call.history, call.end_ns, run.novel
    return run


def alike_actions(a: Step, b: Step, max_distance: int) -> bool:
    """Whether two steps brought the same observation by actions whose long texts are near; never if `max_distance` < 0."""
    return (
        max_distance >= 0
        and a.observation == b.observation != 0
        and alike(hexed(a.near), a.near_size, hexed(b.near), b.near_size, max_distance)
    )


def lane(session: SessionState, agent: str) -> PromptRun:
    """The agent's lane; the one that was silent longest makes room for a ninth."""
    lanes = session.lanes
    run = lanes.pop(agent, None)
    if run is None:
        run = PromptRun()
        if len(lanes) >= MAX_LANES:
            del lanes[next(iter(lanes))]
    lanes[agent] = run
    return run
