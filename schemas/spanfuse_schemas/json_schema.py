"""`python -m spanfuse_schemas.json_schema FOLDER`: the records as JSON Schema, for agents in other languages."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

from pydantic.json_schema import GenerateJsonSchema

from spanfuse_schemas.call import Call, CallBatch
from spanfuse_schemas.charge import Charge, ChargeBatch
from spanfuse_schemas.decision import Decision
from spanfuse_schemas.detection import Detection
from spanfuse_schemas.notice import PolicyNotice
from spanfuse_schemas.policy import Policy
from spanfuse_schemas.record import Record

RECORDS: Final[tuple[type[Record], ...]] = (
    Call,
    CallBatch,
    Charge,
    ChargeBatch,
    Decision,
    Detection,
    Policy,
    PolicyNotice,
)
"""What travels on its own, as the value of a message or over HTTP."""


def documents() -> dict[str, str]:
    """File name → JSON Schema (draft 2020-12) of one record, as text."""
    return {f"{_kebab(record.__name__)}.schema.json": _document(record) for record in RECORDS}


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _document(record: type[Record]) -> str:
    # As a reader sees it: a field that holds its default may be missing.
    schema = record.model_json_schema(by_alias=True, mode="validation")
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **schema}, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write all documents into the folder named."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
