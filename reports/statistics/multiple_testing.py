"""Tests families of differences by Holm's method. A family has all differences of all comparisons that are shown
together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.statistics.distributions import student_quantile
from reports.statistics.ratios import Difference, Floats, decide, holm_levels


@dataclass(frozen=True, kw_only=True, slots=True)
class TestResult:
    """Result of testing one difference in a family by Holm's method. `apart` is the two-sided level at which the
    difference is tested against zero. `within` is the one-sided level at which it is tested for equivalence: that it
    lies within the margin.

    `found` is the verdict of these tests. `in_turns` is the verdict without drift tolerance, as if the runs had been
    made alternately (A/B).
    """

    apart: float
    within: float
    found: str
    in_turns: str


def judge_family(
    family: Sequence[tuple[float, Difference]], shares: Sequence[float], confidence: float
) -> tuple[list[TestResult], list[float]]:
    """Test one family of differences by Holm's method. Each item of `family` is a pair (margin, difference); the
    margin is the smallest effect. `shares` are p-values of further tests that count in the family, such as tests on
    the shares of runs that converged.

    Returns the results of the differences, and the levels at which the further tests are made.
    """
    if not family:
        return [], _holm(shares, confidence)
    margins, differences = np.asarray([margin for margin, _ in family]), _stack([each for _, each in family])
    levels = _holm([*differences.apart_p().tolist(), *shares], confidence)
    apart, within = levels[: len(family)], _holm(differences.within_p(margins).tolist(), confidence)
    found, in_turns = (
        decide(each, np.asarray(apart), margins, np.asarray(within)).tolist()
        for each in (differences, differences.without_tolerance())
    )
    columns = zip(apart, within, found, in_turns, strict=True)
    return [TestResult(apart=a, within=w, found=f, in_turns=t) for a, w, f, t in columns], levels[len(family) :]


def confidence_with_best(number: int, confidence: float) -> float:
    """Return the two-sided confidence level for comparing the best of `number` groups with each other group. The
    level is corrected for all pairs of groups, because the best group is chosen from the same data, so that
    `confidence` holds over all of them together."""
    return 1.0 - 2.0 * (1.0 - confidence) / number


def least_apart(values: Floats, confidence: float) -> float:
    """Return the least significant difference between the means of two groups (configurations), which holds over all
    pairs of groups.

    `values` [groups, rounds] were measured alternately, each group once per round. The difference is computed by
    Student's t at Bonferroni's level. Its standard error is estimated from the residuals of all groups, after the
    means of groups and of rounds are subtracted. Residuals of only the two compared groups would miss noise that
    affected every run of one group and no run of the other.
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
    """Return one Difference whose members are arrays with the values of the given differences, in their order, so
    that all are tested at once."""
    columns = (
        [getattr(each, name) for each in differences] for name in ("mean", "standard_error", "degrees", "tolerance")
    )
    mean, error, degrees, tolerance = (np.asarray(column, dtype=np.float64) for column in columns)
    return Difference(mean=mean, standard_error=error, degrees=degrees, tolerance=tolerance)
