"""Rounds 0.7 to 2.0: what their own checkers accepted is accepted here, in the dialects of their logs."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from log_builder import Record, make_records, make_runs, to_log, with_record, without, write_log, write_set
from official_opinion import ask_official_checker
from published_round_cases import BATCH, DLRM

from rules.checks.run_log.quality import stops_when_met, success_means_met
from rules.checks.run_log.structure import records_are_complete
from rules.checks.subject import make_log_subject
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.judge.sets import check_log
from rules.logs import keys
from rules.scoring.results import evaluations_inside_run, read_run_result

Dialect = Callable[[Sequence[Record]], list[Record]]
RECORDS = make_records(DLRM, ours=False, num_evals=19, global_batch_size=BATCH)


def rounded_apart(records: Sequence[Record], late_ms: int = 5) -> list[Record]:
    """As HugeCTR's post-formatter: the last evaluation stands above run_stop, and is stamped after it."""
    stop = next(record for record in records if record["key"] == keys.RUN_STOP)
    return with_record(records, keys.EVAL_ACCURACY, -1, time_ms=stop["time_ms"] + late_ms)


def by_every_rank(records: Sequence[Record], num_ranks: int = 8) -> list[Record]:
    """As several ranks that log one evaluation each, within a second."""
    place = max(index for index, record in enumerate(records) if record["key"] == keys.EVAL_ACCURACY)
    copies = [{**records[place], "time_ms": records[place]["time_ms"] - rank} for rank in range(num_ranks)]
    return [*records[:place], *reversed(copies), *records[place + 1 :]]


def by_an_old_mllog(records: Sequence[Record]) -> list[Record]:
    """As on TPUs: no event_type anywhere, and what names the submission at the end, stamped 0."""
    named = (
        keys.SUBMISSION_BENCHMARK,
        keys.SUBMISSION_DIVISION,
        keys.SUBMISSION_ORG,
        keys.SUBMISSION_PLATFORM,
        keys.SUBMISSION_STATUS,
    )
    at_the_end = [{**record, "time_ms": 0} for record in records if record["key"] in named]
    rest = [record for record in records if record["key"] not in named]
    return [{key: value for key, value in record.items() if key != "event_type"} for record in [*rest, *at_the_end]]


def in_seconds_and_milliseconds(records: Sequence[Record]) -> list[Record]:
    """As HugeCTR in 0.7: seconds of the epoch plus milliseconds of the run, from different beginnings."""
    begin = records[0]["time_ms"]
    shifted = [{**record, "time_ms": begin // 1000 + record["time_ms"] - begin} for record in records]
    return with_record(shifted, keys.CACHE_CLEAR, time_ms=begin // 1000 + 10**9)


def verdict_of(folder: Path, dialect: Dialect, round_name: str) -> Verdict:
    runs = make_runs(DLRM, ours=False, num_evals=19, global_batch_size=BATCH)
    root = folder / f"training_results_v{round_name}"
    write_set(root / "Example", DLRM, [dialect(records) for records in runs], ours=False)
    (verdict,) = check_paths([root], second_opinion=False)
    return verdict


@pytest.mark.parametrize(
    ("dialect", "round_name"),
    [
        *product([rounded_apart], ["0.7", "1.0"]),
        *product([by_every_rank, by_an_old_mllog, in_seconds_and_milliseconds], ["0.7", "1.0", "1.1"]),
    ],
)
def test_what_was_accepted_is_valid(dialect: Dialect, round_name: str, tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, dialect, round_name)
    assert verdict.outcome == "valid", [
        (finding.code, finding.message) for finding in verdict.findings if finding.severity == "error"
    ]
    assert not {"HP103", "TI104", "QU102", "QU105", "RS105"} & {finding.code for finding in verdict.findings}


@pytest.mark.parametrize("dialect", [by_an_old_mllog, in_seconds_and_milliseconds, rounded_apart])
def test_later_rounds_ask_for_what_theirs_read(dialect: Dialect, tmp_path: Path) -> None:
    assert verdict_of(tmp_path, dialect, "2.1").outcome == "invalid"


def test_a_stamp_of_rounding_changes_no_time_and_no_quality() -> None:
    before, after = (read_run_result(to_log(records), DLRM, "1.0") for records in (RECORDS, rounded_apart(RECORDS)))
    for name in ("time_to_train_s", "converged", "final_quality"):
        assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize(("late_ms", "num_found"), [(1, 0), (10, 0), (11, 1), (3000, 1)])
def test_a_target_met_later_than_rounding_explains_is_an_error(late_ms: int, num_found: int) -> None:
    subject = make_log_subject(to_log(rounded_apart(RECORDS, late_ms)), DLRM, "1.0")
    problems = list(success_means_met.check(subject))
    assert len(problems) == num_found
    for problem in problems:
        assert f" is stamped {late_ms} ms after run_stop" in (problem.found or "")
        assert problem.remedy is not None and "run_stop" in problem.remedy


def test_an_evaluation_below_run_stop_is_outside_however_it_is_stamped() -> None:
    evaluation = [record for record in RECORDS if record["key"] == keys.EVAL_ACCURACY][-1]
    place = max(index for index, record in enumerate(RECORDS) if record["key"] == keys.EVAL_ACCURACY)
    moved = [*RECORDS[:place], *RECORDS[place + 1 :], evaluation]
    (problem,) = success_means_met.check(make_log_subject(to_log(moved), DLRM, "1.0"))
    assert (problem.found or "").endswith("below run_stop")
    inside = evaluations_inside_run(to_log(moved))
    assert len(inside) == len(evaluations_inside_run(to_log(RECORDS))) - 1


def test_evaluations_after_the_target_are_counted_by_epoch() -> None:
    ranked = by_every_rank(RECORDS)
    assert list(stops_when_met.check(make_log_subject(to_log(ranked), DLRM, "1.0"))) == []
    early = with_record(ranked, keys.EVAL_ACCURACY, 10, value=0.81)
    (problem,) = stops_when_met.check(make_log_subject(to_log(early), DLRM, "1.0"))
    assert problem.message == "the target was met 8 evaluations before the run stopped"


def test_a_record_may_lack_what_nobody_reads() -> None:
    names = [record for record in RECORDS if record["key"] == keys.SUBMISSION_ORG]
    rest = without(RECORDS, keys.SUBMISSION_ORG)
    for lacking, severity in (("event_type", "warning"), ("metadata", "error")):
        bare = {key: value for key, value in names[0].items() if key != lacking}
        records = [rest[0], rest[1], bare, *rest[2:]]
        verdict = make_log_subject(to_log(records), DLRM, "4.0")

        (problem,) = records_are_complete.check(verdict)
        assert problem.severity == severity


@pytest.mark.parametrize("round_name", ["0.7", "2.1"])
def test_a_quality_of_1_meets_no_target_of_dlrm(round_name: str, tmp_path: Path) -> None:
    """An AUC of exactly 1 is what its checkers reject; those of dlrm_dcnv2 do not."""
    log = write_log(tmp_path / "result_0.txt", with_record(RECORDS, keys.EVAL_ACCURACY, -1, value=1.0))
    verdict = check_log(log, ruleset=round_name)
    (found,) = [finding for finding in verdict.findings if finding.code == "ST105"]
    assert (found.severity, found.expected) == ("error", "a number from 0 to below 1")
    (opinion,) = ask_official_checker([log], round_name)
    assert (verdict.outcome, opinion.outcome) == ("invalid", "invalid")
