"""The kinds of measurement by name, those of extensions after the core's; a record is imported when asked for."""

from collections.abc import Mapping
from functools import cache

from rules.extensions import Places, load_place, with_extensions
from rules.records.measure import Measurement, ProcessMeasurement

CORE_PLACES: Mapping[str, Places] = {
    "training": Places(record="rules.records.run:RunRecord", job="harness.measure.training"),
    "throughput": Places(
        record="rules.records.measured.throughput:ThroughputRecord", job="harness.measure.throughput"
    ),
    "profile": Places(record="rules.records.profile:ProfileRecord", job="harness.measure.profile.job"),
    "quality": Places(record="rules.records.measured.quality:QualityRecord", job="harness.measure.quality"),
}
"""The registry of the core's kinds: a line is all that a new one adds."""
PLACES: Mapping[str, Places] = with_extensions(CORE_PLACES, "kinds")
KIND_MODULES: Mapping[str, str] = {kind: places.job for kind, places in PLACES.items()}
"""The module of each kind's job. Nothing here imports it."""


@cache
def find_record_type(kind: str) -> type[Measurement]:
    """Import the type of a kind's record. Raises KeyError for a kind that this copy does not have."""
    found: type[Measurement] = load_place(PLACES[kind].record)
    return found


EXTRA_KINDS: tuple[str, ...] = tuple(
    kind for kind in PLACES if kind not in CORE_PLACES or not find_record_type(kind).IS_LOGGED
)
"""Kinds whose record is extra/<kind>.json: of the core those that leave no logs, and all of extensions."""


ABSENT = "a kind of measurement that this copy does not have"


def why_absent(kind: str) -> str | None:
    """Say that this copy does not have a kind; None of one that it has."""
    if kind in PLACES:
        return None
    return f"{kind}: {ABSENT}. It has {', '.join(PLACES)}."


def is_logged(kind: str) -> bool:
    """Return whether a kind's repetitions leave logs to judge; one that this version does not know leaves none."""
    return kind in PLACES and kind not in EXTRA_KINDS


def is_in_processes(kind: str) -> bool:
    """Return whether a kind is measured in several fresh processes; one that this version does not know is not."""
    return kind in PLACES and issubclass(find_record_type(kind), ProcessMeasurement)
