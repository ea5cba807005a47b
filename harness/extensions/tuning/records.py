"""Define the type of a search's objective and constraints, which experiment.json keeps under `stop.asked`."""

from typing import Literal

from rules.records.codec import PositiveCount, Record, convert
from rules.records.experiment import ExperimentRecord

REGRET = "Regret of the best so far"
"""Name of a study's column: the regret after each trial, which is the distance of the best trial so far from the best
of all trials, as a share of the best value."""


class ConstraintRecord(Record, frozen=True, kw_only=True):
    """A constraint of a search: a bound on a column that each trial measures."""

    column: str
    sign: Literal["<=", ">="]
    value: float


class SearchRecord(Record, frozen=True, kw_only=True):
    """Objective and constraints of a search, by columns that each trial measures, and the way it proposes trials."""

    objective: str
    direction: Literal["minimize", "maximize"]
    constraints: tuple[ConstraintRecord, ...]
    sampler: Literal["auto", "random"]
    """Way to propose trials; "auto": a Gaussian process, or for very many trials tree-structured Parzen
    estimators."""
    parallel_trials: PositiveCount = 1
    """Number of a search's trials that are measured at a time, each on cores, and GPUs, of its own."""


def search_of(record: ExperimentRecord) -> SearchRecord:
    """Return the objective and constraints in the record of a search (experiment.json). Raises DamageError if the
    record lacks them."""
    return convert({} if record.stop is None or record.stop.asked is None else record.stop.asked, SearchRecord)
