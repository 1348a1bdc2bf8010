"""Steps as they are kept: without what follows from the rest, since they are most of a session's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

from spanfuse_processor.core.steps import Kind, Step, Steps, mix

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


def snapshot(steps: Steps) -> list[Any]:
    """Steps with their state; empty where there are none."""
    return [pack(steps.ring), *steps.state()] if steps.ring else []


def restore(data: list[Any]) -> Steps:
    """The inverse of `snapshot`."""
    return Steps.of(unpack(data[0]), data[1:]) if data else Steps()


def pack(steps: Iterable[Step]) -> list[list[Any]]:
    """Steps as lists that msgpack writes in few bytes.

    A hash is 0 where it is that of the canonical form or follows from action and observation, times are from the end of the
    step before.
    """
    packed, before_ns = [], 0
    for s in steps:
        flags = s.error | s.echo << 1 | s.novel << 2 | s.restated << 3
        packed.append(
            [
                _KINDS.index(s.kind),
                flags,
                s.action,
                s.observation,
                s.tool,
                s.size,
                s.wording,
                s.fields,
                s.meaning,
                s.agent,
                s.span_id,
                s.parent,
                s.end_ns - before_ns,
                s.end_ns - s.start_ns,
                s.spent,
                0 if s.exact == s.canon else s.exact,
                0 if s.canon == mix(s.action, s.observation) else s.canon,
                0 if s.action_exact == s.action else s.action_exact,
            ]
        )
        before_ns = s.end_ns
    return packed


def unpack(packed: Iterable[list[Any]]) -> Iterator[Step]:
    """The inverse of `pack`."""
    end_ns = 0
    for kind, flags, action, observation, tool, size, wording, fields, meaning, agent, span_id, parent, *rest in packed:
        passed_ns, lasted_ns, spent, exact, canon, action_exact = rest
        end_ns += passed_ns
        canon = canon or mix(action, observation)
        yield Step(
            kind=_KINDS[kind],
            exact=exact or canon,
            canon=canon,
            action_exact=action_exact or action,
            action=action,
            observation=observation,
            tool=tool,
            error=bool(flags & 1),
            size=size,
            wording=wording,
            fields=fields,
            meaning=meaning,
            echo=bool(flags & 2),
            novel=bool(flags & 4),
            agent=agent,
            restated=bool(flags & 8),
            span_id=span_id,
            parent=parent,
            start_ns=end_ns - lasted_ns,
            end_ns=end_ns,
            spent=spent,
        )
