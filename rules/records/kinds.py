"""Register the kinds of measurement (training, throughput, …) by name: the core's kinds first, then those of
extensions. A kind's record type is imported only when it is asked for."""

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
"""Kinds of measurement in the core: a dict from the kind's name to the locations of its record type (module:type) and
of its measuring module. Adding a kind takes one line here."""
PLACES: Mapping[str, Places] = with_extensions(CORE_PLACES, "kinds")
KIND_MODULES: Mapping[str, str] = {kind: places.job for kind, places in PLACES.items()}
"""Dict from each kind of measurement to the name of the module that measures it. None of these modules is imported
here."""


@cache
def find_record_type(kind: str) -> type[Measurement]:
    """Import the record type of a kind of measurement. Raises KeyError for a kind that this installation does not
    have."""
    found: type[Measurement] = load_place(PLACES[kind].record)
    return found


EXTRA_KINDS: tuple[str, ...] = tuple(
    kind for kind in PLACES if kind not in CORE_PLACES or not find_record_type(kind).IS_LOGGED
)
"""Kinds of measurement whose results are in extra/<kind>.json: those of the core that leave no MLPerf logs, and all
kinds of extensions."""


ABSENT = "a kind of measurement that this copy does not have"


def why_absent(kind: str) -> str | None:
    """Return a message that this installation lacks a kind of measurement; None for a kind that the installation
    has."""
    if kind in PLACES:
        return None
    return f"{kind}: {ABSENT}. It has {', '.join(PLACES)}."


def is_logged(kind: str) -> bool:
    """Return whether repetitions of a kind of measurement leave MLPerf logs to judge; False for a kind that this
    version does not know."""
    return kind in PLACES and kind not in EXTRA_KINDS


def is_in_processes(kind: str) -> bool:
    """Return whether a kind of measurement is made in several fresh processes; False for a kind that this version
    does not know."""
    return kind in PLACES and issubclass(find_record_type(kind), ProcessMeasurement)
