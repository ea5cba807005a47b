"""Defines the compared quantities: the time to train and its factors (samples to converge, throughput, overhead), and
the quantity of each kind of measurement."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reports.statistics.ratios import Verdict
from reports.text.formatting import duration, percent, si, with_unit
from rules.records.columns import column_measure
from rules.records.kinds import find_record_type


@dataclass(frozen=True, kw_only=True, slots=True)
class Factor:
    """Quantity in which two results are compared, such as the throughput. `cause` is the quantity's name in sentences
    that give it as the cause of a difference. `show` formats a value with its unit.

    `sign` is -1 if a larger value means less time, else 1. `more` and `less` are the verdicts on a difference that,
    times `sign`, is positive or negative.
    """

    unit: str
    title: str
    show: Callable[[float], str]
    cause: str = ""
    sign: float = 1.0
    is_ratio: bool = True
    """True if results are compared by the ratio of a quantity (by logarithms), False if by its difference."""
    is_of_time: bool = True
    more: Verdict = "slower"
    less: Verdict = "faster"
    min_effect: float = 0.03
    """Smallest effect of interest in a compared quantity: a fraction for ratios, else a difference in the quantity's
    unit."""


def ratio_text(value: float) -> str:
    """Format a ratio of two results' values: '1.004'. Ratios below 0.1 or from 1,000 on have four significant
    digits."""
    return f"{value:.3f}" if 0.1 <= value < 1_000 else f"{value:.4g}"


def overhead_share(overhead: float) -> str:
    """Format the share of evaluation and overhead in the time to train: '5.4 %' for a factor of 1.057."""
    return percent(1.0 - 1.0 / overhead)


FACTORS: Mapping[str, Factor] = {
    "time_to_train": Factor(unit="s", title="time to train", show=duration, cause="time to train"),
    "samples_to_converge": Factor(unit="samples", title="samples to converge", show=si, cause="convergence"),
    "throughput": Factor(
        unit="samples/s", title="throughput", show=lambda value: f"{si(value)}/s", cause="throughput", sign=-1.0
    ),
    "overhead": Factor(
        unit="1",
        title="overhead",
        show=lambda value: f"{ratio_text(value)} ({overhead_share(value)})",
        cause="evaluation and overhead",
    ),
}
"""Time to train and its factors, in display order: a dict from names to quantities. The time to train is the samples
to converge, divided by the throughput, times the overhead."""


def factor_of(name: str) -> Factor:
    """Return the compared quantity that has the given name. The name of a factor of the time to train, such as
    'throughput', gives that factor. The name of a kind of measurement gives the quantity by which its results are
    compared.

    A name with a dot gives another quantity of a kind of measurement. 'quality.accuracy' is the accuracy, for files
    of the kind 'quality' that measure accuracy instead of the kind's usual metric. 'quality.train_s' is a column of
    the kind's table.
    """
    if name in FACTORS:
        return FACTORS[name]
    kind, _, member = name.partition(".")
    record = find_record_type(kind)
    measure = record.OTHER_MEASURES.get(member) or column_measure(kind, member) if member else record.MEASURE
    is_ratio, is_more_better = measure.scale == "ratio", measure.direction == "higher"
    return Factor(
        unit=measure.unit,
        title=measure.name,
        show=lambda value: with_unit(si(value), measure.unit) if is_ratio else f"{value:.5f}",
        is_ratio=is_ratio,
        is_of_time=False,
        more="better" if is_more_better else "worse",
        less="worse" if is_more_better else "better",
        min_effect=measure.min_effect,
    )
