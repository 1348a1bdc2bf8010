"""The base of every wire record."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Final = 1
"""Version of the record shapes in this package. It grows when a reader of the old shape could misread the new one;
added optional fields do not change it, since readers ignore fields they do not know."""


class Record(BaseModel):
    """A frozen wire record. Fields a reader does not know are ignored, so that writers may be newer than readers."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null", use_attribute_docstrings=True)

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
