"""The base of every wire record."""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Final = 1
"""Version of the record shapes in this package. It grows when a reader of the old shape could misread the new one;
added optional fields do not change it, since readers ignore fields they do not know."""


_TEMPLATES: Final[dict[type[BaseModel], dict[str, Any]]] = {}
"""The fields of each kind of record with their defaults, in their order, in which they are written."""
_set = object.__setattr__


class Record(BaseModel):
    """A frozen wire record. Fields a reader does not know are ignored, so that writers may be newer than readers."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null", use_attribute_docstrings=True)

    @classmethod
    def made(cls, **values: Any) -> Self:
        """A record of values that are known to be right, without the time that checking them takes."""
        template = _TEMPLATES.get(cls)
        if template is None:
            template = {name: field.get_default(call_default_factory=True) for name, field in cls.model_fields.items()}
            _TEMPLATES[cls] = template
        record = cls.__new__(cls)
        _set(record, "__dict__", template | values)
        _set(record, "__pydantic_fields_set__", set(values))
        _set(record, "__pydantic_extra__", None)
        _set(record, "__pydantic_private__", None)
        return record

    def to_json(self) -> bytes:
        """The record as compact UTF-8 JSON; fields that hold their default are left out."""
        return self.__pydantic_serializer__.to_json(self, exclude_defaults=True)

    @classmethod
    def from_json(cls, data: bytes | str) -> Any:
        """Parse a record.

        Raises:
            pydantic.ValidationError: if `data` is not JSON of this shape.
        """
        return cls.__pydantic_validator__.validate_json(data)
