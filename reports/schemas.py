"""JSON Schemas of what report, compare, diff and history write, made from the types of their documents.

`python -m reports.schemas report` prints one.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from reports.comparison.records import ComparisonDocument, DifferenceDocument, HistoryDocument
from reports.tables.records import ReportDocument

DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {
    "report": ReportDocument,
    "comparison": ComparisonDocument,
    "difference": DifferenceDocument,
    "history": HistoryDocument,
}


def schema_of(name: str) -> dict[str, Any]:
    """The schema of one of DOCUMENTS: what is written, where every member is there and what is not known is null."""
    schema = msgspec.json.schema(DOCUMENTS[name])
    for definition in schema["$defs"].values():
        for member in definition["properties"].values():
            member.pop("default", None)
        definition |= {"required": list(definition["properties"]), "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{name}.schema.json", **schema}


if __name__ == "__main__":
    for wanted in sys.argv[1:] or DOCUMENTS:
        if wanted not in DOCUMENTS:
            sys.exit(f"{wanted}: no such document; expected one of {', '.join(DOCUMENTS)}.")
        print(json.dumps(schema_of(wanted), indent=2))
