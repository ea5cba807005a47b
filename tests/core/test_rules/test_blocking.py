"""A broken rule keeps others from being judged only where they read what it says is wrong."""

from pathlib import Path

import pytest
from log_builder import Record, make_records, to_text, with_record, without
from rule_cases import DCNV2
from submission_cases import with_power

from rules.checks.rule import Problem, judge, rule
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.judge.sets import check_log
from rules.logs import keys

LOW = with_record(make_records(DCNV2, ours=False, num_evals=4), keys.EVAL_ACCURACY, -1, value=0.8)
"""Claims success below the target."""


def _judged(folder: Path, records: list[Record], text: str | None = None) -> Verdict:
    path = folder / "result_0.txt"
    path.write_text(to_text(records) if text is None else text)
    return check_log(path, ruleset="6.0")


def _codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings if finding.severity == "error"}


@pytest.mark.parametrize(
    "key", [keys.SEED, keys.GLOBAL_BATCH_SIZE, keys.SUBMISSION_ORG, keys.OPT_NAME, keys.INIT_STOP]
)
def test_a_missing_setting_hides_no_claim_of_success(key: str, tmp_path: Path) -> None:
    assert {"ST104", "QU102"} <= _codes(_judged(tmp_path, without(LOW, key)))


def test_a_broken_line_of_another_key_hides_nothing(tmp_path: Path) -> None:
    text = to_text(LOW).replace('"key": "opt_name", "value": "adagrad"', '"key": "opt_name", "value": adagrad')
    assert {"ST101", "QU102"} <= _codes(_judged(tmp_path, LOW, text))


@pytest.mark.parametrize("key", [keys.RUN_START, keys.EVAL_ACCURACY])
def test_what_a_rule_reads_must_be_there(key: str, tmp_path: Path) -> None:
    verdict = _judged(tmp_path, without(LOW, key))
    reasons = {outcome.code: outcome.reason for outcome in verdict.outcomes}
    assert reasons["QU102"] == "ST104 failed" and "QU102" not in _codes(verdict)


def test_every_problem_blocks_also_those_that_are_not_listed() -> None:
    @rule("ST998", "many", source="none", remedy="none")
    def many(subject: object) -> list[Problem]:
        return [Problem("wrong", keys=(f"key {number}",)) for number in range(100)]

    def reader(*names: str) -> str:
        @rule("ST999", "a reader", source="none", remedy="none", requires={"ST998"}, reads=names)
        def found(subject: object) -> list[Problem]:
            return []

        return judge([many, found], object(), "place")[1].status

    assert [reader("key 99"), reader("key 3", "other"), reader("key 100"), reader()] == [
        "skip",
        "skip",
        "pass",
        "pass",
    ]


def test_a_measurement_without_length_is_still_counted(tmp_path: Path) -> None:
    """Start and stop have one stamp, and half of the readings are missing."""

    def change(records: list[Record]) -> list[Record]:
        sparse = [one for index, one in enumerate(records) if index in (0, len(records) - 1) or index % 2]
        return with_record(sparse, "power_measurement_stop", time_ms=records[0]["time_ms"])

    (verdict,) = check_paths([with_power(tmp_path, change=change)], second_opinion=False)
    found = {finding.code for finding in verdict.findings if finding.path.endswith("result_0/node_0.txt")}
    assert found == {"PW104", "PW108"}
