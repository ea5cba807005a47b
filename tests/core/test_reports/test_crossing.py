"""The smoothed crossing: exact where there is no noise, less spread where there is, none where there is no line."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_builder import make_runs, write_set

from reports.page.sections.runs import runs_table
from reports.parts.score import describe_score
from reports.results.logs import gather
from reports.results.resolution import smoothed_samples
from reports.statistics.ratios import Floats
from reports.statistics.time_to_target import NUM_FITTED, smoothed_crossing
from reports.tables.frames import runs_frame
from reports.tables.rows import document_of, run_members
from reports.text.formatting import count
from reports.views.score import score_blocks, scores_csv
from rules.benchmarks.loader import load_benchmark
from rules.logs import keys

PLACES = np.arange(1, 21) * 16_384.0
TARGET = 0.8


@given(st.floats(0.2, 0.95), st.floats(0.005, 0.2))
def test_a_line_in_the_logarithm_is_met_where_it_meets_the_target(share: float, slope: float) -> None:
    crossing = share * PLACES[-1]
    found = smoothed_crossing(PLACES, TARGET + slope * np.log(PLACES / crossing), TARGET)
    assert found == pytest.approx(crossing)


def test_only_the_last_points_up_to_the_first_that_met_the_target_are_fitted() -> None:
    line = TARGET + 0.03 * np.log(PLACES / PLACES[13])
    disturbed = line.copy()
    disturbed[: 14 - NUM_FITTED] -= 0.2
    disturbed[14:] = 0.1
    assert smoothed_crossing(PLACES, disturbed, TARGET) == pytest.approx(PLACES[13])
    disturbed[14 - NUM_FITTED] -= 0.2
    assert smoothed_crossing(PLACES, disturbed, TARGET) != pytest.approx(PLACES[13])


@pytest.mark.parametrize(("persistent", "within"), [(0.0010, 0.0005), (0.0008, 0.0008)])
def test_it_varies_less_than_the_first_evaluation_that_met_the_target(persistent: float, within: float) -> None:
    """Curves as those of seeds of a benchmark whose samples to converge vary by 4 to 5 %, cut where they end."""
    draw = np.random.default_rng(8)
    curve = TARGET + 0.029 * np.log(PLACES / (0.7 * PLACES[-1]))
    first, smoothed = [], []
    for _ in range(2_000):
        qualities = curve + persistent * draw.standard_normal() + within * draw.standard_normal(len(curve))
        end = int(np.argmax(qualities >= TARGET)) + 1
        value = smoothed_crossing(PLACES[:end], qualities[:end], TARGET)
        assert value is not None
        first.append(PLACES[end - 1])
        smoothed.append(value)
    assert 0.035 < variation(np.asarray(first)) < 0.055
    assert variation(np.asarray(smoothed)) < 0.92 * variation(np.asarray(first))


def variation(values: Floats) -> float:
    return float(values.std(ddof=1) / values.mean())


@pytest.mark.parametrize(
    ("samples", "qualities"),
    [
        ([], []),
        ([1.0, 2.0], [0.7, 0.9]),
        ([1.0, 2.0, 3.0], [0.6, 0.7, 0.79]),
        ([1.0, 2.0, 3.0], [0.81, 0.82, 0.83]),
        ([1.0, 2.0, 2.0], [0.6, 0.7, 0.81]),
        ([0.0, 2.0, 3.0], [0.6, 0.7, 0.81]),
        ([1.0, 2.0, 3.0], [0.6, math.nan, 0.81]),
        ([1.0, 2.0, math.inf], [0.6, 0.7, 0.81]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.79, 0.2, 0.1, 0.1, 0.1, 0.8]),
        ([10.0, 11.0, 12.0], [0.1, 0.1, 0.8]),
    ],
)
def test_there_is_none_without_a_line_that_rises_to_the_target(samples: list[float], qualities: list[float]) -> None:
    found = smoothed_crossing(samples, qualities, TARGET)
    assert found is None or samples[0] <= found <= 2 * samples[-1] - samples[-2]
    assert (found is None) is (samples != [10.0, 11.0, 12.0])


def test_it_is_shown_with_its_label_and_enters_no_score(tmp_path: Path) -> None:
    benchmark = load_benchmark("dlrm_tiny")
    runs = make_runs(benchmark)
    for records in runs:
        entries = [record for record in records if record["key"] == keys.EVAL_ACCURACY]
        for number, entry in enumerate(entries, start=1):
            entry["value"] = benchmark.quality.target + 0.03 * math.log(number / (len(entries) - 0.4))
    write_set(tmp_path, benchmark, runs)
    (result,) = gather([tmp_path], second_opinion=False)
    values = [smoothed_samples(run.log) for run in result.runs]
    assert values == [
        pytest.approx(run.log.samples_to_converge * (1 - 0.4 / len(run.log.evaluations)))
        for run in result.runs
        if run.log.samples_to_converge
    ]
    assert [member.samples_to_converge_smoothed for member in run_members(result)] == values
    assert runs_frame(document_of([result]))["samples_to_converge_smoothed"].tolist() == values
    page = runs_table([result], "runs")
    place = [(column.name, column.help) for column in page.columns].index(("Samples", "interpolated"))
    assert [row[place].text for row in page.rows] == [count(value) for value in values]
    record = describe_score(result)
    mean = record.samples_to_converge_smoothed
    assert mean == pytest.approx(math.exp(float(np.log(values).mean())))
    (table,) = score_blocks([record])
    assert "samples, interpolated" in [column.name for column in table.columns]  # type: ignore[union-attr]
    assert "samples_to_converge_smoothed" in scores_csv([record]).splitlines()[0].split(",")
    assert record.score_s == result.score.olympic_mean_s  # which is of times alone
    stopped = replace(result.runs[0].log, converged=False)
    assert smoothed_samples(stopped) is None
    unplaced = tuple(replace(entry, samples_count=None, epoch_num=None) for entry in stopped.evaluations)
    assert smoothed_samples(replace(result.runs[0].log, evaluations=unplaced)) is None
