"""What findings say: numbers with their nouns, places that can be found from where the finding is, causes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_builder import BEYOND_33, SEEDS, make_records, make_runs, make_system_desc, with_record, write_log, write_set
from submission_builder import DCNV2, write_submission

from rules.benchmarks.loader import load_benchmark
from rules.checks.rule import Finding
from rules.judge.checker import check_paths
from rules.judge.sets import judge_set
from rules.logs import keys
from rules.scoring.rcp import judge_convergence
from rules.scoring.results import BenchmarkResult
from rules.tree.inventory import find_result_sets

Runs = list[list[dict[str, Any]]]


def findings(path: Path, code: str) -> list[Finding]:
    return [
        finding
        for verdict in check_paths([path], second_opinion=False)
        for finding in verdict.findings
        if finding.code == code
    ]


def set_of(folder: Path, change: Callable[[Runs], Runs] = lambda runs: runs, **options: Any) -> Path:
    write_set(folder, DCNV2, change(make_runs(DCNV2, ours=False, **options)), ours=False)
    return folder / "results"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (range(2, 12), [("the numbers do not begin at 0 or 1", "2 to 11", "0 to 9")]),
        ([*range(1, 5), *range(6, 12)], [("numbers are missing", "no 5", "every one from 1 to 11")]),
        (range(1, 11), []),
        (range(10), []),
    ],
)
def test_numbers_of_logs(numbers: list[int], said: list[tuple[str, str, str]], tmp_path: Path) -> None:
    for number, records in zip(numbers, make_runs(DCNV2, ours=False), strict=True):
        write_log(tmp_path / f"result_{number}.txt", records)
    assert [(found.message, found.found, found.expected) for found in findings(tmp_path, "RS110")] == said


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"cooling": ""}, "SY108", "1 empty field"),
        ({"cooling": "", "framework": ""}, "SY108", "2 empty fields"),
        ({"hw_notes": None}, "SY102", "1 of 33 fields is missing"),
        ({"hw_notes": None, "sw_notes": None}, "SY102", "2 of 33 fields are missing"),
    ],
)
def test_fields_are_counted(fields: dict[str, str | None], code: str, message: str, tmp_path: Path) -> None:
    place = set_of(tmp_path)
    described = {key: value for key, value in (make_system_desc(**BEYOND_33) | fields).items() if value is not None}
    (tmp_path / "systems" / "example.json").write_text(json.dumps(described))
    assert [found.message for found in findings(place, code)] == [message]


@pytest.mark.parametrize("num_empty", [5, 6])
def test_five_empty_fields_are_named_and_of_more_that_there_are_others(num_empty: int, tmp_path: Path) -> None:
    named = ("submitter", "host_storage_type", "host_networking", "cooling", "framework", "operating_system")
    place = set_of(tmp_path)
    described = make_system_desc(**BEYOND_33) | dict.fromkeys(named[:num_empty], "")
    (tmp_path / "systems" / "example.json").write_text(json.dumps(described))
    (found,) = findings(place, "SY108")
    assert found.found == ", ".join(named[:5]) + (", …" if num_empty > 5 else "")


@pytest.mark.parametrize(
    ("index", "by", "message"),
    [
        (0, 0, None),
        (0, 2293760, "evaluation does not begin where it must"),
        (1, 1, "evaluation off the grid"),
    ],
)
def test_the_first_evaluation_is_where_it_must_be_and_the_others_on_the_grid(
    index: int, by: int, message: str | None, tmp_path: Path
) -> None:
    records = make_records(load_benchmark("dlrmv4"), num_evals=3, ours=False)
    counts = [record["metadata"]["samples_count"] for record in records if record["key"] == keys.EVAL_ACCURACY]
    changed = with_record(records, keys.EVAL_ACCURACY, index, metadata={"samples_count": counts[index] + by})
    path = write_log(tmp_path / "result_0.txt", changed)
    assert [found.message for found in findings(path, "CA106")] == ([] if message is None else [message])


@pytest.mark.parametrize(("num_gaps", "ending"), [(1, ""), (2, ", and 1 shorter one"), (3, ", and 2 shorter ones")])
def test_gaps_are_counted(num_gaps: int, ending: str, tmp_path: Path) -> None:
    def change(runs: Runs) -> Runs:
        for index in range(num_gaps):
            for records in runs[-1 - 2 * index :]:
                for record in records:
                    record["time_ms"] += (index + 3) * 10**10
        return runs

    (found,) = findings(set_of(tmp_path, change), "RS114")
    assert found.found is not None and found.found.partition(" before this run")[2] == ending


@pytest.mark.parametrize(
    ("code", "change", "text"),
    [
        ("RS103", lambda runs: [*runs[:-1], runs[0]], "is the same file as result_0.txt"),
        (
            "RS104",
            lambda runs: [*runs[:-1], with_record(runs[-1], keys.SUBMISSION_ORG, value="Another")],
            '"Example" as in result_0.txt',
        ),
        (
            "SE101",
            lambda runs: [*runs[:-1], with_record(runs[-1], keys.SEED, value=SEEDS[0])],
            f"{SEEDS[0]}, also in result_0.txt",
        ),
    ],
)
def test_another_run_of_the_set_is_named_by_its_file(
    code: str, change: Callable[[Runs], Runs], text: str, tmp_path: Path
) -> None:
    (found,) = findings(set_of(tmp_path, change), code)
    assert text in (found.message, found.found, found.expected)


def test_another_run_of_the_round_is_named_from_the_round_on(tmp_path: Path) -> None:
    runs = make_runs(DCNV2, ours=False)
    for name in ("Alpha", "Beta"):
        write_submission(tmp_path / "training_results_v6.0", organization=name, runs=runs)
    found = findings(tmp_path / "training_results_v6.0", "RO101")
    assert len(found) == 10
    assert found[0].message.startswith("the same run as Alpha/results/") and found[0].message.endswith(
        "/result_0.txt"
    )


def test_too_fast_a_set_is_said_in_three_parts_that_differ(tmp_path: Path) -> None:
    place = set_of(tmp_path, num_evals=12)
    (found,) = findings(place, "RC101")
    assert found.message == "converges faster than the reference allows at batch size 65536"
    assert found.found == "a mean of 0.5938 epochs"
    assert found.expected == "at least 0.7448 epochs, by a reference of 0.7807 epochs"


@pytest.mark.parametrize(
    ("where", "text", "name"),
    [
        (".", "--rcp-bypass\n", "Example/package_checker_params"),
        ("results/example/dlrm_dcnv2", "rcp_bypass", "dlrm_dcnv2/package_checker_params"),
    ],
)
def test_a_bypass_of_the_official_test_is_mentioned(where: str, text: str, name: str, tmp_path: Path) -> None:
    place = set_of(tmp_path / "Example", num_evals=12)
    path = tmp_path / "Example" / where / "package_checker_params"
    for content, is_mentioned in ((text, True), ("--seed-checker-bypass", False), (" " * 5000 + text, False)):
        path.write_text(content)
        (found,) = findings(place, "RC101")
        assert found.severity == "error"
        assert (
            found.message.endswith(f"; {name} has the official package checker leave this test out") is is_mentioned
        )


def test_a_bypass_is_mentioned_where_there_is_no_point_too(tmp_path: Path) -> None:
    place = set_of(tmp_path / "Example", global_batch_size=200_000)
    (tmp_path / "Example" / "package_checker_params").write_text("rcp-bypass")
    (found,) = findings(place, "RC102")
    assert found.severity == "error" and found.message == (
        "batch size 200000 is above all reference points; submit one; "
        "Example/package_checker_params has the official package checker leave this test out"
    )


def result_of(folder: Path) -> BenchmarkResult:
    (found,) = find_result_sets(folder)
    return judge_set(found).result


def test_round_3_0_is_scored_by_all_points_and_says_what_those_of_its_day_give(tmp_path: Path) -> None:
    """Points at 55296 and 135168 came after the results: then the factor was by interpolation, or there was none."""
    between = result_of(set_of(tmp_path / "training_results_v3.0" / "A", num_evals=15, global_batch_size=55_296))
    assert between.convergence is not None and between.convergence.mean_epochs is not None
    # 0.76484375: the mean at 55296 between the points at 32768 and 65536; one result of that round has these factors
    assert between.convergence.factor_at_upload == pytest.approx(0.76484375 / between.convergence.mean_epochs)
    assert between.convergence.factor_at_upload == pytest.approx(1.0283613, abs=5e-8)
    assert between.rcp_factor == pytest.approx(1.0238095, abs=5e-8)
    assert between.rcp_reason is not None and between.rcp_reason.endswith(
        "(without the points at 55296 and 135168, added after this round's results, the factor is 1.028361)"
    )
    above = judge_convergence(DCNV2, "3.0", 135_168, [0.9, 0.95] * 5)
    assert above.status == "passed" and above.factor > 1.0 and above.factor_at_upload == 1.0
    assert above.reason.endswith("added after this round's results, the factor is 1)")
    assert judge_convergence(DCNV2, "3.1", 135_168, [0.9, 0.95] * 5).factor_at_upload is None
    later = result_of(set_of(tmp_path / "training_results_v3.1" / "A", num_evals=15, global_batch_size=55_296))
    assert later.convergence is not None and later.convergence.factor_at_upload is None
    assert (later.rcp_factor, later.score_s) == (between.rcp_factor, between.score_s)


@pytest.mark.parametrize("which", ["upload", "other"])
def test_a_factor_of_its_day_is_no_fault(which: str, tmp_path: Path) -> None:
    place = set_of(tmp_path / "training_results_v3.0" / "Example", num_evals=15, global_batch_size=55_296)
    convergence = result_of(place).convergence
    assert convergence is not None and convergence.factor_at_upload is not None
    factor = convergence.factor_at_upload if which == "upload" else 1.5
    (place / "example" / "dlrm_dcnv2" / "scaling.json").write_text(json.dumps({"scaling_factor": factor}))
    (found,) = findings(place, "RC103")
    if which == "other":
        assert (found.severity, found.message) == (
            "warning",
            "the published factor is not the one that the runs give",
        )
        return
    assert found.severity == "info" and found.found == "1.028361345"
    assert found.message == (
        "the published factor is that of the points that the round had when its results were uploaded"
    )
    assert found.expected == f"{convergence.factor:.10g} by all points"
    assert found.remedy == "Nothing: the published score stands, and is not the one here."
