"""Finds one's way in the models of the configuration."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from spanfuse_processor.config.source import Path
from spanfuse_schemas import Rules


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field's type names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


def model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model that describes the section at a path; none if no single model does."""
    here: type[BaseModel] | None = model
    if path[:1] == ("policies",) and path[2:3] == ("rules",):
        here, path = Rules, path[3:]
    for key in path:
        if here is None:
            return None
        if isinstance(key, int):
            continue
        field = _field(here, key)
        if field is None:
            here = getattr(here, "NAMED", here)  # a name that the operator chose, as in a mapping of models
            continue
        found = models_in(field.annotation)
        here = found[0] if len(found) == 1 else None
    return here


def _field(model: type[BaseModel], key: str) -> FieldInfo | None:
    """The field of a key; where models have names of the operator's behind their kind, that of the kind."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return fields.get(key) or (None if hasattr(model, "NAMED") else fields.get(key.partition("/")[0]))
