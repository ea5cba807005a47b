"""The kinds of measurement and all files beside the logs, by name."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rules.records.calibration import CalibrationRecord
from rules.records.codec import Record
from rules.records.measure import Measurement
from rules.records.pair import PairRecord
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord, SystemChecks
from rules.records.study import StudyRecord
from rules.records.sweep import SweepRecord
from rules.records.system import SystemRecord

_MODULES: Mapping[str, str] = {
    "training": "rules.records.run:RunRecord",
    "throughput": "rules.records.measured.throughput:ThroughputRecord",
    "profile": "rules.records.profile:ProfileRecord",
    "quality": "rules.records.measured.quality:QualityRecord",
    "serve": "rules.records.measured.serve:ServeRecord",
}
"""The module and the type of each kind's record: a line is all that a new kind adds here."""


def _type_of(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


KINDS: Mapping[str, type[Measurement]] = {kind: _type_of(place) for kind, place in _MODULES.items()}
IN_PROCESSES: tuple[str, ...] = tuple(name for name, kind in KINDS.items() if "processes" in kind.__struct_fields__)
"""Kinds that are measured in several fresh processes, gathered in extra/<kind>.json."""
RECORDS: Mapping[str, type[Record]] = {
    "run_set": RunSetRecord,
    "run": RunRecord,
    **{kind: record for kind, record in KINDS.items() if kind != "training"},
    "sweep": SweepRecord,
    "pair": PairRecord,
    "study": StudyRecord,
    "calibration": CalibrationRecord,
    "system": SystemRecord,
    "preflight": SystemChecks,
    "weights": _type_of("rules.records.kept.weights:WeightsManifest"),
}
