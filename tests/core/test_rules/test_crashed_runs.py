"""A run that crashed: rejected by itself, the dropped slowest of an otherwise good set, and no way around a rule."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_builder import SEEDS, make_runs, to_log, to_text, with_record, without, write_log, write_set
from published_round_cases import DCNV2, DLRM, crashed, crashed_set, trained_samples

from rules.checks.subject import JudgedSet
from rules.judge.sets import check_log, judge_sets
from rules.logs import keys
from rules.tree.inventory import find_result_sets

Records = list[dict[str, Any]]


def judged(folder: Path) -> JudgedSet:
    (found,) = judge_sets(find_result_sets(folder), second_opinion=False)
    return found


def codes(found: JudgedSet, severity: str) -> set[str]:
    return {finding.code for finding in found.verdict.findings if finding.severity == severity}


def with_last(folder: Path, change: Callable[[Records], Records], num_runs: int = 10) -> JudgedSet:
    """A set whose last run is changed, and judged."""
    runs = make_runs(DCNV2, num_runs, ours=False)
    write_set(folder / "Example", DCNV2, [*runs[:-1], change(runs[-1])], ours=False)
    return judged(folder / "Example" / "results")


@pytest.mark.parametrize("last", [keys.EVAL_SAMPLES, keys.INIT_STOP, keys.RUN_START, keys.BLOCK_STOP, keys.EVAL_STOP])
def test_one_crashed_run_is_one_finding_and_the_dropped_slowest(last: str, tmp_path: Path) -> None:
    found = judged(crashed_set(tmp_path, last=last))
    (finding,) = [finding for finding in found.verdict.findings if finding.severity == "warning"]
    assert (found.verdict.outcome, finding.code, Path(finding.path).name) == ("valid", "ST116", "result_9.txt")
    assert finding.message == (
        "the log ends before its run does, as after a crash; it counts as the dropped slowest run"
    )
    assert (finding.found, finding.expected) == ("no run_stop", "run_stop with a status")
    assert [log.outcome for log in found.verdict.logs] == ["valid"] * 9 + ["invalid"]
    assert found.result.score_s is not None and 9 in found.result.dropped


def test_a_log_that_says_its_samples_at_the_end_agrees_with_the_others(tmp_path: Path) -> None:
    """As HugeCTR logged in 2.1: the crashed run has no train_samples, and the embeddings are not initialised."""
    runs = [
        trained_samples(records) for records in make_runs(DLRM, ours=False, num_evals=19, global_batch_size=55_296)
    ]
    runs[2] = [
        record
        for record in crashed(runs[2], keys.INIT_START) + runs[2][2:20]
        if record["metadata"].get("tensor") != "embeddings"
    ]
    root = tmp_path / "training_results_v2.1" / "Example"
    write_set(root, DLRM, runs, ours=False)
    found = judged(root / "results")
    assert codes(found, "error") == set() and "ST116" in codes(found, "warning")
    assert found.result.score_s is not None and 2 in found.result.dropped


def test_two_failed_runs_are_one_too_many_however_they_failed(tmp_path: Path) -> None:
    first, *others = make_runs(DCNV2, ours=False)
    (aborted,) = make_runs(DCNV2, 1, ours=False, converged=False)
    for name, failed in (("crashed", crashed(first)), ("aborted", aborted)):
        runs = [failed, *others[:-1], crashed(others[-1])]
        write_set(tmp_path / name, DCNV2, runs, ours=False)
        found = judged(tmp_path / name / "results")
        assert found.verdict.outcome == "invalid" and {"RS105", "ST116"} <= codes(found, "error")
        assert found.result.score_s is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda run: without(run, keys.RUN_STOP), "ST104"),  # met its target: the end of the log was lost
        (lambda run: without(run, keys.INIT_STOP), "ST104"),  # ended: what is missing was not lost in a crash
        (lambda run: without(crashed(run), keys.RUN_START), "ST104"),  # a hole before the last that it did
        (lambda run: without(crashed(run, keys.EVAL_SAMPLES), keys.INIT_START), "ST104"),  # no run was begun
        (lambda run: without(crashed(run), keys.GLOBAL_BATCH_SIZE), "ST104"),  # a setting
        (lambda run: without(crashed(run), keys.SUBMISSION_BENCHMARK), "ST104"),
        (lambda run: with_record(crashed(run), keys.GLOBAL_BATCH_SIZE, value=4096), "RS104"),
        (lambda run: with_record(crashed(run), keys.OPT_ADAGRAD_EPSILON, value=1e-7), "HP101"),
        (lambda run: with_record(crashed(run), keys.SEED, value=SEEDS[0]), "SE101"),
    ],
)
def test_what_a_crash_does_not_explain_stays_an_error(
    change: Callable[[Records], Records], code: str, tmp_path: Path
) -> None:
    found = with_last(tmp_path, change)
    assert found.verdict.outcome == "invalid" and code in codes(found, "error")


def test_a_record_that_is_cut_off_stays_an_error(tmp_path: Path) -> None:
    folder = crashed_set(tmp_path)
    (path,) = folder.rglob("result_9.txt")
    path.write_text(path.read_text()[:-40])
    found = judged(folder)
    assert found.verdict.outcome == "invalid" and codes(found, "error") == {"ST101"}


def test_our_own_logs_are_never_cut(tmp_path: Path) -> None:
    """An interrupted run of this harness is no result; a log that ends early was changed."""
    runs = make_runs(DCNV2)
    write_set(tmp_path, DCNV2, [*runs[:-1], crashed(runs[-1])])
    found = judged(tmp_path)
    assert found.verdict.outcome == "invalid" and "ST104" in codes(found, "error")


def test_a_log_by_itself_is_rejected_for_the_crash_alone(tmp_path: Path) -> None:
    (records,) = make_runs(DCNV2, 1, ours=False)
    verdict = check_log(write_log(tmp_path / "result_0.txt", crashed(records)))
    assert verdict.outcome == "invalid"
    assert [finding.code for finding in verdict.findings if finding.severity == "error"] == ["ST116"]
    assert to_log(crashed(records)).lines[-1].key == keys.EVAL_STOP and to_text(crashed(records)).endswith("\n")


def test_a_set_of_too_few_runs_stays_incomplete(tmp_path: Path) -> None:
    found = with_last(tmp_path, crashed, num_runs=9)
    assert found.verdict.outcome == "incomplete" and found.result.score_s is None
