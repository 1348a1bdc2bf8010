"""What is recommended, as a file that `validate` accepts and `policy set` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from spanfuse_processor.hosts.tuning.study import Study


def write(path: Path, found: Study) -> None:
    """Write the file; where nothing is recommended there is none."""
    if found.recommended:
        path.write_text(written(found), encoding="utf-8")
    elif path.exists() and not path.stat().st_size:
        path.unlink()


def written(found: Study) -> str:
    """The file; what it is based on stands above as a comment."""
    lines = [f"# {line}" for line in _based_on(found)]
    text: str = yaml.safe_dump(_plain(found.policy), sort_keys=False, default_flow_style=False, allow_unicode=True)
    return "\n".join([*lines, text])


def _based_on(found: Study) -> list[str]:
    now, then = found.trials.score(()), found.trials.score(found.recommended)
    return [
        "Recommended by `spanfuse tune`. Only rules that differ, each with all that is not its default.",
        f"Runaways stopped: {then.stopped} of {then.runaways} (as configured: {now.stopped}).",
        f"Good sessions stopped: {then.good_stopped} of {then.good} (as configured: {now.good_stopped}).",
        "Try it on other traffic before you enforce it: spanfuse policy dry-run FILE",
    ]


def _plain(value: Any) -> Any:
    """Without tuples, which YAML has no plain form for."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
