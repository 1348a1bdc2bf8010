"""Which sessions ran away and which got on, as people have written it down: JSON lines, one session each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from spanfuse_processor.errors import ConfigError
from spanfuse_schemas.record import Record

Verdict = Literal["runaway", "good", "either"]
KINDS: Final[tuple[Verdict, ...]] = get_args(Verdict)

MAX_PROBLEMS: Final = 20
"""Bad lines that are told one by one."""
_SPELLED: Final[dict[Any, Verdict]] = {
    "yes": "runaway", True: "runaway", "no": "good", False: "good", "nudge": "either",
}  # fmt: skip
"""Values of the key `runaway`, which stands for `label` in other tools' files."""


class Label(Record):
    """What somebody says of a session. Other keys are ignored, so that a file may say more."""

    session: str = Field(min_length=1)
    """Session id, as in the recording."""
    label: Verdict
    """`runaway`: it had to be stopped; `good`: a stop is a wrong one; `either`: a stop is no mistake, and no stop neither."""
    onset: int | None = Field(default=None, ge=0)
    """Model call, from 0, with which the runaway begins: a stop before that is a wrong one. Default: not known, none is."""
    block_at: int | None = Field(default=None, ge=0)
    """Model call, from 0, that should have been the first refused: calls from it on are wasted. Default: `onset`, else 0."""

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "label" in value or "runaway" not in value:
            return value
        said = value["runaway"]
        return value | {"label": _SPELLED.get(said, said) if isinstance(said, str | bool) else said}

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.onset is not None and self.block_at is not None and self.block_at < self.onset:
            raise ValueError(f"block_at {self.block_at} lies before onset {self.onset}")
        return self

    @property
    def wasted_from(self) -> int:
        """The model call from which on calls are wasted."""
        return self.block_at if self.block_at is not None else self.onset or 0


Labels = dict[str, Label]
"""By session."""


def read_labels(paths: Iterable[Path]) -> Labels:
    """The labels of files; what is said of a session twice has to be the same.

    Raises:
        ConfigError: with every bad line.
    """
    found: Labels = {}
    problems: list[str] = []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if line.strip():
                problems += [f"{path}:{number}: {problem}" for problem in _take(line, found)]
    if problems:
        more = len(problems) - MAX_PROBLEMS
        raise ConfigError(problems[:MAX_PROBLEMS] + ([f"… and {more} more bad lines"] if more > 0 else []))
    return found


def _take(line: str, found: Labels) -> Iterable[str]:
    try:
        label: Label = Label.from_json(line)
    except ValidationError as error:
        for one in error.errors(include_input=False, include_url=False):
            where = ".".join(str(part) for part in one["loc"])
            yield f"{where}: {one['msg']}" if where else one["msg"]
        return
    if found.setdefault(label.session, label) != label:
        yield f"session {label.session!r} was labelled otherwise before"
