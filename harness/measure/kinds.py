"""The kinds of measurement: what one fresh process may be asked to do.

A new kind is a module with a `KIND`, one line in KINDS here, its record in `rules/records`, and its options.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from reference_models.process.world import World

OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every process is asked; a kind adds its own. Travels as JSON, `folder` is where it stands."""

    tables: dict[str, Any]
    definition_path: str
    data_dir: str
    seed: int
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementKind:
    """One kind: its name in run_set.json, what a process is asked, what it does, and the file it leaves behind."""

    name: str
    job: type[Job]
    run: Callable[[Any, World, OnEvent], Mapping[str, Any] | None]
    """Called on every rank; the record on rank 0, None elsewhere."""
    file: str
    """Of the record, in the job's folder."""
    min_processes: int = 1
    is_scored: bool = False


KINDS: Mapping[str, str] = {
    "training": "harness.measure.training",
    "throughput": "harness.measure.throughput",
    "profile": "harness.measure.profile.job",
}
"""The module of each kind, imported when it is asked for."""


def find_kind(name: str) -> MeasurementKind:
    """The kind of that name. Raises KeyError for a name that is not in KINDS."""
    kind: MeasurementKind = import_module(KINDS[name]).KIND
    return kind
