"""What a search looks for, as experiment.json has it in `stop.asked`."""

from typing import Literal

from rules.records.codec import PositiveCount, Record, convert
from rules.records.experiment import ExperimentRecord

REGRET = "Regret of the best so far"
"""The column of a study that says after each trial how far the best so far is from the best of all."""


class ConstraintRecord(Record, frozen=True, kw_only=True):
    """A bound on a column of what each trial measures."""

    column: str
    sign: Literal["<=", ">="]
    value: float


class SearchRecord(Record, frozen=True, kw_only=True):
    """What a search looks for, by columns of what each trial measures."""

    objective: str
    direction: Literal["minimize", "maximize"]
    constraints: tuple[ConstraintRecord, ...]
    sampler: Literal["auto", "random"]
    """"auto": a Gaussian process, of very many trials tree-structured Parzen estimators."""
    parallel_trials: PositiveCount = 1
    """Trials that are measured at a time, each on cores, and GPUs, that no other one has."""


def search_of(record: ExperimentRecord) -> SearchRecord:
    """Return what a search looks for. Raises DamageError where its file does not say it."""
    return convert({} if record.stop is None or record.stop.asked is None else record.stop.asked, SearchRecord)
