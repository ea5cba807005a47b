"""A suite's verdicts hold for the suite as a whole, and its mean's interval for its benchmarks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from suite_builder import RATE, make_suite, make_template

from harness.extensions.suites.shown import SuiteFacts, SuiteRow, compare_suite, find_mean
from reports.results.result import Result

TRIES, NUM_PROCESSES = 500, 5
DIFFERENCES = ("faster", "slower", "better", "worse")
SPEEDS = (1.0, 0.3, 20.0)
"""Of three tiny benchmarks, whose rates have nothing in common."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return make_template(tmp_path_factory.mktemp("suite"))


def draw(
    generator: np.random.Generator, noise: float, factors: tuple[float, ...] = (1.0, 1.0, 1.0), shared: float = 0.0
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Rates of both sides of three benchmarks; `factors` are new's against base's, `shared` the drift of a round."""
    drift = shared * generator.standard_normal(NUM_PROCESSES)
    return [
        (
            RATE * speed * np.exp(drift + noise * generator.standard_normal(NUM_PROCESSES)),
            RATE * speed * factor * np.exp(drift + noise * generator.standard_normal(NUM_PROCESSES)),
        )
        for speed, factor in zip(SPEEDS, factors, strict=True)
    ]


def judge(template: Result, *drawn: object, **more: float) -> tuple[SuiteRow, ...]:
    return compare_suite(make_suite(template, draw(*drawn, **more)))  # type: ignore[arg-type]


def verdicts(rows: tuple[SuiteRow, ...]) -> list[str]:
    return [row.comparison.verdict for row in rows if row.comparison is not None]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "shared"), [(0.01, 0.0), (0.05, 0.05), (0.2, 0.0)])
def test_a_suite_against_itself_has_a_verdict_of_a_difference_in_at_most_5_percent(
    noise: float, shared: float, template: Result
) -> None:
    generator = np.random.default_rng(7)
    found = [verdicts(judge(template, generator, noise, shared=shared)) for _ in range(TRIES)]
    assert all(len(each) == 3 for each in found)
    assert sum(any(verdict in DIFFERENCES for verdict in each) for each in found) <= 0.05 * TRIES


@pytest.mark.slow
def test_a_slow_down_of_10_percent_in_one_of_three_is_found_and_named(template: Result) -> None:
    generator = np.random.default_rng(8)
    found = [verdicts(judge(template, generator, 0.01, (1.0, 1 / 1.1, 1.0))) for _ in range(TRIES)]
    assert sum(each[1] == "slower" and not {each[0], each[2]} & set(DIFFERENCES) for each in found) >= 0.9 * TRIES


@pytest.mark.slow
def test_the_means_interval_holds_the_truth_in_95_of_100_suites(template: Result) -> None:
    generator, factors = np.random.default_rng(9), (1.3, 0.9, 1.0)
    truth, held = math.prod(factors) ** (1 / 3), 0
    for _ in range(TRIES):
        mean = find_mean(judge(template, generator, 0.03, factors))
        assert mean is not None and mean.interval is not None and mean.num_benchmarks == 3
        held += mean.interval.low <= truth <= mean.interval.high
    assert 0.93 * TRIES <= held <= 0.98 * TRIES


def test_the_mean_is_that_of_the_ratios_and_takes_no_side(template: Result) -> None:
    rates = draw(np.random.default_rng(10), 0.0, (2.0, 0.5, 1.0))
    mean = find_mean(compare_suite(make_suite(template, rates)))
    assert mean is not None and mean.ratio == pytest.approx(1.0)
    forwards = draw(np.random.default_rng(11), 0.05, (1.2, 1.1, 0.9))
    backwards = [(new, base) for base, new in forwards]
    one, other = (find_mean(compare_suite(make_suite(template, each))) for each in (forwards, backwards))
    assert one is not None and one.interval is not None and other is not None and other.interval is not None
    assert one.ratio * other.ratio == pytest.approx(1.0)
    assert one.interval.low * other.interval.high == pytest.approx(1.0)


def test_one_that_failed_is_named_and_left_out(template: Result) -> None:
    rates = draw(np.random.default_rng(12), 0.01, (1.2, 1.2, 1.2))
    pairs = make_suite(template, rates)
    base, new = pairs[1]
    pairs[1] = base, replace(new, failure="out of memory", result=None)
    rows = compare_suite(pairs)
    mean = find_mean(rows)
    assert mean is not None and mean.num_benchmarks == 2 and mean.ratio == pytest.approx(1.2, rel=0.02)
    facts = SuiteFacts(name="s", kind="throughput", base_seed=1, num_runs=5, rows=rows, mean=mean, problems=())
    assert [row.benchmark for row in facts.failed] == ["benchmark 1"]
    assert "Left out of the mean: benchmark 1 (benchmark 1, new: out of memory)." in facts.findings
    assert "failed: benchmark 1" in facts.title and "2 benchmarks" in facts.title
    assert facts.tables[0].rows[1] == ("benchmark 1", None, None, None, None, None, None, "failed")
    assert not any("MLPerf score" in line and "not an MLPerf score" not in line for line in facts.findings)


def test_a_suite_of_failures_alone_has_no_mean(template: Result) -> None:
    pairs = make_suite(template, draw(np.random.default_rng(13), 0.01))
    rows = compare_suite([(replace(base, result=None), new) for base, new in pairs])
    facts = SuiteFacts(name="s", kind="throughput", base_seed=1, num_runs=5, rows=rows, mean=None, problems=())
    assert find_mean(rows) is None and len(facts.failed) == 3 and len(facts.tables) == 1
    assert "no benchmark of the suite has a ratio" in facts.title
