"""Reads the configuration file, and says everything that is wrong with it at once."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spanfuse_processor.config.models import Config
from spanfuse_processor.config.source import Path as KeyPath
from spanfuse_processor.config.source import Source
from spanfuse_processor.config.walk import model_at
from spanfuse_processor.errors import ConfigError

MAX_BYTES: Final = 256 * 1024
"""Largest file; one with every setting is a few KB, and the parser takes seconds for each MB."""


def load_config(path: Path | None, env: Mapping[str, str] | None = None) -> Config:
    """The configuration in a file; without one, the defaults.

    Args:
        path: YAML file.
        env: what `${env:VAR}` refers to. Default: the environment of the process.

    Raises:
        ConfigError: with every problem, such as `spanfuse.yaml:12: detectors.cycle.rounds: Input should be …`.
    """
    if path is None:
        return Config()
    source, data = Source.read(str(path), _text(path), os.environ if env is None else env)
    config = _validated(source, data)
    if config is None or source.problems:
        raise ConfigError([message for _, message in sorted(source.problems, key=lambda p: p[0])])
    return config


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError([f"{path}: larger than {MAX_BYTES} bytes; is this a configuration file?"])
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 text: byte {error.start}"]) from None


def _validated(source: Source, data: dict[str, Any]) -> Config | None:
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        # Messages of pydantic name what is expected; what was given may be a secret.
        for found in error.errors(include_url=False, include_input=False, include_context=False):
            _tell(source, tuple(key for key in found["loc"] if key != "[key]"), found["type"], found["msg"])
    return None


def _tell(source: Source, path: KeyPath, kind: str, message: str) -> None:
    if path[:1] == ("policies",) and len(path) > 2 and path[2] != "rules" and not source.has(path[:3]):
        path = (*path[:2], "rules", *path[2:])  # an override checks its rules as a model of their own
    if kind == "extra_forbidden":
        message = _unknown(path)
    elif any(spoilt[: len(path)] == path for spoilt in source.spoilt):
        return  # a section that a reference spoilt has no other faults that one could be sure of
    source.problem(source.line_of(path), path, message.removeprefix("Value error, "))


def _unknown(path: KeyPath) -> str:
    parent = model_at(Config, path[:-1])
    known = [field.alias or name for name, field in parent.model_fields.items()] if parent is not None else []
    near = difflib.get_close_matches(str(path[-1]), known, n=1)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    return f"unknown key; known are {', '.join(known)}" if known else "unknown key"
