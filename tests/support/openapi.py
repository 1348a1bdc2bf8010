"""Answers held against the document that the API serves."""

from __future__ import annotations

from typing import Any

import jsonschema_rs


class Document:
    """An OpenAPI document.

    Args:
        document: as `/openapi.json` has it.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.paths: dict[str, dict[str, Any]] = document["paths"]
        self._components = document["components"]

    def schema(self, method: str, path: str) -> dict[str, Any]:
        """The shape of an answer with status 200; empty: it is not JSON."""
        content = self.paths[path][method]["responses"]["200"].get("content", {})
        found: dict[str, Any] = content.get("application/json", {}).get("schema", {})
        return found

    def check(self, method: str, path: str, body: Any) -> None:
        """Fail unless a body has the shape that is promised.

        Raises:
            jsonschema_rs.ValidationError: it has another.
        """
        whole = {**self.schema(method, path), "components": self._components}
        jsonschema_rs.validator_for(whole).validate(body)
