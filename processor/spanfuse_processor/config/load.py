"""Reads the configuration file, and says everything that is wrong with it at once."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spanfuse_processor.config.models import Config, ModelPricing, Pricing
from spanfuse_processor.config.source import Path as KeyPath
from spanfuse_processor.config.source import Source
from spanfuse_processor.config.walk import model_at
from spanfuse_processor.errors import ConfigError

MAX_BYTES: Final = 256 * 1024
"""Largest file; one with every setting is a few KB, and the parser takes seconds for each MB."""


_PRICE_FILE: Final = ("pricing", "file")


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
    env = os.environ if env is None else env
    source, data = Source.read(str(path), _text(path), env)
    config = _validated(source, data)
    prices, models = _price_file(source, config, path.parent, env) if config else (None, {})
    problems = [*_sorted(source), *(_sorted(prices) if prices else [])]
    if config is None or problems:
        raise ConfigError(problems)
    pricing = config.pricing.model_copy(update={"models": models | config.pricing.models})
    return config.model_copy(update={"pricing": pricing})


def _sorted(source: Source) -> list[str]:
    return [message for _, message in sorted(source.problems, key=lambda p: p[0])]


def _price_file(
    source: Source, config: Config, folder: Path, env: Mapping[str, str]
) -> tuple[Source | None, dict[str, ModelPricing]]:
    """What `pricing.file` says, and the models in it. A file that cannot be read is a problem of the one that names it."""
    if not config.pricing.file:
        return None, {}
    path = folder / config.pricing.file
    try:
        text = _text(path)
    except ConfigError as error:
        source.problem(source.line_of(_PRICE_FILE), _PRICE_FILE, error.problems[0])
        return None, {}
    if path.suffix == ".json":
        text = text.replace("\t", " ")  # between tokens, since none can be within a text; YAML has no such tabs
    found, data = Source.read(str(path), text, env, "models, each with its prices")
    try:
        return found, Pricing.model_validate({"models": data}).models
    except ValidationError as error:
        _tell_all(found, error, ("pricing", "models"))
    return found, {}


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
        _tell_all(source, error)
    return None


def _tell_all(source: Source, error: ValidationError, within: KeyPath = ()) -> None:
    """Note what pydantic found. Its messages name what is expected; what was given may be a secret.

    Args:
        within: the section of the configuration that the file holds, whose last key is the first of the error's path.
    """
    for found in error.errors(include_url=False, include_input=False, include_context=False):
        path = tuple(key for key in found["loc"] if key != "[key]")
        _tell(source, path[len(within[-1:]) :], found["type"], found["msg"], within)


def _tell(source: Source, path: KeyPath, kind: str, message: str, within: KeyPath) -> None:
    if path[:1] == ("policies",) and len(path) > 2 and path[2] != "rules" and not source.has(path[:3]):
        path = (*path[:2], "rules", *path[2:])  # an override checks its rules as a model of their own
    if kind == "extra_forbidden":
        message = _unknown((*within, *path))
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
