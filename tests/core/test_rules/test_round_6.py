"""Round 6.0 has a logger whose blocks all have one samples_count: they are blocks, and not how far training came."""

from pathlib import Path

import pytest
from log_builder import Record, make_records, make_runs, to_log, with_record, write_log, write_set
from official_opinion import ask_official_checker
from published_round_cases import DCNV2, with_constant_blocks

from rules.benchmarks.loader import load_benchmark
from rules.judge.sets import check_log, judge_set
from rules.logs import keys
from rules.scoring.results import read_run_result
from rules.tree.inventory import find_result_sets

V4 = load_benchmark("dlrmv4")
(RECORDS,) = make_runs(DCNV2, 1, ours=False)
PLAIN = read_run_result(to_log(RECORDS), DCNV2)


def test_set_of_such_logs_is_valid_and_scored_as_any_other(tmp_path: Path) -> None:
    results = []
    for name, change in (("plain", list), ("blocks", with_constant_blocks)):
        root = tmp_path / "training_results_v6.0" / name
        runs = [change(records) for records in make_runs(DCNV2, ours=False, organization=name)]
        write_set(root, DCNV2, runs, ours=False)
        (found,) = find_result_sets(root)
        judged = judge_set(found)
        assert judged.verdict.outcome == "valid"
        codes = {finding.code for finding in judged.verdict.findings if finding.severity != "info"}
        assert codes == {"SY105"}, codes  # the description names Example
        results.append(judged.result)
    plain, blocks = results
    assert plain.score_s == blocks.score_s and plain.rcp_factor == blocks.rcp_factor
    for run, other in zip(plain.runs, blocks.runs, strict=True):
        assert run.samples_to_converge == pytest.approx(other.samples_to_converge, rel=1e-9)
        assert run.throughput_samples_per_s == pytest.approx(other.throughput_samples_per_s, rel=1e-9)


def test_official_checker_accepts_the_same(tmp_path: Path) -> None:
    log = write_log(tmp_path / "result_0.txt", with_constant_blocks(RECORDS))
    (opinion,) = ask_official_checker([log], "6.0")
    assert opinion.outcome == "valid", opinion.messages


def test_count_that_stays_the_same_is_not_what_was_trained() -> None:
    """Also where it is beside epoch_num in the evaluations; the convergence of dlrm_dcnv2 is by epoch_num."""
    records = with_constant_blocks(RECORDS)
    for record in records:
        if record["key"] == keys.EVAL_ACCURACY:
            record["metadata"]["samples_count"] = 209_762_611
    run = read_run_result(to_log(records), DCNV2)
    assert {evaluation.samples_count for evaluation in run.evaluations} == {None}
    assert run.samples_to_converge == pytest.approx(PLAIN.samples_to_converge, rel=1e-9)
    assert run.epochs_to_converge == PLAIN.epochs_to_converge


def test_count_that_grows_is_what_was_trained() -> None:
    assert [evaluation.samples_count for evaluation in PLAIN.evaluations] == [
        line.metadata["samples_count"] for line in to_log(RECORDS).all(keys.EVAL_ACCURACY)
    ]


def test_samples_of_dlrmv4_are_those_of_its_evaluations_whatever_its_blocks_say() -> None:
    records = make_records(V4, num_evals=4, ours=False)
    run = read_run_result(to_log(records), V4)
    for index in range(4):
        for key in (keys.BLOCK_START, keys.BLOCK_STOP):
            records = with_record(records, key, index, metadata={"samples_count": 2_293_760, "epoch_count": None})
    other = read_run_result(to_log(records), V4)
    assert run.samples_to_converge == other.samples_to_converge == run.evaluations[-1].samples_count
    assert run.train_s == other.train_s and run.throughput_samples_per_s == other.throughput_samples_per_s


def findings_of(records: list[Record], tmp_path: Path) -> list[tuple[str, str, int]]:
    """Severity, message and number of what ST103 finds in an official log of round 6.0."""
    log = write_log(tmp_path / "training_results_v6.0" / "result_0.txt", records)
    verdict = check_log(log, ruleset="6.0")
    assert verdict.outcome == "valid"
    return [(f.severity, f.message, f.number) for f in verdict.findings if f.code == "ST103"]


def test_empty_metadata_as_mllog_writes_it_is_said_and_no_warning_where_no_rule_reads_it(tmp_path: Path) -> None:
    settings = [record for record in RECORDS if record["key"].startswith(("opt_", "submission_"))]
    assert len(settings) >= 7
    changed = [{**record, "metadata": ""} if record in settings else record for record in RECORDS]
    found = findings_of(changed, tmp_path)
    assert {severity for severity, _, _ in found} == {"info"}
    assert sum(number for _, _, number in found) == len(settings)
    assert all("metadata" in message for _, message, _ in found)


@pytest.mark.parametrize("key", [keys.SEED, keys.EVAL_ACCURACY, keys.RUN_STOP])
def test_empty_metadata_is_more_than_said_where_rules_read_it(key: str, tmp_path: Path) -> None:
    changed = [{**record, "metadata": ""} if record["key"] == key else record for record in RECORDS]
    log = write_log(tmp_path / "training_results_v6.0" / "result_0.txt", changed)
    found = [finding for finding in check_log(log, ruleset="6.0").findings if finding.code == "ST103"]
    assert {finding.severity for finding in found} == {"warning"} and found[0].message.startswith(key)
