"""Runs that are another run's: with new stamps and seeds, in another set, or with qualities moved a little."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import Record, make_records, make_runs, write_log, write_set
from rule_cases import DCNV2, DLRM, TINY
from submission_builder import set_folder, write_submission

from rules.checks.rule import Finding
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.logs import keys

DAY_MS = 86_400_000
Change = Callable[[Record], None]


def _changed(records: list[Record], change: Change) -> list[Record]:
    records = copy.deepcopy(records)
    for record in records:
        record["time_ms"] += DAY_MS
        if record["key"] == keys.SEED:
            record["value"] += 1_000_000
        change(record)
    return records


def _moved_by(amount: float) -> Change:
    def change(record: Record) -> None:
        if record["key"] == keys.EVAL_ACCURACY:
            record["value"] += amount

    return change


def _named(name: str) -> Change:
    def change(record: Record) -> None:
        if record["key"] == keys.SUBMISSION_ORG:
            record["value"] = name

    return change


RUNS = make_runs(DCNV2, ours=False)


def _round(folder: Path, runs: list[list[Record]], round_name: str = "5.1") -> Verdict:
    """The verdict on a round in which a second submitter has these runs beside the first one's."""
    top = folder / f"training_results_v{round_name}"
    write_submission(top, runs=RUNS)
    runs = [_changed(records, _named("Other")) for records in runs]
    write_submission(top, organization="Other", runs=runs)
    (verdict,) = check_paths([top], second_opinion=False)
    return verdict


def _found(verdict: Verdict, code: str) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.code == code]


def test_a_set_given_to_another_submitter_is_found_whatever_its_stamps(tmp_path: Path) -> None:
    verdict = _round(tmp_path, RUNS)
    found = _found(verdict, "RO101")
    assert verdict.outcome == "invalid" and len(found) == len(RUNS)
    first = found[0]
    assert first.severity == "error" and first.path.endswith("Other/results/example/dlrm_dcnv2/result_0.txt")
    assert "Example/results/example/dlrm_dcnv2/result_0.txt" in first.message
    assert "all evaluations have its exact qualities" in first.message and "copied" in first.remedy


def test_qualities_moved_a_little_are_asked_about(tmp_path: Path) -> None:
    verdict = _round(tmp_path, [_changed(records, _moved_by(3e-6)) for records in RUNS])
    assert {finding.severity for finding in _found(verdict, "RO101")} == {"warning"}
    assert len(_found(verdict, "RO101")) == len(RUNS) and verdict.outcome == "valid"


def test_two_qualities_in_common_are_asked_about_and_one_is_chance(tmp_path: Path) -> None:
    other = make_runs(DCNV2, ours=False, organization="Other")
    for number, shared in ((1, 1), (2, 2)):
        source = [one["value"] for one in RUNS[number] if one["key"] == keys.EVAL_ACCURACY]
        for record in [one for one in other[number] if one["key"] == keys.EVAL_ACCURACY][:shared]:
            record["value"] = source.pop(0)
    found = _found(_round(tmp_path, other), "RO101")
    assert [(Path(finding.path).name, finding.severity) for finding in found] == [("result_2.txt", "warning")]
    assert "2 of" in found[0].message


def test_honest_submitters_are_not_suspected(tmp_path: Path) -> None:
    assert not _found(_round(tmp_path, make_runs(DCNV2, ours=False, organization="Other")), "RO101")


@pytest.mark.parametrize(("amount", "is_found"), [(0, True), (3e-6, False)])
def test_before_round_3_only_whole_copies_are_found(amount: float, is_found: bool, tmp_path: Path) -> None:
    """The margins were measured over rounds 3.0 and later."""
    for name in ("Example", "Other"):
        runs = make_runs(DLRM, ours=False)
        if name == "Other":
            runs = [_changed(_changed(records, _named("Other")), _moved_by(amount)) for records in runs]
        write_submission(tmp_path / "training_results_v2.1", organization=name, benchmark=DLRM, runs=runs)
    (verdict,) = check_paths([tmp_path], second_opinion=False)
    assert bool(_found(verdict, "RO101")) is is_found


def test_a_set_copied_to_another_system_of_one_submitter_is_found(tmp_path: Path) -> None:
    top = write_submission(tmp_path / "training_results_v5.1", systems=("example", "second"))
    for index, records in enumerate(RUNS):
        write_log(set_folder(top) / f"result_{index}.txt", records)
        write_log(top / "results" / "second" / "dlrm_dcnv2" / f"result_{index}.txt", _changed(records, _moved_by(0)))
    (verdict,) = check_paths([top], second_opinion=False)
    assert {finding.severity for finding in _found(verdict, "SU201")} == {"warning"}  # described as equal hardware


@pytest.mark.parametrize("amount", [1e-6, 3e-6, -3e-6])
def test_the_fastest_run_again_in_its_set_is_asked_about(amount: float, tmp_path: Path) -> None:
    runs = [*RUNS[:-1], _changed(RUNS[0], _moved_by(amount))]
    write_set(tmp_path / "training_results_v5.1" / "Example", DCNV2, runs, ours=False)
    (verdict,) = check_paths([tmp_path / "training_results_v5.1" / "Example" / "results"], second_opinion=False)
    (found,) = _found(verdict, "RS115")
    assert (found.severity, Path(found.path).name) == ("warning", "result_9.txt")
    assert "within 2e-05" in found.message and "result_0.txt" in found.message


def test_own_sets_may_share_seeds_and_so_qualities(tmp_path: Path) -> None:
    """As the two sides of a pair do, which are made with equal seeds."""
    for name in ("one", "two"):
        runs = [
            make_records(TINY, num_evals=6, seed=1 + index, start_ms=1_790_000_000_000 + index * 10**7)
            for index in range(5)
        ]
        shift = 0 if name == "one" else DAY_MS
        runs = [[{**one, "time_ms": one["time_ms"] + shift} for one in records] for records in runs]
        write_set(tmp_path / name, TINY, runs)
    for verdict in check_paths([tmp_path], second_opinion=False):
        assert not {"SU201", "RO101"} & {finding.code for finding in verdict.findings}
