"""The kinds of measurement and all files beside the logs, by name."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from rules.records.calibration import CalibrationRecord
from rules.records.codec import Record
from rules.records.experiment import ExperimentRecord
from rules.records.measure import Measurement, ProcessMeasurement
from rules.records.pair import PairRecord
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord
from rules.records.study import StudyRecord
from rules.records.sweep import SweepRecord
from rules.records.system import SystemRecord


class Places(NamedTuple):
    """Where a kind's record is, as module:type, and the module of its job, which the harness alone looks up."""

    record: str
    job: str


PLACES: Mapping[str, Places] = {
    "training": Places(record="rules.records.run:RunRecord", job="harness.measure.training"),
    "throughput": Places(
        record="rules.records.measured.throughput:ThroughputRecord", job="harness.measure.throughput"
    ),
    "profile": Places(record="rules.records.profile:ProfileRecord", job="harness.measure.profile.job"),
    "quality": Places(record="rules.records.measured.quality:QualityRecord", job="harness.measure.quality"),
    "serve": Places(record="rules.records.measured.serve:ServeRecord", job="harness.measure.serving.job"),
}
"""The registry of kinds: a line is all that a new one adds."""


def _type_of(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


KINDS: Mapping[str, type[Measurement]] = {kind: _type_of(places.record) for kind, places in PLACES.items()}
KIND_MODULES: Mapping[str, str] = {kind: places.job for kind, places in PLACES.items()}
"""The module of each kind's job. Nothing here imports it."""
EXTRA_KINDS: tuple[str, ...] = tuple(kind for kind, record in KINDS.items() if not record.IS_LOGGED)
"""Kinds whose record is extra/<kind>.json."""


def is_logged(kind: str) -> bool:
    """Return whether a kind's repetitions leave logs to judge; one that this version does not know leaves none."""
    return KINDS.get(kind, Measurement).IS_LOGGED


def is_in_processes(kind: str) -> bool:
    """Return whether a kind is measured in several fresh processes; one that this version does not know is not."""
    return issubclass(KINDS.get(kind, Measurement), ProcessMeasurement)


RECORDS: Mapping[str, type[Record]] = {
    "run_set": RunSetRecord,
    "run": RunRecord,
    **{kind: KINDS[kind] for kind in EXTRA_KINDS},
    "experiment": ExperimentRecord,
    "sweep": SweepRecord,
    "pair": PairRecord,
    "study": StudyRecord,
    "calibration": CalibrationRecord,
    "system": SystemRecord,
    "weights": _type_of("rules.records.kept.weights:WeightsManifest"),
    "checkpoint": _type_of("rules.records.kept.checkpoint:CheckpointManifest"),
    "placement": _type_of("rules.records.kept.placement:PlanRecord"),
    "learnt": _type_of("rules.records.kept.learnt:LearntManifest"),
    "trace": _type_of("rules.records.kept.trace:TraceManifest"),
    "id_map": _type_of("rules.records.kept.id_maps:IdMapManifest"),
    "hooks": _type_of("rules.records.kept.hooks:HooksRecord"),
    "event": _type_of("rules.records.kept.event:EventRecord"),
}
