"""What is said of a set where one cause has many effects: the cause, first."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cause_cases import stop_early
from inside import run_inside
from log_builder import Record, make_runs, to_text, with_record, write_set
from rule_cases import DCNV2, DLRM
from submission_builder import set_folder, write, write_submission

from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.judge.sets import check_log
from rules.logs import keys
from rules.logs.log import parse_bytes, read_log

RUNS = make_runs(DCNV2, ours=False)


def _set(folder: Path, change: Callable[[list[Record]], list[Record]]) -> Verdict:
    root = folder / "training_results_v5.1" / "Example"
    write_set(root, DCNV2, [change(records) for records in RUNS], ours=False)
    (verdict,) = check_paths([root / "results"], second_opinion=False)
    return verdict


def test_a_relaunch_in_one_log_is_one_finding(tmp_path: Path) -> None:
    records = RUNS[0]
    place = next(index for index, one in enumerate(records) if one["key"] == keys.EVAL_STOP) + 1
    later = [{**one, "time_ms": one["time_ms"] + 10**7} for one in records]
    path = tmp_path / "result_0.txt"
    path.write_text(to_text([*records[:place], *later]))
    verdict = check_log(path, ruleset="5.1")
    first = next(index for index, one in enumerate(later) if one["key"] == keys.INIT_START)
    found = [finding for finding in verdict.findings if finding.code == "ST104"]
    assert [finding.message for finding in found] == [
        f"a second run begins at line {place + first + 1}: one log per run"
    ]
    assert "log of its own" in found[0].remedy and verdict.outcome == "invalid"


def test_several_nodes_that_log_their_init_are_no_second_run(tmp_path: Path) -> None:
    records = RUNS[0]
    starts = [one for one in records if one["key"] == keys.INIT_START]
    path = tmp_path / "result_0.txt"
    path.write_text(to_text([*records[:-1], *starts, records[-1]]))
    assert not any("second run" in finding.message for finding in check_log(path, ruleset="5.1").findings)


def test_a_set_whose_clock_stopped_too_early_says_so_first(tmp_path: Path) -> None:
    verdict = _set(tmp_path, stop_early)
    first = verdict.findings[0]
    assert (
        first.code == "RS105" and "in 10 of them the target was met outside of run_start to run_stop" in first.message
    )
    assert {finding.severity for finding in verdict.findings if finding.code == "TI105"} == {"error"}


def test_runs_of_two_batch_sizes_have_a_mean_and_no_score(tmp_path: Path) -> None:
    runs = [*make_runs(DCNV2, 2, ours=False, global_batch_size=60_000), *RUNS[2:]]
    root = tmp_path / "training_results_v5.1" / "Example"
    write_set(root, DCNV2, runs, ours=False)
    (record,) = json.loads(run_inside(tmp_path, "score", root, "--format", "json").stdout)["scores"]
    assert record["score_s"] is None and record["no_score_reason"] == "the runs differ in global_batch_size"
    times = sorted(run["time_to_train_s"] for run in record["runs"])
    assert record["olympic_mean_s"] == pytest.approx(sum(times[1:-1]) / 8)
    (verdict,) = check_paths([root / "results"], second_opinion=False)
    found = next(finding for finding in verdict.findings if finding.code == "RS104")
    assert f"the Olympic mean of all, which is not a score, is {record['olympic_mean_s']:.3f} s" in found.message


@pytest.mark.parametrize("end", [b"\r", b"\r\r"])
def test_lines_that_end_in_returns_alone_are_lines(end: bytes, tmp_path: Path) -> None:
    text = to_text(RUNS[0]).replace('"key": "seed"', '"key":  "seed"').encode()
    ranked = b"".join(b"%d: %s\n" % (index % 2, line) for index, line in enumerate(text.splitlines()))
    for data in (text, ranked):
        path = tmp_path / "result_0.txt"
        path.write_bytes(data)
        plain = read_log(path)
        path.write_bytes(data.replace(b"\n", end))
        log = read_log(path)
        step = len(end)
        assert [line.line_num for line in log.lines] == [1 + (line.line_num - 1) * step for line in plain.lines]
        assert [line.rank for line in log.lines] == [line.rank for line in plain.lines]
        assert log.num_bytes == len(data) + data.count(b"\n") * (step - 1) and log.sha256 != plain.sha256


def test_progress_bars_still_end_no_line() -> None:
    data = b"10 %\r20 %\r" + to_text(RUNS[0]).encode()
    assert parse_bytes(data, "x").lines[0].line_num == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ':::MLLOG {"key": "loadgen_version", "value": "5.0", "time_ms": 0.002, "namespace": "mlperf::logging", '
            '"event_type": "POINT_IN_TIME", "metadata": {}}',
            "a LoadGen log is one of MLPerf Inference",
        ),
        (
            ':::MLLOG {"namespace":"mlperf::logging","key":"loadgen_version","value":"5.0","time_ms":0.002}',
            "a LoadGen log is one of MLPerf Inference",
        ),
        (f"{'=' * 48}\nMLPerf Results Summary\n{'=' * 48}", "a LoadGen log is one of MLPerf Inference"),
        (
            json.dumps({"log": to_text(RUNS[0][:1]), "stream": "stdout", "time": "x"}, separators=(",", ":")),
            "a log of JSON lines is no MLPerf log: each record is text inside of a JSON object, as Docker",
        ),
        (json.dumps({"_PID": "1", "MESSAGE": to_text(RUNS[0][:1])}), "a log of JSON lines is no MLPerf log"),
    ],
    ids=["LoadGen", "LoadGen without blanks", "LoadGen summary", "Docker", "journald"],
)
def test_logs_of_other_kinds_are_not_judged_and_named(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(f"{line}\n" * 5)
    for given in (path, tmp_path):
        done = run_inside(tmp_path, "check", given)
        assert done.returncode == 8
        assert "NOT JUDGED" in done.stdout + done.stderr and said in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("has_result", [False, True])
def test_a_log_of_inference_by_another_name_is_not_asked_for(has_result: bool, tmp_path: Path) -> None:
    """As a file it would be refused."""
    write(tmp_path / "detail.txt", ':::MLLOG {"namespace": "mlperf::logging", "key": "loadgen_version"}\n')
    if has_result:
        write(tmp_path / "s" / "result_0.txt", to_text(RUNS[0]))
    done = run_inside(tmp_path, "check", tmp_path, "--no-second-opinion")
    assert "MLPerf Inference" in done.stderr and "as a file" not in done.stderr
    assert done.returncode == (0 if has_result else 8)


def test_a_tree_of_inference_is_named(tmp_path: Path) -> None:
    write(
        tmp_path
        / "Org"
        / "results"
        / "s"
        / "dlrm-v2-99"
        / "Offline"
        / "performance"
        / "run_1"
        / "mlperf_log_detail.txt",
        "x",
    )
    done = run_inside(tmp_path, "check", tmp_path / "Org")
    assert done.returncode == 8 and "NOT JUDGED: holds results of MLPerf Inference" in done.stderr


@pytest.mark.parametrize(
    ("name", "meant"), [("dlrm_v4_hstu", "dlrmv4"), ("dlrm_dcnv2 ", "dlrm_dcnv2"), ("DLRM-DCNv2", "dlrm_dcnv2")]
)
def test_a_name_that_nearly_is_a_benchmarks_names_it(name: str, meant: str, tmp_path: Path) -> None:
    verdict = _set(tmp_path, lambda records: with_record(records, keys.SUBMISSION_BENCHMARK, value=name))
    assert any(f"did you mean {meant}?" in finding.message for finding in verdict.findings if finding.code == "ST110")
    shown = run_inside(tmp_path, "score", tmp_path / "training_results_v5.1").stdout
    assert f"the logs may mean {meant}" in " ".join(shown.split()) and "--benchmark" not in shown


def test_the_checks_that_are_left_out_are_named_beside_what_they_hide(tmp_path: Path) -> None:
    runs = [with_record(records, keys.SEED, value=7) for records in make_runs(DCNV2, ours=False, num_evals=12)]
    top = write_submission(tmp_path, runs=runs)
    write(top / "package_checker_params", "rcp-bypass\nseed-checker-bypass\n")
    (verdict,) = check_paths([top], second_opinion=False)
    by_code = {finding.code: finding for finding in reversed(verdict.findings)}
    for code in ("SE101", "RC101"):
        assert "has the official package checker leave this test out" in by_code[code].message
    assert sum(finding.code == "SU114" for finding in verdict.findings) == 2 and "SU106" not in by_code
    assert set_folder(top).is_dir()


def test_a_placeholder_is_said_once(tmp_path: Path) -> None:
    def change(records: list[Record]) -> list[Record]:
        named = with_record(records, keys.SUBMISSION_ORG, value="Vendor")
        return with_record(named, keys.SUBMISSION_PLATFORM, value="1xSUBMISSION_PLATFORM_PLACEHOLDER")

    found = {(finding.code, finding.severity) for finding in _set(tmp_path, change).findings}
    assert {("ST113", "warning"), ("RS107", "info")} <= found


def test_stamps_of_0_outside_the_run_are_only_said(tmp_path: Path) -> None:
    root = tmp_path / "training_results_v1.0" / "Example"
    runs = [[*records, {**records[1], "key": "note", "time_ms": 0}] for records in make_runs(DLRM, ours=False)]
    write_set(root, DLRM, runs, ours=False)
    (verdict,) = check_paths([root / "results"], second_opinion=False)
    assert {finding.severity for finding in verdict.findings if finding.code == "TI108"} == {"info"}
