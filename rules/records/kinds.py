"""The kinds of measurement and all files beside the logs, by name."""

from collections.abc import Mapping

from rules.records.codec import Record
from rules.records.measure import Measurement
from rules.records.profile import ProfileRecord
from rules.records.quality import QualityRecord
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord, SystemChecks
from rules.records.study import StudyRecord
from rules.records.sweep import SweepRecord
from rules.records.system import SystemRecord
from rules.records.throughput import ThroughputRecord

KINDS: Mapping[str, type[Measurement]] = {
    "training": RunRecord,
    "throughput": ThroughputRecord,
    "profile": ProfileRecord,
    "quality": QualityRecord,
}
IN_PROCESSES: tuple[str, ...] = tuple(name for name, kind in KINDS.items() if "processes" in kind.__struct_fields__)
"""Kinds that are measured in several fresh processes, gathered in extra/<kind>.json."""
RECORDS: Mapping[str, type[Record]] = {
    "run_set": RunSetRecord,
    "run": RunRecord,
    "throughput": ThroughputRecord,
    "profile": ProfileRecord,
    "quality": QualityRecord,
    "sweep": SweepRecord,
    "study": StudyRecord,
    "system": SystemRecord,
    "preflight": SystemChecks,
}
