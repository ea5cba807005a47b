"""What is compared: the factors of the time to train, and what each kind of measurement says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from rules.records.kinds import KINDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Factor:
    """One factor, compared by its logarithms. `cause` is what a sentence calls it, `step` the member of a sample that
    says the grid of its values. More of a factor of negative `sign` is less time."""

    unit: str
    title: str
    cause: str
    step: str
    sign: float = 1.0


FACTORS: Mapping[str, Factor] = {
    "time_to_train": Factor(unit="s", title="time to train", cause="time to train", step="time_step"),
    "samples_to_converge": Factor(
        unit="samples", title="samples to converge", cause="convergence", step="samples_step"
    ),
    "throughput": Factor(unit="samples/s", title="throughput", cause="throughput", step="clock_step", sign=-1.0),
    "overhead": Factor(unit="1", title="overhead", cause="evaluation and overhead", step="clock_step"),
}
"""In the order of a comparison; the first is the whole that the others explain."""


def title_of(name: str) -> str:
    """What readers call a factor, or what a kind of measurement compares: 'AUC'."""
    return FACTORS[name].title if name in FACTORS else KINDS[name].MEASURE.name


def is_ratio(name: str) -> bool:
    """Whether logarithms are compared, and not the values themselves."""
    return name in FACTORS or KINDS[name].MEASURE.scale == "ratio"
