"""How far a system drifts is known from sets that repeat each other, and from those alone."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_builder import make_side
from log_builder import make_records
from records_builder import process_content, run_set_content, throughput_content
from report_builder import write_run_set
from scipy.stats import t

from reports.comparison.comparison import GroupContext, compare_results, context_of
from reports.comparison.drift_tolerance import LEAST_DRIFT, DriftTolerance, Repeats, drifts, measure_drift_tolerance
from reports.comparison.export import circumstances
from reports.comparison.records import Comparison
from reports.comparison.repeats import find_repeats, given_repeats
from reports.comparison.sources import one_result
from reports.comparison.wording import sentence
from reports.facts.noise import ASSUMED_DRIFT
from reports.results.logs import gather
from reports.results.result import Result
from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError

TINY = load_benchmark("dlrm_tiny")
LUCK = [0.65, 0.70, 0.70, 0.75, 0.70]
FACTORS = ("time_to_train", "samples_to_converge", "throughput", "overhead")
HOUR_MS = 3_600_000


def write(root: Path, speed: float, *, hour: int, **changes: Any) -> Path:
    """A set of five runs that began in a certain hour; its runs vary by 0.1 % in speed."""
    runs = [
        make_records(
            TINY,
            num_evals=12 + index % 3,
            seed=100 * (hour + 10) + index,
            start_ms=1_790_000_000_000 + hour * HOUR_MS + index * 60_000,
            throughput=20_000.0 * speed * (1 + 0.001 * (index % 3 - 1)),
        )
        for index in range(5)
    ]
    return write_run_set(root, runs=runs, interrupted=False, changes=changes)


def sides_at(root: Path) -> tuple[Result, ...]:
    return tuple(one_result(path) for path in sorted(root.iterdir()))


def compare_at(base: Path, new: Path) -> Comparison:
    first, second = one_result(base), one_result(new)
    return compare_results(first, [second], context=context_of([first, second]))[0]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Four sets of one configuration that are 1 % apart, and between them one of another code that is 10 % slower."""
    for hour, speed in enumerate((1.0, 1.01, 0.99, 1.0)):
        write(tmp_path / f"same-{hour}", speed, hour=4 * hour)
    write(tmp_path / "slower", 1 / 1.1, hour=9, code_sha256="e" * 64)
    return tmp_path


def test_a_tolerance_is_the_prediction_interval_of_the_difference_of_two_further_sets() -> None:
    generator = np.random.default_rng(51)
    means = 0.02 * generator.standard_normal(6)
    group = tuple(make_side(f"s{i}", LUCK, [1000 * np.exp(mean)] * 5, turns=None) for i, mean in enumerate(means))
    tolerance = measure_drift_tolerance(Repeats(groups=(group,)), FACTORS)
    expected = t.ppf(0.99, 5) * np.sqrt(2) * np.std(means, ddof=1)
    assert expected > np.log1p(LEAST_DRIFT)
    assert tolerance.width("throughput") == pytest.approx(expected)
    assert tolerance.width("time_to_train") == pytest.approx(expected), "the time per sample, whatever the luck"
    assert tolerance.width("overhead") == pytest.approx(np.log1p(LEAST_DRIFT)), "however alike they are"
    assert tolerance.sets == ("s0", "s1", "s2", "s3", "s4", "s5")
    pooled = measure_drift_tolerance(Repeats(groups=(group[:3], group[3:])), FACTORS)
    squares = sum(float(np.sum((part - part.mean()) ** 2)) for part in (means[:3], means[3:]))
    assert pooled.width("throughput") == pytest.approx(t.ppf(0.99, 4) * np.sqrt(2 * squares / 4))


def test_a_tolerance_is_no_narrower_than_two_of_the_sets_lie_apart() -> None:
    """Thirty alike, and one that follows a step of 10 %: the next set may lie beyond it, too."""
    group = tuple(make_side("s", LUCK, [rate] * 5, turns=None) for rate in (*[1000.0] * 30, 1100.0))
    tolerance = measure_drift_tolerance(Repeats(groups=(group,)), FACTORS)
    assert tolerance.width("throughput") == pytest.approx(np.log(1.1))


def test_two_further_sets_are_within_the_tolerance_in_98_of_100_cases() -> None:
    generator = np.random.default_rng(52)
    held = 0
    for _ in range(1_000):
        means = 0.02 * generator.standard_normal(6)
        group = tuple(make_side("s", LUCK[:2], [1000 * float(np.exp(mean))] * 2, turns=None) for mean in means[:4])
        held += abs(means[5] - means[4]) <= measure_drift_tolerance(Repeats(groups=(group,)), ("throughput",)).width(
            "throughput"
        )
    assert held / 1_000 == pytest.approx(0.98, abs=0.014)


def test_without_enough_sets_a_fifth_is_assumed() -> None:
    two = tuple(make_side("s", LUCK, [1000.0 + i] * 5, turns=None) for i in range(2))
    for repeats in (Repeats(), Repeats(groups=(two,))):
        tolerance = measure_drift_tolerance(repeats, FACTORS)
        assert tolerance == DriftTolerance() and tolerance.width("throughput") == pytest.approx(
            np.log1p(ASSUMED_DRIFT)
        )
    assert [drifts(name) for name in (*FACTORS, "quality")] == [True, False, True, True, False]


@pytest.mark.slow
def test_repeated_sets_beside_the_sides_are_found_and_named(results: Path) -> None:
    comparison = compare_at(results / "same-0", results / "slower")
    assert comparison.repeated_sets == ("same-0", "same-1", "same-2", "same-3")
    throughput = comparison.factor("throughput")
    assert throughput is not None and throughput.verdict == "slower" and throughput.drift_tolerance is not None
    assert 0.05 <= throughput.drift_tolerance < 0.08
    words = " ".join(circumstances(comparison))
    assert "measured one after the other: differences of up to " in words
    source = "4 sets made within 12.1 h, around both sides"
    assert f"98 % prediction interval, at least 5 %, from {source}: same-0, same-1, same-2, same-3" in words
    assert source in comparison.drift and f"{comparison.drift}." in sentence(comparison)
    base, *_, slower = gather([results], second_opinion=False)
    assert (
        compare_results(base, [slower], context=context_of([base, slower]))[0].repeated_sets
        == comparison.repeated_sets
    ), "the page says what compare says"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"code_sha256": "f" * 64},
        {"code_sha256": None},
        {"config": {"train.global_batch_size": {"value": 1024, "source": "option"}}},
        {"num_threads": 1},
        {"system": run_set_content()["system"] | {"name": "another"}},
    ],
)
def test_another_configuration_code_or_system_repeats_nothing(results: Path, changes: dict[str, Any]) -> None:
    for hour in (1, 2):
        shutil.rmtree(results / f"same-{hour}")
        write(results / f"same-{hour}", 1.0, hour=4 * hour, **changes)
    comparison = compare_at(results / "same-0", results / "slower")
    assert comparison.repeated_sets == ()
    throughput = comparison.factor("throughput")
    assert (
        throughput is not None
        and throughput.verdict == "inconclusive"
        and throughput.drift_tolerance == pytest.approx(0.2)
    )
    assert "20 % is allowed for drift (assumed" in str(throughput.reason)


def test_copies_and_sets_in_turns_show_no_drift(tmp_path: Path) -> None:
    write(tmp_path / "a", 1.0, hour=0)
    for name in ("b", "c", "d"):
        shutil.copytree(tmp_path / "a", tmp_path / name)
    write(tmp_path / "e", 1.001, hour=0)
    assert find_repeats(sides_at(tmp_path)).groups == ()
    with pytest.raises(InputError, match=r"found 1 sets of one configuration.*expected at least 3"):
        given_repeats(sides_at(tmp_path))


def test_sets_that_were_read_before_show_the_same_drift(results: Path) -> None:
    sets = gather([results], second_opinion=False)
    sides = list(sets)
    found = find_repeats(sides)
    assert found == find_repeats(sides) and [len(group) for group in found.groups] == [4]


@pytest.mark.slow
def test_given_sets_serve_for_any_configuration(results: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    base, new = (
        write(elsewhere / "a", 1.0, hour=5, num_threads=1),
        write(elsewhere / "b", 0.8, hour=6, num_threads=4),
    )
    sides = [one_result(base), one_result(new)]
    repeats = given_repeats([one_result(results / f"same-{hour}") for hour in range(4)])
    (comparison,) = compare_results(sides[0], sides[1:], context=GroupContext(repeats=repeats))
    assert len(comparison.repeated_sets) == 4 and comparison.factor("throughput").verdict == "slower"  # type: ignore[union-attr]
    assert compare_at(base, new).repeated_sets == ()


@pytest.mark.parametrize(
    ("hour", "when"),
    [
        (100, "4 sets made within 12.1 h, 87.9 h before new, are not around both sides"),
        (-3, "4 sets made within 12.1 h, 2.9 h after new, are not around both sides"),
    ],
)
def test_sets_that_all_came_before_or_after_show_nothing_of_the_hour_of_new(
    hour: int, when: str, results: Path
) -> None:
    new = write(results / "new", 1 / 1.1, hour=hour, code_sha256="d" * 64)
    comparison = compare_at(results / "same-0", new)
    assert comparison.repeated_sets == () and comparison.verdict == "inconclusive"
    assert f"20 % is allowed for drift (assumed, as {when})" in sentence(comparison)
    assert not comparison.is_regression_excluded


@pytest.mark.slow
def test_repeats_of_new_around_both_sides_serve_and_those_after_base_do_not(results: Path) -> None:
    for number, hour in enumerate((-2, 20, 21)):
        write(results / f"new-{number}", 1 / 1.1, hour=hour, code_sha256="d" * 64)
    shutil.rmtree(results / "same-1")
    shutil.rmtree(results / "same-2")
    assert compare_at(results / "same-0", results / "new-1").repeated_sets == ("new-0", "new-1", "new-2")
    shutil.rmtree(results / "new-0")
    write(results / "new-0", 1 / 1.1, hour=19, code_sha256="d" * 64)
    assert compare_at(results / "same-0", results / "new-1").repeated_sets == ()


@pytest.mark.slow
def test_the_verdict_says_how_it_was_measured_and_how_to_measure_better(results: Path) -> None:
    shutil.rmtree(results / "same-3")
    shutil.rmtree(results / "same-2")
    comparison = compare_at(results / "same-0", results / "slower")
    text = sentence(comparison)
    assert text.startswith("No verdict. The sets were measured one after the other. Measured time to train: 1.10")
    assert re.search(
        r"The detectable difference between two sets of 5 runs like these is [2-5]\d\.\d % \(80 % power\)\.", text
    )
    assert f"'dlrmbench versus {results / 'same-0'}' measures alternately" in text
    write(results / "half", 0.5, hour=12, code_sha256="e" * 64)
    half = compare_at(results / "same-0", results / "half")
    assumed = "assumed, as fewer than 3 sets of one configuration and code were found"
    assert half.verdict == "slower"
    assert sentence(half).endswith(
        f". The sets were measured one after the other; a difference of 20 % is allowed for drift ({assumed})."
    )


def test_measurements_of_throughput_have_their_tolerance_too(tmp_path: Path) -> None:
    for number, rate in enumerate((1000.0, 1004.0, 998.0, 1200.0)):
        folder = tmp_path / f"m{number}" / "extra"
        folder.mkdir(parents=True)
        moment = f"2026-01-02T0{(0, 1, 9, 5)[number]}:00:00+00:00"
        processes = [
            process_content(num_samples=100_000, duration_s=100_000 / (rate + i), samples_per_s=rate + i)
            | {"started_utc": moment}
            for i in range(5)
        ]
        (folder / "throughput.json").write_text(json.dumps(throughput_content(processes)), encoding="utf-8")
        code = "a" if number < 3 else "b"
        record = run_set_content(kind="throughput", seeds=list(range(5)), code_sha256=code * 64)
        (folder / "run_set.json").write_text(json.dumps(record), encoding="utf-8")
    comparison = compare_at(tmp_path / "m0", tmp_path / "m3")
    assert comparison.repeated_sets == ("m0", "m1", "m2") and comparison.is_one_after_the_other
    assert comparison.verdict == "faster" and comparison.factors[0].drift_tolerance == pytest.approx(0.05)
    assert "5.0 % is allowed for drift (3 sets made within 9.0 h, around both sides)" in sentence(comparison)
