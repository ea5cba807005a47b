"""JSON Schemas of what report, compare, diff, history, score and run write, made from the types of their documents.

`python -m reports.schemas report` prints one.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from reports.comparison.records import ComparisonDocument, DifferenceDocument, HistoryDocument
from reports.tables.records import ReportDocument
from reports.tables.scores import MeasurementDocument, RunDocument, ScoreDocument
from reports.views.records import PairDocument
from rules.records.codec import json_schema

DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {
    "report": ReportDocument,
    "comparison": ComparisonDocument,
    "difference": DifferenceDocument,
    "history": HistoryDocument,
    "score": ScoreDocument,
    "run": RunDocument,
    "measurement": MeasurementDocument,
    "pair": PairDocument,
}


def schema_of(name: str) -> dict[str, Any]:
    """The schema of one of DOCUMENTS: what is written, where every member is there and what is not known is null."""
    return {"$id": f"{name}.schema.json", **json_schema(DOCUMENTS[name])}


if __name__ == "__main__":
    for wanted in sys.argv[1:] or DOCUMENTS:
        if wanted not in DOCUMENTS:
            sys.exit(f"{wanted}: no such document; expected one of {', '.join(DOCUMENTS)}.")
        print(json.dumps(schema_of(wanted), indent=2))
