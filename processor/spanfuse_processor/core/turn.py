"""What one call means to its session: the step it completes, and whether the agent started over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from zlib import crc32

from spanfuse_processor.core.overlap import began_before
from spanfuse_processor.core.rules import RuleBook
from spanfuse_processor.core.session import MAX_LANES, MAX_OPEN_TOOLS, PromptRun, SessionState
from spanfuse_processor.core.steps import MASK, Step, Steps, mix
from spanfuse_schemas import Call, Fingerprint, Message, Rules
from spanfuse_schemas.fingerprint import alike, input_print
from spanfuse_schemas.policy import Near

NOTHING: Final = Fingerprint(exact="0" * 15 + "1", canon="0" * 15 + "1")
"""What an agent observes that is called again with nothing after its own last message."""


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
    pending_wording: bytes = b""
    """Words in the arguments of a single one; empty: unknown."""
    pending_rules: Rules | None = None
    """The settings for the tool of `pending`."""
    again: bool = False
    """A tool span that tells of an execution which another span has told of."""


def number(text: str) -> int:
    """A hash in hex as an integer; 0 for none."""
    return int(text, 16) if text else 0


def hashes(found: Fingerprint) -> tuple[int, int]:
    """Exact and canonical hash as integers; 0 for an unknown identity."""
    canon = found.canon
    if not canon:
        return 0, 0
    exact, number = found[:16], int(canon, 16)
    return (number if exact == canon else int(exact, 16)), number


@lru_cache(maxsize=1024)
def agent_hash(name: str) -> int:
    """32 bits that stand for an agent."""
    return crc32(name.encode("utf-8", "surrogatepass"))


def hexed(value: int) -> str:
    """The inverse of `number`."""
    return f"{value:016x}" if value else ""


def fold(session: SessionState, call: Call, book: RuleBook) -> Turn:
    """Bring a call into the session's step model."""
    agent, team = call.agent, call.team
    if call.progress is not None and call.progress > session.progress:
        session.progress = call.progress
        session.steps.clear()  # it says that it gets on: what it did so far is no row with what it does now
        session.prompts.clear()
        session.lanes.clear()
    if call.kind == "tool":
        step, again = _tool_step(session, call, book)
        return Turn(call, book.of(agent, team, step.tool if step else ""), step, again=again)
    if call.error_type or call.operation == "embeddings" or call.content == "structure":
        return Turn(call, book.of(agent, team))
    step = _turn_step(session, call, book) if call.answers is not None else _prompt_step(session, call)
    rules = book.of(agent, team, step.tool if step else "")
    run = _extend_run(session, call, rules)
    called = call.called
    pending = number(call.action.canon) if called and call.action is not None else 0
    if not pending:
        return Turn(call, rules, step, run)
    tool = called[0] if len(called) == 1 else ""
    return Turn(call, rules, step, run, pending, bytes.fromhex(call.asks), book.of(agent, team, tool))


def _tool_step(session: SessionState, call: Call, book: RuleBook) -> tuple[Step | None, bool]:
    """A tool span that shows arguments and result is a step; parallel siblings are one step together.

    Returns:
        The step, and whether the span tells of an execution that another span has told of.
    """
    action = call.action
    if action is None or not action.canon or (call.output is None and _told_by_turns(session.steps)):
        return None, False
    tool = call.called[0] if call.called else ""
    output = call.output or Fingerprint()
    result = input_print((Message(role="tool", print=output),)) or output
    step = _step("tool", session, call, action, result, tool, bool(call.error_type))
    if _told_before(session.steps, step):
        return None, True
    if call.output is not None:
        session.open_tools = [*session.open_tools[1 - MAX_OPEN_TOOLS :], (call.agent, tool)]
    if _exempt(call, (tool,), book):
        return None, False
    last = session.steps.last
    if last and last.kind == "tool" and last.parent == step.parent and _overlap(last, call):
        step = _joined(session, call.agent, last, step)
    return _append(session, call.agent, step), False


def _told_by_turns(steps: Steps) -> bool:
    """Whether model calls tell what tools bring, so that a span without a result adds nothing."""
    return any(step.kind == "turn" for step in steps.ring)


def _exempt(call: Call, tools: Sequence[str], book: RuleBook) -> bool:
    """Whether asking again is these tools' work: then what they do is no step to any rule."""
    return book.exempts and all(book.of(call.agent, call.team, tool).repeat_no_progress.exempt for tool in tools)


def _told_before(steps: Steps, step: Step) -> bool:
    """Whether a span inside this one has told of the same execution (two instrumentations), or a model call that came after
    it and arrived before it."""
    last = steps.last
    if last is not None and last.kind == "tool" and last.parent == step.span_id and last.action == step.action:
        return True
    return step.action in steps.actions and any(
        s.kind == "turn" and s.action == step.action and s.end_ns > step.end_ns for s in steps.ring
    )


def _joined(session: SessionState, agent: str, last: Step, sibling: Step) -> Step:
    """Take the last step back and give it together with its sibling, in an order that does not depend on arrival."""
    session.steps.drop_last()
    if last.novel:
        lane(session, agent).novel -= 1
    canon = (last.canon + sibling.canon) & MASK if last.canon and sibling.canon else 0
    return last._replace(
        exact=(last.exact + sibling.exact) & MASK if last.exact and sibling.exact else 0,
        canon=canon,
        novel=not canon or canon not in session.steps.canons,
        action_exact=(last.action_exact + sibling.action_exact) & MASK,
        action=(last.action + sibling.action) & MASK,
        observation=0,
        tool="",
        error=last.error and sibling.error,
        size=last.size + sibling.size,
        wording=b"",
        fields=b"",
        meaning=0,
        echo=last.echo and sibling.echo,
        span_id=sibling.span_id,
        start_ns=max(last.start_ns, sibling.start_ns),
        end_ns=max(last.end_ns, sibling.end_ns),
    )


def _turn_step(session: SessionState, call: Call, book: RuleBook) -> Step | None:
    """The action that the last assistant message took, and what came back."""
    action, tools = call.answers, call.answered
    restated = bool(session.open_tools and tools) and _restated(session, call.agent, tools)
    if restated or action is None:
        return None
    if tools and _exempt(call, tools, book):
        return None
    tool = tools[0] if len(tools) == 1 else ""
    step = _step("turn", session, call, action, call.input or NOTHING, tool, call.failed, call.restates)
    if _is_sibling(session.steps, call, step):
        return None
    if (
        not tools
        and step.novel
        and not call.failed
        and any(s.tool and s.agent == step.agent for s in session.steps.ring)
    ):
        session.pages = None
        session.steps.forget(step.agent)  # asked something new: what it did for the last question is no row with that
    return _append(session, call.agent, step)


def _restated(session: SessionState, agent: str, tools: Sequence[str]) -> bool:
    """Whether tool spans have told of these tool calls already. Spans of tools often do not name their agent."""
    mine = [tool for of, tool in session.open_tools if not of or not agent or of == agent]
    others = [(of, tool) for of, tool in session.open_tools if of and agent and of != agent]
    for tool in tools:
        if tool not in mine:
            return False
        mine.remove(tool)
    session.open_tools = [*others, *((agent, tool) for tool in mine)]
    return True


def _prompt_step(session: SessionState, call: Call) -> Step | None:
    """The agent starts over: the prompt is all there is. What was newly observed since the last prompt ends a cycle."""
    if call.input is None:
        return None
    step = _step("prompt", session, call, call.input, call.input, "", False)
    if call.system:
        system = int(call.system, 16)
        step = step._replace(canon=mix(step.canon, system), action=mix(step.action, system))
    if _is_sibling(session.prompts, call, step):
        return None
    run = lane(session, call.agent)
    if run.novel != run.novel_before:
        session.prompts.break_runs()
    session.prompts.append(step)
    return step


def _is_sibling(steps: Steps, call: Call, step: Step) -> bool:
    """The same request in parallel with the last one is the same step (best of n, a fan-out)."""
    last = steps.last
    return last is not None and last.canon == step.canon != 0 and _overlap(last, call)


def _overlap(last: Step, call: Call) -> bool:
    """In time; a span that arrives late does not."""
    return began_before(call, last.end_ns) and last.start_ns < call.end_ns


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
    act_exact, act = hashes(action)
    obs_exact, obs = hashes(observation)
    canon = mix(act, obs)
    return Step(
        kind,
        mix(act_exact, obs_exact),
        canon,
        act_exact,
        act,
        obs,
        tool,
        error,
        observation.size,
        bytes.fromhex(call.wording),
        bytes.fromhex(call.fields),
        int(call.meaning, 16) if call.meaning else 0,
        call.echoes,
        _is_news(session.steps, act, obs, canon, error, restated),
        agent_hash(call.agent) if call.agent else 0,
        restated,
        int(call.span_id, 16),
        int(call.parent_span_id, 16) if call.parent_span_id else 0,
        call.start_ns,
        call.end_ns,
        session.cost_nano_usd - call.cost_nano_usd,
    )


def _is_news(steps: Steps, act: int, obs: int, canon: int, error: bool, restated: bool) -> bool:
    """Whether a step did or saw anything new. The same failure again is no news, whatever was tried."""
    if restated:
        return act not in steps.actions
    return not canon or (canon not in steps.canons and not (error and obs in steps.observations))


def _append(session: SessionState, agent: str, step: Step) -> Step:
    if step.novel:
        lane(session, agent).novel += 1
    session.steps.append(step)
    return step


def _extend_run(session: SessionState, call: Call, rules: Rules) -> PromptRun | None:
    """Count the same new input in a row, as long as neither the history grows nor anything new was observed."""
    new = call.input
    exact, canon = hashes(new) if new is not None else (0, 0)
    if new is None or not canon:
        return None
    run, near = lane(session, call.agent), rules.near
    same = call.system == run.system and (canon == run.canon or _near(run, new, near))
    if same and began_before(call, run.end_ns):
        return None  # siblings in parallel ask once
    waited_ns = call.end_ns - run.end_ns
    pause_s = rules.repeat_prompt.min_interval_s
    goes_on = same and call.history <= run.history and run.novel == run.novel_before
    if goes_on and not (pause_s and waited_ns >= pause_s * 1e9):
        run.count += 1
        run.hurried |= waited_ns < rules.repeat_prompt.wait_s * 1e9
        run.exact_count = run.exact_count + 1 if exact == run.exact else 1
    else:
        run.count = run.exact_count = 1
        run.hurried = False
        run.span_id, run.since_ns = int(call.span_id, 16), call.end_ns
        run.spent = session.cost_nano_usd - call.cost_nano_usd
    run.exact, run.canon = exact, canon
    if near.max_distance:
        run.near, run.size = number(new.near), run.size if run.count > 1 else new.size
    run.system = call.system
    run.history, run.end_ns, run.novel_before = call.history, call.end_ns, run.novel
    return run


def _near(run: PromptRun, new: Fingerprint, near: Near) -> bool:
    if not run.near or not near.max_distance or near.mode == "off":
        return False
    return alike(hexed(run.near), run.size, new.near, new.size, near.max_distance)


def lane(session: SessionState, agent: str) -> PromptRun:
    """The agent's lane; the one that was silent longest makes room for a ninth."""
    lanes = session.lanes
    run = lanes.get(agent)
    if run is not None and len(lanes) == 1:
        return run
    run = lanes.pop(agent, None) or PromptRun()
    if len(lanes) >= MAX_LANES:
        del lanes[next(iter(lanes))]
    lanes[agent] = run
    return run
