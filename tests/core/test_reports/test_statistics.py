"""Intervals hold what they promise: checked by simulation, not by formula."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

import rules.benchmarks
from reports.statistics.intervals import (
    AT_LEAST,
    NOMINAL,
    log_reach,
    log_summary,
    spread_shares,
    time_interval,
)
from reports.statistics.ratios import Floats
from reports.statistics.sequential_stopping import STOPPING, narrow_after, sequential_interval, stopping_run
from rules.benchmarks.loader import load_benchmark

SIZES = [pytest.param(4_000, id="short"), pytest.param(20_000, id="long", marks=pytest.mark.long)]
NUM_RUNS = [5, 6, 7, 8, 10, 20]
FOLDER = Path(rules.benchmarks.__file__).parent
POINTS = sorted(FOLDER.rglob("*.rcps.json"))  # of older versions, too
times = st.sampled_from([5, 10]).flatmap(lambda n: st.lists(st.floats(0.1, 1e5), min_size=n, max_size=n))
steps = st.floats(0.0, 0.2)


@pytest.mark.parametrize("times_s", [[], [3.0] * 4, [1.0, 2.0, 3.0, 4.0, math.inf], [1.0, 2.0, math.nan, 4.0, 5.0]])
def test_no_interval_from_too_few_or_unfinished_runs(times_s: list[float]) -> None:
    assert time_interval(times_s, 0.07) is None


def test_an_interval_is_that_of_the_geometric_mean_with_the_floor_and_the_cell_of_its_grid() -> None:
    spread, equal = time_interval([5.0, 6.0, 7.0, 8.0, 9.0], 0.05), time_interval([6.0] * 5, 0.05)
    assert spread is not None and equal is not None
    logs = np.log([5.0, 6.0, 7.0, 8.0, 9.0])
    # t(4; 0.975) = 2.776445
    reach = 2.776445 * logs.std(ddof=1) / math.sqrt(5) + 0.05 / 5
    assert math.log(spread.high) == pytest.approx(logs.mean() + reach, rel=1e-6)
    assert math.log(spread.low) == pytest.approx(logs.mean() - reach, rel=1e-6)
    # Equal times have the variance 0.05^2 / 6 of five equal ones and one that lies a step away.
    assert math.log(equal.high / 6.0) == pytest.approx(2.776445 * 0.05 / math.sqrt(6 * 5) + 0.01, rel=1e-6)
    assert equal.low * equal.high == pytest.approx(36.0)
    assert spread.confidence == AT_LEAST


@settings(deadline=None, max_examples=examples(40))
@given(times, steps, st.randoms())
def test_order_of_the_runs_does_not_matter(times_s: list[float], step: float, random: Random) -> None:
    shuffled = list(times_s)
    random.shuffle(shuffled)
    one, other = time_interval(times_s, step), time_interval(shuffled, step)
    assert one is not None and other is not None
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


@settings(deadline=None, max_examples=examples(40))
@given(times, steps, st.floats(0.01, 100.0))
def test_interval_scales_with_the_unit(times_s: list[float], step: float, factor: float) -> None:
    seconds, other = time_interval(times_s, step), time_interval([t * factor for t in times_s], step)
    assert seconds is not None and other is not None
    assert other.low == pytest.approx(seconds.low * factor)
    assert other.high == pytest.approx(seconds.high * factor)


_FREE = {
    "normal": lambda draw, shape: 1.0 + 0.1 * draw.standard_normal(shape),
    "lognormal, 10 %": lambda draw, shape: np.exp(0.1 * draw.standard_normal(shape)),
    "lognormal, 30 %": lambda draw, shape: np.exp(0.3 * draw.standard_normal(shape)),
    "Student's t, 3 degrees": lambda draw, shape: np.exp(0.05 * draw.standard_t(3, shape)),
}


@pytest.mark.parametrize("num_sets", SIZES)
@pytest.mark.parametrize("name", _FREE)
def test_intervals_of_free_times_hold_what_student_promises(name: str, num_sets: int) -> None:
    """Never more than a point below 95 %, which is more than is said."""
    draw = np.random.default_rng(3)
    centre = np.log(_FREE[name](draw, 2_000_000)).mean()
    for num_runs in NUM_RUNS:
        held = held_share(np.log(_FREE[name](draw, (num_sets, num_runs))), 1e-4, centre)
        assert held >= NOMINAL - 0.01 - 2.5 * math.sqrt(0.05 / num_sets) and held > AT_LEAST - 0.01, num_runs


def epochs_of(path: Path, entry: dict[str, Any]) -> Floats:
    """The epochs of an entry, also where its benchmark tells convergence in samples."""
    benchmark = load_benchmark(path.with_name(f"{entry['Benchmark']}.toml"))
    in_samples = benchmark.quality.convergence_unit == "samples_count"
    an_epoch = (benchmark.data_samples("train_samples") or 0) if in_samples else 1
    return np.asarray(entry["Epochs to converge"]) / an_epoch


@pytest.mark.parametrize("num_sets", SIZES)
@pytest.mark.parametrize("path", POINTS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_intervals_of_the_shipped_benchmarks_times_hold_what_they_say(path: Path, num_sets: int) -> None:
    """Sets resampled from the reference runs, whose epochs are on the grid of 20 evaluations."""
    draw, is_wider = np.random.default_rng(4), []
    for entry in json.loads(path.read_text()).values():
        epochs = epochs_of(path, entry)
        for num_runs in NUM_RUNS:
            drawn = draw.choice(epochs, (num_sets, num_runs))
            held = held_share(np.log(drawn), (0.05 / drawn).mean(axis=1), np.log(epochs).mean())
            slack = 2.5 * math.sqrt(0.08 / num_sets) if num_sets < 20_000 else 0.0
            assert held >= AT_LEAST - 0.01 - slack, (entry["BS"], num_runs)
            if num_runs == 5:
                bare = stdtrit(4, 0.975) * np.log(drawn).std(axis=1, ddof=1) / math.sqrt(5)
                is_wider.append(held > np.mean(np.abs(np.log(drawn).mean(axis=1) - np.log(epochs).mean()) <= bare))
    assert any(is_wider)


def held_share(logs: Floats, step: Floats | float, centre: float) -> float:
    """The share of sets [num_sets, num_runs] whose interval holds `centre`, with sums' rounding on its side."""
    return float(np.mean(np.abs(logs.mean(axis=1) - centre) <= log_reach(logs, step) + 1e-9))


def test_log_summary_states_spread_and_geometric_interval() -> None:
    summary = log_summary([8.0, None, 2.0, 4.0], step=0.0)
    assert summary is not None and summary.interval is not None
    assert summary.num_values == 3
    assert summary.geometric_mean == pytest.approx(4.0)
    assert summary.coefficient_of_variation == pytest.approx(float(np.std([8, 2, 4], ddof=1)) / (14 / 3))
    # t(2; 0.975) = 4.302653, deviation of the logs is ln 2.
    assert math.log(summary.interval.high / 4.0) == pytest.approx(4.302653 * math.log(2) / math.sqrt(3), rel=1e-6)
    assert summary.interval.low * summary.interval.high == pytest.approx(16.0)


@pytest.mark.parametrize("values", [[], [None], [1.0, 0.0], [1.0, math.inf], [1.0, -2.0]])
def test_log_summary_invents_nothing(values: list[float | None]) -> None:
    assert log_summary(values) is None


def test_one_run_has_no_deviation() -> None:
    summary = log_summary([5.0], step=0.0)
    assert summary is not None
    assert summary.coefficient_of_variation is None
    assert summary.interval is None


def test_spread_shares_name_the_factor_that_varies() -> None:
    samples, rates = [100.0, 200.0, 400.0], [10.0, 10.0, 10.0]
    shares = spread_shares([10.0, 20.0, 40.0], [samples, [1 / rate for rate in rates]])
    assert shares == pytest.approx((1.0, 0.0))


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0.5, 2), st.floats(1, 1.5)), min_size=3, max_size=10))
def test_spread_shares_add_up(rows: list[tuple[float, float, float]]) -> None:
    factors = list(zip(*rows, strict=True))
    totals = [a * b * c for a, b, c in rows]
    shares = spread_shares(totals, factors)
    assert shares is None or sum(shares) == pytest.approx(1.0, abs=1e-6)


def test_spread_shares_need_spread_and_three_runs() -> None:
    assert spread_shares([1.0, 1.0, 1.0], [[1.0, 1.0, 1.0]]) is None
    assert spread_shares([1.0, 2.0], [[1.0, 2.0]]) is None
    assert spread_shares([1.0, 2.0, 0.0], [[1.0, 2.0, 0.0]]) is None


def test_an_interval_needs_a_grid_and_is_never_without_width() -> None:
    unknown, equal = log_summary([5.0, 6.0]), log_summary([6.0, 6.0], step=1e-6)
    assert unknown is not None and unknown.interval is None and unknown.coefficient_of_variation is not None
    assert equal is not None and equal.interval is not None and equal.interval.low < 6.0 < equal.interval.high


def grown(logs: Floats, step: Floats | float, width: float) -> tuple[Floats, Floats]:
    """Means and reaches of sets [num_sets, most] that grow from 5 runs on."""
    ends = stopping_run(logs, step, width, 5)
    means, reaches = np.empty(len(logs)), np.empty(len(logs))
    steps = np.broadcast_to(step, logs.shape)
    for end in np.unique(ends):
        is_here, num = ends == end, int(end) or logs.shape[1]
        means[is_here] = logs[is_here, :num].mean(axis=1)
        reaches[is_here] = log_reach(logs[is_here, :num], steps[is_here, :num].mean(axis=1), STOPPING)
    return means, reaches


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 0.03, 0.05, 0.08])
def test_the_interval_of_a_set_that_grew_holds_95_percent_of_free_times(spread: float) -> None:
    """Grown by the deciding function; Student's t at 95 % would hold in as few as 92 %."""
    logs = spread * np.random.default_rng(11).standard_normal((20_000, 60))
    means, reaches = grown(logs, 1e-4, 0.03)
    assert np.mean(np.abs(means) <= reaches) >= 0.945
    if spread == 0.05:
        ends = stopping_run(logs, 1e-4, 0.03, 5)
        naive = reaches * stdtrit(ends - 1, 0.975) / stdtrit(ends - 1, (1 + STOPPING) / 2)
        assert np.mean((np.abs(means) <= naive)[ends > 0]) < 0.93


@pytest.mark.slow
@pytest.mark.parametrize("path", POINTS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_the_interval_of_a_set_that_grew_holds_what_it_says_on_the_grid(path: Path) -> None:
    draw = np.random.default_rng(12)
    for entry in json.loads(path.read_text()).values():
        epochs = epochs_of(path, entry)
        drawn = draw.choice(epochs, (20_000, 30))
        for width in (0.03, 0.05):
            means, reaches = grown(np.log(drawn), 0.05 / drawn, width)
            held = np.mean(np.abs(means - np.log(epochs).mean()) <= reaches + 1e-9)
            assert held >= AT_LEAST - 0.01, (entry["BS"], width)


def test_growth_decides_and_shows_by_one_interval() -> None:
    times_s, step = [6.0, 6.2, 6.1, 6.0, 6.1, 6.05], 0.001
    interval = sequential_interval(times_s, step)
    assert interval is not None
    far = math.expm1(math.log(interval.high) - float(np.log(times_s).mean()))
    assert narrow_after(times_s, [step] * 6, far * 1.0001, 6) and not narrow_after(
        times_s, [step] * 6, far * 0.9999, 6
    )


def test_growth_waits_for_the_least_runs_and_for_every_time() -> None:
    fine = [1e-4] * 10
    assert not narrow_after([1.0] * 4, fine[:4], 0.03, 5) and narrow_after([1.0] * 5, fine[:5], 0.03, 5)
    assert not narrow_after([1.0] * 9 + [math.inf], fine, 0.03, 5)
    assert not narrow_after(
        [1.0] * 5, [0.07] * 5, 0.03, 5
    )  # an evaluation is a coarse step, and 5 equal times are luck
    assert sequential_interval([1.0, math.inf], 1e-4) is None and sequential_interval([1.0], 1e-4) is None
    assert stopping_run(np.log([[1.0, 2.0] * 10, [1.0, 1.001] * 10]), 1e-4, 0.03, 5).tolist() == [0, 5]
