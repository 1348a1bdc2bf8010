"""Which settings hold for a call: the policy, with the overrides that match its agent, tool and team."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from spanfuse_schemas import Override, Policy, Rules

MAX_CACHED: Final = 4096


class RuleBook:
    """The settings of a policy, resolved once per (agent, team, tool)."""

    def __init__(self, policy: Policy) -> None:
        self._base = policy.rules
        self._overrides = policy.overrides
        self._resolved: dict[tuple[str, str, str], Rules] = {}
        self.exempts = policy.rules.repeat_no_progress.exempt or any(
            "exempt" in changes for override in policy.overrides for changes in override.rules.values()
        )
        """Whether there may be tools whose work it is to be asked again."""

    def of(self, agent: str, team: str, tool: str = "") -> Rules:
        """The settings for that agent, team and tool."""
        if not self._overrides:
            return self._base
        key = (agent, team, tool)
        found = self._resolved.get(key)
        if found is None:
            if len(self._resolved) >= MAX_CACHED:  # invented names must not grow it for ever
                self._resolved.clear()
            found = self._resolved[key] = self._resolve(agent, team, tool)
        return found

    def _resolve(self, agent: str, team: str, tool: str) -> Rules:
        settings = self._base.model_dump(exclude_unset=True)
        for override in self._overrides:
            if _matches(override, agent, team, tool):
                for rule, changes in override.rules.items():
                    settings[rule] = {**settings.get(rule, {}), **changes}
        return Rules.model_validate(settings)


def _matches(override: Override, agent: str, team: str, tool: str) -> bool:
    wanted = ((override.agent, agent), (override.team, team), (override.tool, tool))
    return all(pattern is None or fnmatchcase(value, pattern) for pattern, value in wanted)
