"""From a log to one run's times and counts; what a log does not say is None, never zero."""

import pytest
from log_builder import START_MS, make_records, parse_lines, to_log, with_record, without
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results

from rules.benchmarks.loader import load_benchmark
from rules.logs.log import read_log
from rules.scoring.results import length, read_run_result, union

TINY, DLRM = load_benchmark("dlrm_tiny"), load_benchmark("dlrm")


def test_times_and_counts_of_a_run_add_up() -> None:
    result = read_run_result(to_log(make_records(TINY, num_evals=4, throughput=100_000.0, seed=5)), TINY)
    samples = int(TINY.sections["data"]["train_samples"])
    batch = int(TINY.sections["train"]["global_batch_size"])
    trained = 4 * TINY.steps_between_evals(samples, batch) * batch
    assert result.converged and result.status == "success" and result.abort_reason is None
    assert result.samples_to_converge == trained
    assert result.epochs_to_converge == pytest.approx(trained / samples)
    assert result.throughput_samples_per_s == pytest.approx(100_000, rel=0.02)
    assert result.train_s == pytest.approx(trained / 100_000, rel=0.02)
    assert result.time_to_train_s is not None and result.train_s is not None and result.overhead_s is not None
    assert result.time_to_train_s == pytest.approx(result.train_s + result.overhead_s)
    assert result.eval_s is not None and result.eval_s <= result.overhead_s
    assert len(result.evaluations) == 4
    assert [evaluation.elapsed_s for evaluation in result.evaluations] == sorted(
        evaluation.elapsed_s for evaluation in result.evaluations
    )
    assert result.final_quality == result.evaluations[-1].quality >= TINY.quality.target
    assert (result.seed, result.benchmark, result.division) == (5, "dlrm_tiny", "closed")
    assert result.started_ms is not None and result.started_ms > START_MS
    assert result.cache_clear == "cleared: posix_fadvise"


def test_run_that_did_not_converge_has_a_time_and_no_samples_to_converge() -> None:
    result = read_run_result(to_log(make_records(TINY, num_evals=2, converged=False, reason="timeout")), TINY)
    assert (result.converged, result.status, result.abort_reason) == (False, "aborted", "timeout")
    assert result.samples_to_converge is None and result.epochs_to_converge is None
    assert result.time_to_train_s is not None and result.throughput_samples_per_s is not None


def test_claimed_success_below_the_target_has_not_converged() -> None:
    records = with_record(make_records(TINY, num_evals=2), "eval_accuracy", -1, value=TINY.quality.target - 1e-6)
    assert not read_run_result(to_log(records), TINY).converged


def test_evaluations_outside_the_run_do_not_count() -> None:
    records = with_record(make_records(TINY, num_evals=2), "eval_accuracy", -1, time_ms=START_MS - 5)
    result = read_run_result(to_log(records), TINY)
    assert len(result.evaluations) == 1 and not result.converged


def test_dlrm_counts_epochs_from_one() -> None:
    result = read_run_result(to_log(make_records(DLRM, num_evals=15, ours=False)), DLRM)
    assert result.evaluations[-1].epoch_num == pytest.approx(1.75, abs=0.001)
    assert result.epochs_to_converge == pytest.approx(0.75, abs=0.001)
    assert result.samples_to_converge == pytest.approx(0.75 * 4195197692, rel=0.002)


def test_log_without_blocks_and_sample_counts_gets_them_from_epochs_and_evaluations() -> None:
    records = make_records(load_benchmark("dlrm_dcnv2"), num_evals=15, ours=False)
    records = [record for record in records if not record["key"].startswith("block_")]
    for record in records:
        record["metadata"].pop("samples_count", None)
    result = read_run_result(to_log(records))
    assert result.samples_to_converge == pytest.approx(0.75 * 4195197692, rel=0.001)
    assert result.train_s is not None and result.time_to_train_s is not None and result.eval_s is not None
    assert result.train_s == pytest.approx(result.time_to_train_s - result.eval_s)


@pytest.mark.parametrize(
    "key", ["run_start", "run_stop", "train_samples", "seed", "eval_accuracy", "submission_benchmark"]
)
def test_missing_lines_give_none(key: str) -> None:
    result = read_run_result(to_log(without(make_records(TINY, num_evals=2), key)), TINY)
    missing = {
        "run_start": result.time_to_train_s,
        "run_stop": result.time_to_train_s,
        "train_samples": result.train_samples,
        "seed": result.seed,
        "eval_accuracy": result.final_quality,
        "submission_benchmark": result.benchmark,
    }
    assert missing[key] is None


def test_empty_log_gives_nothing_and_does_not_fail() -> None:
    result = read_run_result(parse_lines(""))
    assert result.time_to_train_s is None and result.evaluations == () and not result.converged


def test_benchmark_of_the_log_is_used_where_none_is_given() -> None:
    result = read_run_result(to_log(make_records(load_benchmark("dlrm_dcnv2"), ours=False)))
    assert result.quality_target == 0.80275


@needs_published_results
def test_published_runs() -> None:
    folder = NVIDIA / "results" / "tyche_ngpu8_ngc25.03_hugectr" / "dlrm_dcnv2"
    result = read_run_result(read_log(folder / "result_0.txt"))
    assert result.time_to_train_s == pytest.approx(124.377)
    assert result.init_s == pytest.approx(17.112)
    assert result.epochs_to_converge == pytest.approx(0.6999037815)
    assert (result.organization, result.global_batch_size, result.learning_rate) == ("NVIDIA", 55296, 0.004)
    aborted = read_run_result(read_log(CISCO / "results" / "hpf_n8" / "dlrm_dcnv2" / "result_1.txt"))
    assert (aborted.converged, aborted.status) == (False, "aborted")


def test_intervals() -> None:
    merged = union([(5, 7), (0, 2), (1, 3), (9, 9), (6, 100)], low=0.5, high=10)
    assert merged == ((0.5, 3), (5, 10))
    assert length(merged) == 7.5
    assert union((*merged, (2, 6)), low=0.5, high=10) == ((0.5, 10),)
