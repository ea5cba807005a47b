"""The Open division: any criterion may end a run, so Closed's target decides nothing, and the final quality is
said."""

import json
from pathlib import Path
from statistics import geometric_mean

import pytest
from inside import run_inside
from log_builder import Record, make_runs, with_record, without, write_set
from rule_cases import DCNV2, DLRM, DLRMV4

from rules.benchmarks.loader import Benchmark
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.judge.sets import judge_sets
from rules.logs import keys
from rules.tree.inventory import find_result_sets

TARGET = DCNV2.quality.target
FINAL = [TARGET - 0.01, TARGET + 0.002, TARGET - 0.001, *[TARGET - 0.004, TARGET + 0.001] * 3, TARGET - 0.02]
"""How ten runs end, some above Closed's target and some below."""


def _runs(benchmark: Benchmark = DCNV2, division: str = keys.OPEN) -> list[list[Record]]:
    runs = make_runs(benchmark, ours=False, division=division)
    return [
        with_record(records, keys.EVAL_ACCURACY, -1, value=quality)
        for records, quality in zip(runs, FINAL[: len(runs)], strict=True)
    ]


def _write(folder: Path, runs: list[list[Record]], benchmark: Benchmark = DCNV2, round_name: str = "5.1") -> Path:
    root = folder / f"training_results_v{round_name}" / "Example"
    write_set(root, benchmark, runs, ours=False)
    path = root / "systems" / "example.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"division": keys.OPEN}))
    return root


def _check(root: Path) -> tuple[Verdict, dict[str, str]]:
    """The verdict on a set, and the severity of each code in it."""
    (verdict,) = check_paths([root / "results"], second_opinion=False)
    return verdict, {finding.code: finding.severity for finding in reversed(verdict.findings)}


def test_runs_that_end_above_and_below_closeds_target_are_scored(tmp_path: Path) -> None:
    root = _write(tmp_path, _runs())
    verdict, codes = _check(root)
    assert verdict.outcome == "valid" and verdict.count("error") == 0
    assert not {"QU102", "QU103", "QU104", "QU105", "RS105", "RC101"} & set(codes)
    assert codes == {"HP105": "info"}
    (judged,) = judge_sets(find_result_sets(root), second_opinion=False)
    times = sorted(run.time_to_train_s or 0 for run in judged.runs)
    assert judged.result.score_s == judged.result.olympic_mean_s == pytest.approx(sum(times[1:-1]) / 8)
    assert all(run.converged and run.quality_target is None for run in judged.runs)
    assert judged.result.final_quality == pytest.approx(geometric_mean(FINAL), rel=1e-12)


def test_the_score_says_the_final_quality_which_the_rules_demand(tmp_path: Path) -> None:
    root = _write(tmp_path, _runs())
    (record,) = json.loads(run_inside(tmp_path, "score", root, "--format", "json").stdout)["scores"]
    assert record["open_final_quality"] == pytest.approx(geometric_mean(FINAL), rel=1e-12)
    assert record["score_s"] is not None and record["num_converged"] == 10
    shown = " ".join(run_inside(tmp_path, "score", root).stdout.split())
    assert f"final quality {geometric_mean(FINAL):.5f} (geometric mean of all scored runs, as Open demands)" in shown
    assert "10 of 10 ended by a criterion of their own, as Open allows" in shown


def test_closed_is_held_to_its_target_as_before(tmp_path: Path) -> None:
    root = tmp_path / "training_results_v5.1" / "Example"
    write_set(root, DCNV2, _runs(division=keys.CLOSED), ours=False)
    verdict, codes = _check(root)
    assert verdict.outcome == "invalid" and codes["QU102"] == codes["RS105"] == "error" and "QU108" not in codes
    (record,) = json.loads(run_inside(tmp_path, "score", root, "--format", "json").stdout)["scores"]
    assert record["score_s"] is None and record["open_final_quality"] is None


def test_where_the_target_binds_open_too_it_decides(tmp_path: Path) -> None:
    runs = make_runs(DLRMV4, ours=False, division=keys.OPEN)
    root = _write(tmp_path, [with_record(run, keys.EVAL_ACCURACY, -1, value=0.5) for run in runs], DLRMV4, "6.1")
    verdict, codes = _check(root)
    assert verdict.outcome == "invalid" and codes["QU102"] == "error"


def test_a_run_that_says_aborted_is_the_dropped_slowest_in_open_too(tmp_path: Path) -> None:
    runs = _runs()
    runs[3] = with_record(runs[3], keys.RUN_STOP, metadata={"status": "aborted"})
    assert _check(_write(tmp_path / "one", runs))[0].outcome == "valid"
    runs[4] = with_record(runs[4], keys.RUN_STOP, metadata={"status": "aborted"})
    verdict, codes = _check(_write(tmp_path / "two", runs))
    assert verdict.outcome == "invalid" and codes["RS105"] == "error"


def test_a_run_without_a_quality_is_asked_for_it(tmp_path: Path) -> None:
    runs = _runs()
    runs[2] = with_record(runs[2], keys.EVAL_ACCURACY, -1, value=0)
    verdict, codes = _check(_write(tmp_path, runs))
    assert (verdict.outcome, codes["QU108"]) == ("valid", "warning")


def test_seeds_are_not_asked_for_in_open(tmp_path: Path) -> None:
    runs = [without(records, keys.SEED) for records in _runs()]
    assert _check(_write(tmp_path / "none", runs))[0].outcome == "valid"
    runs = [with_record(records, keys.SEED, value=7) for records in _runs()]
    verdict, codes = _check(_write(tmp_path / "one", runs))
    assert (verdict.outcome, codes["SE101"]) == ("valid", "warning")


@pytest.mark.parametrize(("spread", "outcome"), [(1.0, "valid"), (1.3, "invalid")])
def test_samples_trained_by_another_batch_size_are_of_one_dataset(
    tmp_path: Path, spread: float, outcome: str
) -> None:
    """Logs of rounds before 3.0 count epochs in batches of 51200 and samples in batches of 55296."""
    runs = []
    for index, records in enumerate(_runs(DLRM)):
        epoch = next(one for one in reversed(records) if one["key"] == keys.EVAL_ACCURACY)["metadata"]["epoch_num"]
        trained = (epoch - 1) * 4_195_197_692 * 55_296 / 51_200 * (spread if index == 2 else 1)
        runs.append(with_record(records, keys.TRAIN_SAMPLES, value=round(trained)))
    verdict, codes = _check(_write(tmp_path, runs, DLRM, "2.1"))
    assert verdict.outcome == outcome and ("RS104" in codes) == (outcome == "invalid")
