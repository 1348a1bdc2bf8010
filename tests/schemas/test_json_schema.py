"""The JSON Schema documents in `schemas/json` are those of the models."""

from __future__ import annotations

import json
from pathlib import Path

from spanfuse_schemas import Call, Decision
from spanfuse_schemas.json_schema import documents, main

FOLDER = Path(__file__).parents[2] / "schemas" / "json"


def test_the_documents_are_those_of_the_models() -> None:
    """After a change of a model: `make schemas`, and a line in CHANGELOG.md."""
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == documents()


def test_every_field_is_described() -> None:
    for name, text in documents().items():
        for title, model in [(name, json.loads(text)), *json.loads(text).get("$defs", {}).items()]:
            assert model["description"], f"{name}: {title}"
            bare = [field for field, schema in model.get("properties", {}).items() if not schema.get("description")]
            assert not bare, f"{name}: {title}: {bare}"


def test_only_what_has_no_default_is_required() -> None:
    """Writers leave defaults out, so a schema that asked for them would refuse what the topics carry."""
    required = {
        model.__name__: [n for n, f in model.model_fields.items() if f.is_required()] for model in (Call, Decision)
    }
    assert json.loads(documents()["call.schema.json"])["required"] == required["Call"]
    assert json.loads(documents()["decision.schema.json"])["required"] == required["Decision"]


def test_the_command_writes_the_folder_it_is_told(tmp_path: Path) -> None:
    assert main([str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(documents())
    assert main([]) == 2
