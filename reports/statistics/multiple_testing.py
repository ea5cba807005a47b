"""A family of tests, judged at once: all differences of all comparisons that are shown together, at Holm's levels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.statistics.distributions import student_quantile
from reports.statistics.ratios import Difference, Floats, decide, holm_levels


@dataclass(frozen=True, kw_only=True, slots=True)
class TestResult:
    """What became of one difference at Holm's levels: two-sided for being one, one-sided for being within its margin.

    `found` is what `decide` says of it, `in_turns` what it would have said had there been no band.
    """

    apart: float
    within: float
    found: str
    in_turns: str


def judge_family(
    family: Sequence[tuple[float, Difference]], shares: Sequence[float], confidence: float
) -> tuple[list[TestResult], list[float]]:
    """Judge differences, each with its margin, and return the levels of further p, `shares`, of the same family."""
    if not family:
        return [], _holm(shares, confidence)
    margins, differences = np.asarray([margin for margin, _ in family]), _stack([each for _, each in family])
    levels = _holm([*differences.apart_p().tolist(), *shares], confidence)
    apart, within = levels[: len(family)], _holm(differences.within_p(margins).tolist(), confidence)
    found, in_turns = (
        decide(each, np.asarray(apart), margins, np.asarray(within)).tolist()
        for each in (differences, differences.without_band())
    )
    columns = zip(apart, within, found, in_turns, strict=True)
    return [TestResult(apart=a, within=w, found=f, in_turns=t) for a, w, f, t in columns], levels[len(family) :]


def confidence_with_best(number: int, confidence: float) -> float:
    """Return the confidence at which the best of so many is compared with the others, to hold `confidence` over all
    pairs: any of them may turn out the best, and in each pair either may be called worse.
    """
    return 1.0 - 2.0 * (1.0 - confidence) / number


def least_apart(values: Floats, confidence: float) -> float:
    """Return how far apart the means of two groups have to lie, over all pairs, by the spread of all `values`.

    Of groups that took turns [groups, rounds], by what the means of groups and rounds leave: Student's t at
    Bonferroni's level. A disturbance that met every run of one group and none of another is in no spread of the two.
    """
    number, rounds = values.shape
    left = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    degrees, tail = (number - 1) * (rounds - 1), (1.0 - confidence) / (number * (number - 1))
    error = np.sqrt(np.square(left).sum() / degrees * 2.0 / rounds)
    return float(student_quantile(degrees, 1.0 - tail) * error)


def _holm(p_values: Sequence[float], confidence: float) -> list[float]:
    family = np.asarray(p_values, dtype=np.float64)
    return [float(level) for level in holm_levels(family, 1.0 - confidence)] if len(family) else []


def _stack(differences: Sequence[Difference]) -> Difference:
    """Single differences as one, whose arrays hold them in their order."""
    columns = (
        [getattr(each, name) for each in differences] for name in ("mean", "standard_error", "degrees", "band")
    )
    mean, error, degrees, band = (np.asarray(column, dtype=np.float64) for column in columns)
    return Difference(mean=mean, standard_error=error, degrees=degrees, band=band)
