"""What a rule says beside its code: how severe it is in which round, what was found, and what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import Record, make_runs, with_record, without, write_set
from rule_cases import DCNV2, DLRM, published_factor

from harness.cli import main
from rules.checks.rule import Finding
from rules.judge.checker import check_paths
from rules.logs import keys


def _findings(
    folder: Path, change: Callable[[list[Record]], list[Record]] = list, round_name: str = "5.1"
) -> tuple[Finding, ...]:
    """What is found in a set of a round each log of which is changed."""
    root = folder / f"training_results_v{round_name}" / "Example"
    benchmark = DLRM if round_name < "3" else DCNV2
    write_set(root, benchmark, [change(records) for records in make_runs(benchmark, ours=False)], ours=False)
    (verdict,) = check_paths([root / "results"], None, False, None)
    return verdict.findings


@pytest.mark.parametrize("round_name", ["3.0", "4.0"])
def test_a_seed_that_no_rule_asked_for_is_not_missed_but_mentioned(tmp_path: Path, round_name: str) -> None:
    found = _findings(tmp_path, lambda records: without(records, keys.SEED), round_name)
    assert {finding.severity for finding in found if finding.code == "SE102"} == {"info"}


def test_an_empty_metadata_is_shown_and_matters_only_where_a_rule_reads_it(tmp_path: Path) -> None:
    def change(records: list[Record]) -> list[Record]:
        extra = {**records[5], "key": "lowest_numerical_precision_in_comm", "metadata": ""}
        return [{**record, "metadata": ""} if record["key"] == keys.SEED else record for record in records] + [extra]

    found = {
        finding.message: (finding.severity, finding.found)
        for finding in _findings(tmp_path, change)
        if finding.code == "ST103"
    }
    assert found == {
        "seed: 'metadata' is not an object": ("warning", '""'),
        "lowest_numerical_precision_in_comm: 'metadata' is not an object": ("info", '""'),
    }


@pytest.mark.parametrize(("round_name", "severity"), [("2.1", "info"), ("5.1", "warning")])
def test_disorder_before_the_run_is_a_formatters_of_old_rounds(
    tmp_path: Path, round_name: str, severity: str
) -> None:
    found = _findings(
        tmp_path, lambda records: with_record(records, keys.SEED, time_ms=1_780_000_000_000), round_name
    )
    assert {finding.severity for finding in found if finding.code == "TI101"} == {severity}


def test_disorder_inside_the_run_is_a_warning_in_every_round(tmp_path: Path) -> None:
    def change(records: list[Record]) -> list[Record]:
        stop = next(record["time_ms"] for record in records if record["key"] == keys.RUN_STOP)
        return with_record(records, keys.EVAL_ACCURACY, 3, time_ms=stop)

    found = _findings(tmp_path, change, "2.1")
    assert {finding.severity for finding in found if finding.code == "TI101"} == {"warning"}


def test_why_a_cache_was_not_cleared_is_said_whole(tmp_path: Path) -> None:
    why = (
        "posix_fadvise, 26214400 bytes stayed: another process maps or reads them, or the file system keeps its files"
    )

    def change(records: list[Record]) -> list[Record]:
        return with_record(records, keys.CACHE_CLEAR, value=False, metadata={"method": why})

    finding = next(finding for finding in _findings(tmp_path, change) if finding.code == "TI106")
    assert why in finding.message and "another dlrmbench" in finding.remedy
    found = _findings(
        tmp_path / "long",
        lambda records: with_record(change(records), keys.CACHE_CLEAR, metadata={"method": "x" * 10**5}),
    )
    assert all(len(finding.message) < 300 for finding in found)


def test_the_cause_comes_first_where_logs_name_another_benchmark(tmp_path: Path) -> None:
    found = _findings(tmp_path, lambda records: with_record(records, keys.SUBMISSION_BENCHMARK, value="dlrm"))
    assert found[0].code == "RS106" and "did you mean submission_benchmark dlrm_dcnv2" in (found[0].expected or "")
    assert "RS102" not in {finding.code for finding in found}


def test_a_blank_in_a_benchmarks_name_is_seen(tmp_path: Path) -> None:
    found = _findings(tmp_path, lambda records: with_record(records, keys.SUBMISSION_BENCHMARK, value="dlrm_dcnv2 "))
    unknown = next(finding for finding in found if finding.code == "ST110")
    assert "did you mean dlrm_dcnv2?" in unknown.message and "without blanks" in unknown.remedy


def test_a_seed_of_minus_one_is_no_seed(tmp_path: Path) -> None:
    found = _findings(tmp_path, lambda records: with_record(records, keys.SEED, value=-1))
    assert "was drawn" in next(finding for finding in found if finding.code == "SE101").remedy


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_factor_is_compared_only_where_the_logs_are_sound(tmp_path: Path, is_broken: bool) -> None:
    root = published_factor(tmp_path / "Example", 1.7)
    if is_broken:
        path = next((root / "results").rglob("result_4.txt"))
        path.write_text(path.read_text().replace('"eval_samples", "value": 8', '"eval_samples", "value": 9'))
    (verdict,) = check_paths([root / "results"], None, False, None)
    codes = {finding.code for finding in verdict.findings}
    assert ("HP101" in codes, "RC103" in codes) == (is_broken, not is_broken)


def test_words_that_were_valid_once_are_named_so(tmp_path: Path) -> None:
    root = tmp_path / "training_results_v4.0" / "Example"
    write_set(root, DCNV2, make_runs(DCNV2, ours=False), ours=False)
    description = root / "systems" / "example.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"status": "onprem"}))
    (verdict,) = check_paths([root / "results"], None, False, None)
    (finding,) = (finding for finding in verdict.findings if finding.code == "SY104")
    assert finding.severity == "warning" and "before May 2024 other words were valid" in finding.message


@pytest.mark.slow
def test_where_the_rounds_own_checker_accepts_a_log_the_verdict_says_so_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "training_results_v5.1" / "Example"
    runs = make_runs(DCNV2, ours=False)
    rare = [[one for one in records if one["metadata"].get("epoch_num", 1) > 0.3] for records in runs[:2]]
    write_set(root, DCNV2, [*rare, *runs[2:]], ours=False)
    with pytest.raises(SystemExit):
        main(["check", str(root / "results")])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "the official checker says SUCCESS to 2 of 2 logs with errors here, by its own rules of round 5.1, which do "
        "not test CA101, that evaluations must come as often as the benchmark says"
    ) in said
    with pytest.raises(SystemExit):
        main(["check", str(root / "results"), "--no-second-opinion"])
    assert "SUCCESS" not in capsys.readouterr().out
