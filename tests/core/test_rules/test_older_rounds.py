"""Rounds before 3.0: train_samples is the dataset's size or what was trained, and results are comparable anyway."""

from pathlib import Path

import pytest
from log_builder import make_records, make_runs, to_log, with_record, write_set
from published_round_cases import BATCH, DLRM, SIZE, older_set, trained_samples

from rules.benchmarks.loader import load_benchmark
from rules.benchmarks.rounds import may_log_trained_samples
from rules.checks.run_log.hyperparameters import dataset_size
from rules.checks.subject import make_log_subject
from rules.judge.checker import check_paths
from rules.judge.sets import judge_sets
from rules.logs import keys
from rules.scoring.comparable import why_not_comparable
from rules.scoring.results import dataset_samples, read_run_result
from rules.tree.inventory import find_result_sets

RECORDS = make_records(DLRM, ours=False, num_evals=19, global_batch_size=BATCH)


def test_what_was_trained_is_no_finding_in_a_log_or_a_set(tmp_path: Path) -> None:
    (verdict,) = check_paths([older_set(tmp_path)], second_opinion=False)
    assert verdict.outcome == "valid"
    assert not {"HP103", "RS104"} & {finding.code for finding in verdict.findings}


def test_another_ratio_is_a_warning_with_both_numbers_and_the_batch_that_explains_them(tmp_path: Path) -> None:
    (verdict,) = check_paths([older_set(tmp_path, batch=27_648)], second_opinion=False)
    found = [finding for finding in verdict.findings if finding.code == "HP103"]
    steps = 3793 * 18  # evaluations are after 18, 19, 20, 18 and 19 twentieths of the epoch
    assert verdict.outcome == "valid" and [finding.severity for finding in found] == ["warning"] * 5
    assert found[0].message == (
        "train_samples is 0.5 of what epoch_num gives; both fit if epoch_num counts batches of 55296, not of 27648"
    )
    assert found[0].found == f"{steps * 27_648}; throughput in tracked_stats times the run's time is 1.888e+09"
    assert found[0].expected == f"{steps * BATCH} after 0.899905 epochs, or the dataset's {SIZE}"
    assert found[0].remedy == "Compute epoch_num and train_samples from the batch size that was trained with."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "train_samples is 1.757e-09 of what epoch_num gives"),
        (10**15, "train_samples is 2.509e+05 of what epoch_num gives"),
    ],
)
def test_no_batch_size_explains_what_is_far_off(value: int, message: str) -> None:
    log = to_log(with_record(trained_samples(RECORDS), keys.TRAIN_SAMPLES, value=value))
    (problem,) = dataset_size.check(make_log_subject(log, DLRM, "2.1"))
    assert (problem.message, problem.severity) == (message, "warning")


def test_statistics_of_several_blocks_are_no_total() -> None:
    records = trained_samples(RECORDS, batch=27_648)
    (problem,) = dataset_size.check(make_log_subject(to_log([*records, records[-1]]), DLRM, "2.1"))
    assert problem.found == str(3793 * 19 * 27_648)


@pytest.mark.parametrize(("batch", "said"), [(BATCH, None), (27_648, "a mean of 1.4666 epochs"), (51_200, None)])
def test_set_that_would_not_pass_by_train_samples_is_a_warning(batch: int, said: str | None, tmp_path: Path) -> None:
    """Judged by epoch_num, as the official checker does: 1.95 epochs. At 51200 of 55296 it passes by both."""
    (verdict,) = check_paths([older_set(tmp_path, batch)], second_opinion=False)
    found = [finding for finding in verdict.findings if finding.code == "RC101"]
    assert verdict.outcome == "valid" and [finding.found for finding in found] == ([] if said is None else [said])
    for finding in found:
        assert finding.severity == "warning"
        assert finding.message == "by train_samples the set would converge faster than the reference allows"
        assert finding.expected == "at least 1.7228 epochs"
        assert finding.remedy == "Show which is right: train_samples, or epoch_num, by which the set is judged."


def test_less_than_a_hundredth_off_is_the_dataset_with_something_left_out() -> None:
    """Whatever was trained: evaluation 19 of 20 is not 0.95 of that number."""
    log = to_log(with_record(trained_samples(RECORDS), keys.TRAIN_SAMPLES, value=SIZE - 10**6))
    (problem,) = dataset_size.check(make_log_subject(log, DLRM, "2.1"))
    assert (problem.message, problem.severity) == ("train_samples is not the benchmark's", "warning")
    assert (problem.found, problem.expected) == (str(SIZE - 10**6), f"{SIZE}, or the samples trained")


def test_samples_and_throughput_are_those_of_the_whole_dataset() -> None:
    """The same training gives the same numbers, whether the log gives the dataset's size or what was trained."""
    plain, trained = to_log(RECORDS), to_log(trained_samples(RECORDS))
    run, other = read_run_result(plain, DLRM), read_run_result(trained, DLRM)
    assert trained.value(keys.TRAIN_SAMPLES) == run.samples_to_converge == 3793 * 19 * BATCH
    assert other.train_samples == SIZE and other.epochs_to_converge == pytest.approx(run.epochs_to_converge)
    assert other.samples_to_converge == pytest.approx(run.samples_to_converge, rel=1e-9)
    assert other.train_s is not None and other.throughput_samples_per_s is not None
    assert other.throughput_samples_per_s * other.train_s == pytest.approx(3793 * 19 * BATCH)
    assert why_not_comparable(run, other) is None


def test_what_is_the_definitions_is_said_to_be() -> None:
    """Official logs say no target, and the size of the dataset only where train_samples is not what was trained."""
    plain, trained = read_run_result(to_log(RECORDS), DLRM), read_run_result(to_log(trained_samples(RECORDS)), DLRM)
    assert plain.from_definition == ("quality_target",)
    assert trained.from_definition == ("quality_target", "train_samples")
    tiny = load_benchmark("dlrm_tiny")
    assert read_run_result(to_log(make_records(tiny)), tiny).from_definition == ()


def test_sets_that_stop_at_other_epochs_may_be_compared(tmp_path: Path) -> None:
    for batch, organization in ((BATCH, "A"), (27_648, "B")):
        older_set(tmp_path, batch, organization)
    first, second = judge_sets(find_result_sets(tmp_path), second_opinion=False)
    for run in first.runs:
        assert [why_not_comparable(run, other) for other in second.runs] == [None] * 5


def test_open_is_free_in_its_data_and_keeps_the_size_that_it_logs() -> None:
    """Only where the number is what was trained, the definition's size counts."""
    trained = trained_samples(RECORDS, division="open")
    assert dataset_samples(to_log(trained), DLRM) == SIZE
    assert dataset_samples(to_log(with_record(trained, keys.TRAIN_SAMPLES, value=10**9)), DLRM) == 10**9
    assert dataset_samples(to_log(with_record(trained, keys.TRAIN_SAMPLES, value="")), DLRM) is None


@pytest.mark.parametrize("last", [1_000_000_000, 2_000_000_000])
def test_open_runs_of_one_set_have_one_dataset(last: int, tmp_path: Path) -> None:
    runs = [trained_samples(records, division="open") for records in make_runs(DLRM, ours=False)]
    sizes = [1_000_000_000] * 4 + [last]
    runs = [with_record(run, keys.TRAIN_SAMPLES, value=size) for run, size in zip(runs, sizes, strict=True)]
    write_set(tmp_path / "training_results_v2.1" / "Example", DLRM, runs, ours=False)
    (verdict,) = check_paths([tmp_path / "training_results_v2.1"], second_opinion=False)
    assert ("RS104" in {finding.code for finding in verdict.findings}) is (last != sizes[0])


def test_from_round_3_on_and_in_our_own_logs_train_samples_is_the_size() -> None:
    dcnv2 = load_benchmark("dlrm_dcnv2")
    assert may_log_trained_samples(DLRM) and not may_log_trained_samples(dcnv2)
    assert not may_log_trained_samples(load_benchmark("dlrm_tiny"))
    (records,) = make_runs(dcnv2, 1, ours=False)
    log = to_log(with_record(records, keys.TRAIN_SAMPLES, value=3_775_334_400))
    assert read_run_result(log, dcnv2).train_samples == 3_775_334_400
