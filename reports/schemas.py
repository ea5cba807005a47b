"""Lists the types of the documents that `--format json` prints: a dict from a document's name to its type. `dlrmbench
schema` prints their JSON Schemas."""

from collections.abc import Mapping

import msgspec

from reports.comparison.records import ComparisonDocument, DifferenceDocument, PairDocument
from reports.tables.records import ReportDocument
from reports.tables.scores import MeasurementDocument, RunDocument, ScoreDocument
from rules.extensions import find_places, load_place, merge
from rules.judge.document import VerdictDocument
from rules.records.run_set import SystemChecks

CORE_DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {
    "run": RunDocument,
    "measurement": MeasurementDocument,
    "pair": PairDocument,
    "verdict": VerdictDocument,
    "score": ScoreDocument,
    "report": ReportDocument,
    "comparison": ComparisonDocument,
    "difference": DifferenceDocument,
    "preflight": SystemChecks,
}

DOCUMENTS: Mapping[str, type[msgspec.Struct]] = merge(
    {
        "the core": CORE_DOCUMENTS,
        "an extension": {name: load_place(place) for name, place in find_places("documents").items()},
    }
)
