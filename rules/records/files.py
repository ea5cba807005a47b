"""Name the record type of every JSON file that the harness writes beside logs, the core's files before those of
extensions: `dlrmbench schema` prints their JSON Schemas."""

from collections.abc import Mapping

from rules.extensions import find_places, load_place, merge
from rules.records.calibration import CalibrationRecord
from rules.records.codec import Record
from rules.records.experiment import ExperimentRecord
from rules.records.kinds import EXTRA_KINDS, find_record_type
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord
from rules.records.study import StudyRecord
from rules.records.system import SystemRecord

CORE_RECORDS: Mapping[str, type[Record]] = {
    "run_set": RunSetRecord,
    "run": RunRecord,
    **{kind: find_record_type(kind) for kind in EXTRA_KINDS},
    "experiment": ExperimentRecord,
    "study": StudyRecord,
    "calibration": CalibrationRecord,
    "system": SystemRecord,
    "weights": load_place("rules.records.kept.weights:WeightsManifest"),
    "checkpoint": load_place("rules.records.kept.checkpoint:CheckpointManifest"),
    "placement": load_place("rules.records.kept.placement:PlanRecord"),
    "learnt": load_place("rules.records.kept.learnt:LearntManifest"),
    "id_map": load_place("rules.records.kept.id_maps:IdMapManifest"),
    "hooks": load_place("rules.records.kept.hooks:HooksRecord"),
    "published": load_place("rules.records.kept.published:PublishedTable"),
    "bundle": load_place("rules.records.kept.bundle:BundleRecord"),
    "event": load_place("rules.records.kept.event:EventRecord"),
}

RECORDS: Mapping[str, type[Record]] = merge(
    {
        "the core": CORE_RECORDS,
        "an extension": {name: load_place(place) for name, place in find_places("records").items()},
    }
)
