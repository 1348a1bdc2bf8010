"""What is tried: a policy with some settings of its rules changed, how far that is from the policy, and as a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from spanfuse_schemas import Policy, Rules
from spanfuse_schemas.policy import RULE_NAMES
from spanfuse_schemas.rule import Rule

FIELDS: Final = dict(zip(RULE_NAMES, Rules.model_fields, strict=True))
"""Rule → its field in `Rules`."""

Changes = tuple[tuple[str, str, Any], ...]
"""Rule, setting and value of everything that is not as in the policy, sorted; a policy is known by them."""


def rule_of(policy: Policy, rule: str) -> Rule:
    """The settings of a rule."""
    found: Rule = getattr(policy.rules, FIELDS[rule])
    return found


def changed(policy: Policy, changes: Changes, more: Mapping[tuple[str, str], Any]) -> Changes:
    """Changes with more laid over them; what is as in the policy is none."""
    merged = {(rule, setting): value for rule, setting, value in changes} | dict(more)
    kept = ((*key, value) for key, value in merged.items() if getattr(rule_of(policy, key[0]), key[1]) != value)
    return tuple(sorted(kept, key=lambda one: one[:2]))


def applied(policy: Policy, changes: Changes) -> Policy | None:
    """The policy with the changes; none where settings contradict one another."""
    try:
        rules = {FIELDS[rule]: _rule(policy, rule, changes) for rule in {rule for rule, _, _ in changes}}
    except ValidationError:
        return None
    return policy.model_copy(update={"rules": policy.rules.model_copy(update=rules)})


def _rule(policy: Policy, rule: str, changes: Changes) -> Rule:
    was = rule_of(policy, rule)
    mine = {setting: value for name, setting, value in changes if name == rule}
    return type(was).model_validate(was.model_dump() | mine)


def told(changes: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """Changes as a report has them: `repeat.no_progress.count` → value."""
    return {f"{rule}.{setting}": value for rule, setting, value in changes}


def sections(policy: Policy, changes: Changes) -> dict[str, Any]:
    """The changes as the section of a configuration, or of a policy that is laid over one.

    What is laid over a configuration replaces a rule as a whole, so that a rule which differs is written with all that is not
    its default.
    """
    if not changes:
        return {}
    rules = sorted({rule for rule, _, _ in changes}, key=RULE_NAMES.index)
    return {"detectors": {rule: _written(_rule(policy, rule, changes)) for rule in rules}}


def _written(rule: Rule) -> dict[str, Any]:
    return rule.model_dump(mode="json", exclude_defaults=True) or {"mode": rule.mode}
