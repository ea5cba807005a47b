"""Runs that lie apart from the others of their set: how often one is named that does, and one that does not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from comparison_builder import make_run

from reports.parts.noise import outlier_words
from reports.results.result import Result
from reports.results.result import make_run as run_of
from reports.statistics.outliers import find_outliers
from rules.records.load import LoadRecord


def draw(number: int, noise: float, size: int = 5) -> list[list[float]]:
    found: list[list[float]] = np.random.default_rng(3).normal(0.0, noise, (number, size)).tolist()
    return found


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
@pytest.mark.parametrize("size", [5, 10])
def test_a_run_that_is_35_percent_slower_is_found(noise: float, size: int) -> None:
    found = [find_outliers([logs[0] - np.log(1.35), *logs[1:]]) for logs in draw(150, noise, size)]
    assert np.mean([places == (0,) for places in found]) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 150)


@pytest.mark.parametrize("noise", [0.003, 0.03, 0.04])
@pytest.mark.parametrize("size", [5, 10])
def test_of_sets_without_one_at_most_2_percent_name_any(noise: float, size: int) -> None:
    share = np.mean([bool(find_outliers(logs)) for logs in draw(150, noise, size)])
    assert share <= 0.02 + 3 * np.sqrt(0.02 * 0.98 / 150)


def test_what_is_near_is_no_outlier_however_alike_the_others_are() -> None:
    assert find_outliers([0.0, 1e-6, -1e-6, 0.0, np.log(1.09)]) == ()
    assert find_outliers([0.0, 1e-6, -1e-6, 0.0, np.log(1.11)]) == (4,)
    assert find_outliers([0.0] * 4 + [5.0]) == (4,) and find_outliers([0.0] * 4) == find_outliers([]) == ()


def test_it_is_named_by_its_run_seed_and_speed() -> None:
    runs = [
        make_run("a", at, samples_to_converge=700_000, throughput_samples_per_s=rate, time_to_train_s=7e5 / rate)
        for at, rate in enumerate((10_000.0, 10_050.0, 9_980.0, 6_500.0, 10_010.0))
    ]
    named = tuple(replace(run_of(log), label=str(at)) for at, log in enumerate(runs))
    result = Result(label="a", source="logs", benchmark="dlrm_tiny", repetitions=named)
    words = outlier_words(result)
    assert words is not None and words.startswith("run 3") and words.count("×") == 1
    assert words.endswith("at 0.649× the speed of the others")


def load_of(load_avg: float = 0.5, others: float | None = 0.1, mhz: float | None = 3000.0) -> LoadRecord:
    return LoadRecord(
        num_cpus=2,
        duration_s=9.0,
        load_avg_before=load_avg,
        load_avg_after=2.0,
        other_cpus=others,
        cpu_clock_mhz=mhz,
        max_temperature_c=61.0,
    )


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (load_of(), None),
        (load_of(8.0), "load average 8.00 when it began (0.50)"),
        (load_of(others=1.8), "other work kept 1.8 of 2 CPUs busy (0.1)"),
        (load_of(mhz=2000.0), "CPUs at 2,000 MHz (3,000)"),
        (
            load_of(8.0, others=1.8),
            "load average 8.00 when it began (0.50), other work kept 1.8 of 2 CPUs busy (0.1)",
        ),
        (load_of(0.55, others=0.15, mhz=2990.0), None),
        (None, None),
    ],
)
def test_what_else_was_different_of_it_is_said(odd: LoadRecord | None, said: str | None) -> None:
    logs = [
        make_run("a", at, samples_to_converge=700_000, throughput_samples_per_s=rate, time_to_train_s=7e5 / rate)
        for at, rate in enumerate((10_000.0, 10_050.0, 9_980.0, 6_500.0, 10_010.0))
    ]
    runs = tuple(
        replace(run_of(log), record=SimpleNamespace(loads=(load_of() if at != 3 else odd,)))
        for at, log in enumerate(logs)
    )
    words = outlier_words(Result(label="a", source="logs", benchmark="dlrm_tiny", repetitions=runs))
    assert words is not None and words.endswith("others" if said is None else f"the others, while {said}"), words
