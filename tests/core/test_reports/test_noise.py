"""What a set says of its own noise: the parts of its spread, and the smallest difference that its like would show."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_builder import make_run, make_side
from log_builder import START_MS, make_records, make_runs
from records_builder import (
    pair_content,
    process_content,
    quality_content,
    quality_process,
    run_set_content,
    throughput_content,
    write_group,
)
from report_builder import Page, write_run_set

from reports import frames
from reports.comparison.comparison import compare_results
from reports.comparison.drift_tolerance import DriftTolerance
from reports.comparison.noise import find_tolerances, noise_of_runs
from reports.facts.noise import Smallest, noise_of, noise_of_rates, noise_of_values
from reports.page.content import ReportContent, gather_everything
from reports.page.exports import export_json
from reports.page.report import render_report
from reports.parts.noise import shares_words, size_text, smallest_words, turns_text
from reports.render.terminal import render_terminal
from reports.results.logs import gather
from reports.results.measured import read_measured
from reports.results.result import Result
from reports.results.result import make_run as run_of
from reports.statistics.power import FIRST_LEVEL, POWER, smallest_apart
from reports.statistics.ratios import decide, welch_difference
from reports.views.measurement import measured_blocks, measurement_document
from rules.benchmarks.loader import load_benchmark
from rules.scoring.results import RunResult

TINY = load_benchmark("dlrm_tiny")
TOLERANCES = {"time_to_train": 0.2, "throughput": 0.2}
NO_DRIFT = dict.fromkeys(TOLERANCES, 0.0)
EPOCHS = (0.55, 0.65, 0.7, 0.75, 0.6)


def standard(number: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values with a mean of 0 and a standard deviation of 1."""
    values = np.random.default_rng(3).standard_normal(number)
    return np.asarray((values - values.mean()) / values.std(ddof=1))


def as_in_turns(values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values whose neighbours differ as two independent ones of variance 1 do."""
    return np.asarray(values * np.sqrt(2 / np.square(np.diff(values)).mean()))


def side(rates: Sequence[float], label: str = "base", offset: int = 0, **options: Any) -> Result:
    """Runs of equal seeds after EPOCHS; those of sides with offsets 0 and 1 take turns."""
    number = len(rates)
    starts = [float(2 * index + offset) for index in range(number)]
    epochs = [EPOCHS[index % 5] for index in range(number)]
    made = make_side(label, epochs, rates, seeds=list(range(number)), starts=starts, **options)
    curves = [((epoch, 0.7 + index / 1e3),) for index, epoch in enumerate(epochs)]  # equal seeds, equal curves
    return replace(made, repetitions=tuple(map(lambda run, curve: replace(run, curve=curve), made.runs, curves)))


@pytest.mark.slow
@pytest.mark.parametrize("num_runs", [5, 10])
@pytest.mark.parametrize("spread", [0.003, 0.05])
def test_pairs_in_turns_find_what_is_promised_by_the_verdicts_of_comparisons(num_runs: int, spread: float) -> None:
    """The level is the strictest of the four factors', so four of five is the least."""
    noise = noise_of(
        side(1e4 * np.exp(spread * as_in_turns(standard(num_runs)))).samples, min_effect=0.03, tolerances=TOLERANCES
    )
    assert noise.time is not None and noise.time.in_turns is not None and noise.throughput is not None
    generator = np.random.default_rng(4)

    def share_found(time_ratio: float) -> float:
        rates = (1e4 * np.exp(spread * generator.standard_normal((100, 2, num_runs)))) / [[1.0], [time_ratio]]
        pairs = ((side(base), side(new, "new", 1)) for base, new in rates)
        return float(np.mean([compare_results(base, [new])[0].factors[0].verdict == "slower" for base, new in pairs]))

    assert share_found(1 + noise.time.in_turns) >= POWER - 0.1
    assert share_found(1 + noise.time.in_turns / 2) < 0.5


def test_a_later_set_must_differ_by_more_than_drift_and_the_more_the_wider_the_spread() -> None:
    rates = 1e4 * np.exp(0.01 * standard(5))
    noise = noise_of(side(rates).samples, min_effect=0.03, tolerances=TOLERANCES)
    assert noise.throughput is not None and noise.time is not None
    expected = smallest_apart(0.01, 5, 5, min_effect=0.03, tolerance=0.2)
    assert noise.throughput.apart == pytest.approx(expected) and expected > 0.2
    assert noise.time.apart > noise.throughput.apart, "convergence varies, too"
    undisturbed = noise_of(side(rates).samples, min_effect=0.03, tolerances=NO_DRIFT)
    assert undisturbed.throughput is not None and undisturbed.throughput.apart < 0.05


def test_equal_runs_do_not_promise_certainty() -> None:
    """On a grid of 5 % of an epoch five runs often agree, which says little of the next ones."""
    same = make_side("same", [0.7] * 5, [1e4] * 5)
    noise = noise_of(same.samples, min_effect=0.0, tolerances=NO_DRIFT)
    assert noise.time is not None and noise.throughput is not None
    assert noise.time.apart > 0.05 and 0 < noise.throughput.apart < 0.001


def test_the_parts_of_the_spread_are_named() -> None:
    for options, largest in (
        ({}, "convergence"),
        ({"epochs": [0.7] * 5, "rates": [1e4, 2e4, 3e4, 4e4, 5e4]}, "speed"),
        ({"epochs": [0.7] * 5, "overheads": [1.1, 1.2, 1.3, 1.4, 1.5]}, "overhead"),
    ):
        values: dict[str, Any] = {"epochs": EPOCHS, "rates": [1e4] * 5} | options
        shares = noise_of(make_side("a", **values).samples, min_effect=0.03, tolerances=TOLERANCES).shares
        assert shares is not None
        assert getattr(shares, largest) == pytest.approx(1)
        assert shares.convergence + shares.speed + shares.overhead == pytest.approx(1)


def test_a_part_that_works_against_the_others_is_said_in_words() -> None:
    """The longer a run takes by its samples, the smaller is here what its evaluations take of it."""
    run_set = make_side("a", EPOCHS, [1e4] * 5, overheads=[1.1 - 0.05 * epoch for epoch in EPOCHS])
    shares = noise_of(run_set.samples, min_effect=0.03, tolerances=TOLERANCES).shares
    assert shares is not None and shares.overhead < -0.02
    assert shares_words(shares) == (
        f"convergence {100 * shares.convergence:.0f} %, speed 0 %, evaluation and overhead "
        f"−{-100 * shares.overhead:.0f} % (a negative share offsets the others)"
    )


def test_a_measurement_alone_is_one_test_of_its_own_scale() -> None:
    rates = 1e4 * np.exp(0.02 * standard(5))
    alone = noise_of_rates(rates, min_effect=0.0, tolerance=0.0)
    assert alone is not None and alone.apart < smallest_apart(0.02, 5, 5, level=FIRST_LEVEL)
    smallest = noise_of_values(0.75 + 0.002 * standard(8), min_effect=0.001)
    assert smallest is not None and smallest.in_turns is None
    generator = np.random.default_rng(5)
    base, new = 0.002 * generator.standard_normal((2, 4_000, 8)) + [[[0.75]], [[0.75 + smallest.apart]]]
    verdicts = decide(welch_difference(base, new, step=0), np.asarray(0.05), 0.001)
    assert np.mean(verdicts == "slower") == pytest.approx(POWER, abs=0.025)


def test_few_runs_and_what_no_log_says_are_not_guessed() -> None:
    few = noise_of(side([1e4, 1.1e4, 1.2e4, 1.3e4]).samples, min_effect=0.03, tolerances=TOLERANCES)
    assert few.shares is not None and (few.num_runs, few.time, few.throughput) == (4, None, None)
    none = noise_of((), min_effect=0.03, tolerances=TOLERANCES)
    assert (none.num_runs, none.shares, none.time, none.throughput) == (0, None, None, None)
    without_rates = noise_of(make_side("a", EPOCHS, [None] * 5).samples, min_effect=0.03, tolerances=TOLERANCES)
    assert without_rates.time is not None and without_rates.time.in_turns is None
    assert (without_rates.shares, without_rates.throughput) == (None, None)
    assert noise_of_rates([1.0] * 4, min_effect=0.03, tolerance=0.2) is None
    assert noise_of_values([0.5] * 4, min_effect=0.001) is None
    assert noise_of_values([0.5] * 4 + [math.inf], min_effect=0.001) is None


def section(folder: Path) -> str:
    page = Page(render_report(gather_everything([folder], second_opinion=False)))
    return page.text.partition("Differences that runs like these can show")[2].partition("Convergence run by run")[0]


def test_the_page_of_a_set_says_it_before_anybody_compares(tmp_path: Path) -> None:
    (result,) = gather([write_run_set(tmp_path / "a")], second_opinion=False)
    noise = noise_of_runs(result, DriftTolerance())
    assert noise.time is not None and noise.time.in_turns is not None and noise.throughput is not None
    apart, turns = size_text(noise.time.apart), turns_text(noise.time)
    text = section(tmp_path)
    assert "convergence 100 %, speed <1 %, evaluation and overhead <1 %." in text
    ranged = turns_text(noise.time, "95 % range ")
    assert f"is {apart} if one set is measured after the other." in text
    assert f"If runs alternate (A/B) with shared seeds, the detectable difference is {ranged}." in text
    assert f"Time to train {apart} {turns}" in text
    assert f"Throughput {size_text(noise.throughput.apart)} {turns_text(noise.throughput)}" in text
    for assumed in (
        "Holm's method",
        "twice the spread of speed within a set, but at least 20 % (assumed, as fewer than 3 sets",
        "normal",
        "0.6 to 2.9 times the measured spread",
        "equal seeds are assumed to need the same number of samples",
    ):
        assert assumed in text


def test_several_sets_have_a_row_each_and_those_with_few_runs_are_named(tmp_path: Path) -> None:
    failing = [*make_runs(TINY, 4), make_records(TINY, num_evals=19, converged=False)]
    for name, runs in (("whole", make_runs(TINY)), ("failing", failing), ("few", make_runs(TINY, 3))):
        write_run_set(tmp_path / name, runs=runs)
    text = section(tmp_path)
    assert "each side that reached the target. Fewer such runs have failing (4), few (3)." in text
    assert "whole 5 runs" in text and "failing 4 runs — — — —" in text and "few 3 runs — — — —" in text
    markdown = render_report(ReportContent(results=gather([tmp_path], second_opinion=False)), output_format="md")
    assert "| whole (5 runs) | " in markdown and "allowance for drift of speed" in markdown


@pytest.mark.parametrize(("num_runs", "num_failed"), [(3, 0), (4, 1), (0, 2)])
def test_what_is_missing_is_said_with_the_command_that_makes_it(
    num_runs: int, num_failed: int, tmp_path: Path
) -> None:
    failed = [make_records(TINY, num_evals=19, converged=False, seed=index) for index in range(num_failed)]
    write_run_set(tmp_path / "a", runs=[*make_runs(TINY, num_runs), *failed])
    text = section(tmp_path)
    reached = f"{num_runs} of {num_runs + num_failed} runs reached the target; a verdict takes at least 5"
    assert (
        reached in text
        and f"'dlrmbench resume {tmp_path / 'a'} --runs {5 + num_failed}' makes the missing runs." in text
    )
    assert "later set" not in text


@pytest.mark.slow
def test_sets_that_repeat_one_another_show_how_far_the_system_drifts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four sets of one configuration and code, of which each is 1 % faster than the one before."""
    starts = START_MS
    for number in range(4):
        runs = make_runs(TINY, throughput=20_000 * 1.01**number, start_ms=starts)
        starts = runs[-1][-1]["time_ms"] + 60_000
        write_run_set(tmp_path / f"set{number}", runs=runs, changes={"code_sha256": "c" * 64}, interrupted=False)
    sets = gather([tmp_path], second_opinion=False)
    tolerances = find_tolerances(list(sets))
    assert len({tolerance.sets for tolerance in tolerances}) == 1 and len(tolerances[0].sets) == 4
    width = math.expm1(tolerances[0].width("throughput"))
    assert 0.03 < width < 0.12
    noise = noise_of_runs(sets[0], tolerances[0])
    assert noise.throughput is not None and noise.time is not None
    assert noise.throughput.apart == pytest.approx(width, abs=0.002)
    text = section(tmp_path / "set0")
    assert f"Throughput {size_text(noise.throughput.apart)} " in text
    assert (
        "prediction interval, at least 5 %, from 4 repeated sets: set0, set1, set2, set3" in text
        and "assumed:" not in text
    )
    from harness.cli import main

    with pytest.raises(SystemExit):
        main(["score", str(tmp_path / "set0")])
    assert f"{size_text(noise.time.apart)} in a later set" in capsys.readouterr().out


def test_frames_and_exports_have_what_the_page_says(tmp_path: Path) -> None:
    """Bands of repeated sets included; missing where runs are too few."""
    starts = START_MS
    for number in range(3):
        runs = make_runs(TINY, throughput=20_000 * 1.01**number, start_ms=starts)
        starts = runs[-1][-1]["time_ms"] + 60_000
        folder = tmp_path / "sets" / str(number)
        write_run_set(folder, runs=runs, changes={"code_sha256": "c" * 64}, interrupted=False)
    write_run_set(tmp_path / "few", runs=make_runs(TINY, 2))
    sets = gather([tmp_path / "sets" / "0"], second_opinion=False)
    (tolerance,) = find_tolerances(list(sets))
    noise = noise_of_runs(sets[0], tolerance)
    assert tolerance.sets and noise.shares is not None and noise.time is not None and noise.throughput is not None
    exported = tmp_path / "export.json"
    exported.write_text(export_json(sets), encoding="utf-8")
    for path in (tmp_path / "sets" / "0", exported):
        (row,) = frames.read(path).sets.to_dict("records")
        shares = [row[f"{name}_share"] for name in ("convergence", "speed", "overhead")]
        assert shares == [noise.shares.convergence, noise.shares.speed, noise.shares.overhead]
        assert [row["smallest_time_apart"], row["smallest_time_in_turns"]] == [noise.time.apart, noise.time.in_turns]
        found = [row["smallest_throughput_apart"], row["smallest_throughput_in_turns"]]
        assert found == [noise.throughput.apart, noise.throughput.in_turns]
    (few,) = frames.read(tmp_path / "few").sets.to_dict("records")
    assert math.isnan(few["convergence_share"]) and math.isnan(few["smallest_time_apart"])


def test_on_a_page_of_several_pairs_each_is_compared_with_its_own_base(tmp_path: Path) -> None:
    for pair, factor in (("beside-a", 1.0), ("beside-b", 3.0)):
        for name, ratio in (("base", 1.0), ("new", 0.5)):
            rates = [factor * ratio * rate for rate in (1000.0, 1001.0, 1002.0, 1003.0, 1004.0)]
            measure(tmp_path / pair / name, "throughput", rates)
        write_group(tmp_path / pair, pair_content(kind="throughput"))
    text = Page(render_report(gather_everything([tmp_path], second_opinion=False))).text
    assert all(f"'beside-{name}/new' against the baseline: 2.00× slower" in text for name in "ab")
    assert "beside-b/base: " not in text and "Against the baseline: the first, or the base of its pair" in text


def test_the_base_of_a_pair_is_the_first_of_its_record_whatever_its_folder_is_called(tmp_path: Path) -> None:
    for name, rate in (("zebra", 1000.0), ("antelope", 500.0)):
        measure(tmp_path / name, "throughput", [rate + index for index in range(5)])
    file = write_group(tmp_path, pair_content(kind="throughput"))
    text = file.read_text().replace('"folder": "base"', '"folder": "zebra"')
    file.write_text(text.replace('"folder": "new"', '"folder": "antelope"'))
    page = Page(render_report(gather_everything([tmp_path], second_opinion=False))).text
    assert "'new' against the baseline: 2.00× slower" in page and "base: " not in page


def result_of(logs: Sequence[RunResult]) -> Result:
    return Result(label="a", source="logs", benchmark="dlrm_tiny", repetitions=tuple(run_of(log) for log in logs))


def test_a_set_that_is_disturbed_inside_may_as_a_whole_be_off_by_twice_that() -> None:
    rates = 1e4 * np.exp(0.2 * standard(5))
    own = 2 * float(np.log(rates).std(ddof=1))
    runs = [
        make_run("a", 0, samples_to_converge=700_000, train_s=7e5 / rate, time_to_train_s=8e5 / rate)
        for rate in rates
    ]
    disturbed = noise_of_runs(result_of(runs), DriftTolerance())
    assert disturbed.throughput is not None
    assert disturbed.throughput.apart > math.expm1(own) > 0.4
    alike = [make_run("a", 0, samples_to_converge=700_000, train_s=70.0, time_to_train_s=80.0)] * 5
    quiet = noise_of_runs(result_of(alike), DriftTolerance())
    assert quiet.throughput is not None and quiet.throughput.apart == pytest.approx(0.2, abs=0.01)


def measure(root: Path, kind: str, values: Sequence[float], **run_set: Any) -> Path:
    """A set of processes that measured a throughput or a quality, of seeds 1, 2, 3, ..."""
    (root / "extra").mkdir(parents=True)
    if kind == "quality":
        content = quality_content([quality_process(auc=value) for value in values])
    else:
        content = throughput_content([process_content(num_samples=1000, duration_s=1000 / value) for value in values])
    seeds = list(range(1, len(values) + 1))
    (root / "extra" / f"{kind}.json").write_text(json.dumps(content))
    (root / "extra" / "run_set.json").write_text(
        json.dumps(run_set_content(name=root.name, kind=kind, seeds=seeds, num_runs=len(values)) | run_set)
    )
    return root


SHARES = ("convergence_share", "speed_share", "overhead_share")
AUCS = [0.75 + 0.002 * value for value in standard(5)]


def test_qualities_on_one_page_have_verdicts_by_pairs_of_seeds(tmp_path: Path) -> None:
    """The spread within a set hides the difference; pairs of equal seeds share it."""
    measure(tmp_path / "base", "quality", AUCS)
    measure(tmp_path / "better", "quality", [auc + 0.0015 for auc in AUCS])
    measure(tmp_path / "same", "quality", [auc + 0.00001 for auc in AUCS])
    text = Page(render_report(gather_everything([tmp_path]))).text
    assert "<h1>better is the best of 3 configurations of dlrm_tiny: quality AUC 0.7" in render_report(
        gather_everything([tmp_path])
    )
    assert "baseline" in text and "better +0.00150" in text and "below the smallest effect +0.00001" in text
    assert "'better' against the baseline: Better: AUC +0.00150, " in text
    smallest = noise_of_values(AUCS, min_effect=0.001)
    assert smallest is not None and f" {smallest.apart:.5f} " in text
    assert (
        "stated below 0.001 AUC, since verdicts ignore smaller effects" in text
        and "where a seed affects both processes of a pair alike" in text
    )


def test_rates_of_one_benchmark_are_compared_and_of_others_not(tmp_path: Path) -> None:
    rates = 1e4 * np.exp(0.002 * standard(5))
    other = {"benchmark": run_set_content()["benchmark"] | {"name": "dlrm_small", "definition_sha256": "b" * 64}}
    measure(tmp_path / "base", "throughput", rates)
    measure(tmp_path / "other", "throughput", 3 * rates, **other)
    measure(tmp_path / "twice", "throughput", 2 * rates)
    text = Page(render_report(gather_everything([tmp_path]))).text
    assert (
        text.count("baseline") >= 2 and "'twice' against the baseline: 2.00× faster" in text and "other: " not in text
    )
    smallest = noise_of_rates(list(rates), min_effect=0.03, tolerance=0.2)
    assert smallest is not None
    assert f"{size_text(smallest.apart)} {size_text(smallest.in_turns)} alternately" in text
    assert "spread of speed within a set, but at least 20 % (assumed" in text
    measure(tmp_path / "quality", "quality", AUCS)
    assert "<h1>Throughput and quality of 4 configurations</h1>" in render_report(gather_everything([tmp_path]))


def test_of_a_lone_measurement_nothing_is_compared_and_few_processes_say_so(tmp_path: Path) -> None:
    few = measure(tmp_path / "few", "throughput", [1e4, 1.1e4])
    text = Page(render_report(gather_everything([tmp_path]))).text
    assert "Against the baseline" not in text and "takes at least 5 processes on each side" in text
    found = read_measured(few, "throughput")
    shown = render_terminal(measured_blocks(found, few))
    assert "not known: takes 5 processes, has 2" in shown
    assert f"none yet; make it: dlrmbench report {few}" in " ".join(shown.split())
    shown = render_terminal(measured_blocks(found, few, few / "report.html"))
    assert "none yet" not in shown and str(few / "report.html") in shown
    assert measurement_document(found, few).smallest_apart is None


@pytest.mark.parametrize(
    ("kind", "words"), [("throughput", " alternately if this hour is usual (80 % power)"), ("quality", " of AUC (")]
)
def test_a_measurement_says_it_when_it_is_done(kind: str, words: str, tmp_path: Path) -> None:
    values = AUCS if kind == "quality" else list(1e4 * np.exp(0.002 * standard(5)))
    found = read_measured(measure(tmp_path / "a", kind, values), kind)
    line = " ".join(render_terminal(measured_blocks(found, tmp_path)).partition("detectable")[2].split())
    document = measurement_document(found, tmp_path)
    apart = document.smallest_apart
    assert apart is not None
    assert words in line and (f"{apart:.5f}" if kind == "quality" else size_text(apart)) in line


def test_score_says_it_in_a_line_and_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from harness.cli import main

    def call(*arguments: object) -> str:
        with pytest.raises(SystemExit):
            main(["score", *map(str, arguments)])
        return capsys.readouterr().out

    write_run_set(tmp_path / "a")
    write_run_set(tmp_path / "few", runs=make_runs(TINY, 2))
    (record,) = json.loads(call(tmp_path / "a", "--format", "json"))["scores"]
    members = ("apart", "in_turns", "in_turns_low", "in_turns_high")
    words = smallest_words(Smallest(**{member: record[f"smallest_time_{member}"] for member in members}))
    assert words.endswith("alternately if this hour is usual (80 % power)")
    assert words in " ".join(call(tmp_path / "a").split())
    assert sum(record[name] for name in SHARES) == pytest.approx(1)
    assert "not known: takes 5 runs that reach the target, has 2" in call(tmp_path / "few")
    (record,) = json.loads(call(tmp_path / "few", "--format", "json"))["scores"]
    assert {name for name in record if "smallest" in name or "share" in name} >= {"smallest_time_apart", *SHARES}
    assert all(record[name] is None for name in record if "smallest" in name or "share" in name)
