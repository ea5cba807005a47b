"""Power beside a set: energy as the official summarizer computes it, over the runs that the time's score keeps."""

from pathlib import Path

import pytest
from log_builder import Record, to_log, with_record, write_log
from submission_builder import power_records, set_folder, short_runs, write_power, write_submission

from rules.judge.sets import judge_set
from rules.logs.log import read_log
from rules.scoring.energy import read_set_power, summarise
from rules.scoring.results import RunResult, read_run_result
from rules.tree.inventory import find_result_sets
from rules.tree.result_set import ResultSet


def measured_set(root: Path) -> tuple[ResultSet, list[list[Record]]]:
    runs = short_runs()
    top = write_submission(root, runs=runs)
    for index, records in enumerate(runs):
        times = {record["key"]: record["time_ms"] for record in records}
        measured = power_records(times["run_start"], times["run_stop"], watts=100.0 * (index + 1))
        write_log(set_folder(top) / "power" / f"result_{index}" / "node_0.txt", measured)
    (found,) = find_result_sets(top)
    return found, runs


def first_run() -> tuple[RunResult, list[Record]]:
    records = short_runs(1)[0]
    times = {record["key"]: record["time_ms"] for record in records}
    return read_run_result(to_log(records)), power_records(times["run_start"], times["run_stop"], watts=250.0)


def test_constant_power_gives_power_times_time() -> None:
    run, records = first_run()
    one = summarise(to_log(records), "node", 0, run)
    assert run.time_to_train_s is not None and one.mean_w == pytest.approx(250.0)
    assert one.power_w == pytest.approx(250.0)
    efficient = summarise(to_log([*records, {**records[1], "key": "conversion_eff", "value": 0.9}]), "node", 0, run)
    assert efficient.power_w == pytest.approx(225.0)


def test_energy_is_that_of_the_official_summarizer(tmp_path: Path) -> None:
    """Uneven readings, efficiency, and a switch that is estimated; theirs is in joules although it says kJ."""
    run, records = first_run()
    for index in range(1, len(records) - 1):
        records = with_record(records, "power_reading", index - 1, value=100.0 + index % 7)
    records.append({**records[1], "key": "conversion_eff", "value": 0.95})
    folder = tmp_path / "results" / "example" / "dlrm_dcnv2"
    write_log(folder / "result_0.txt", short_runs(1)[0])
    write_log(folder / "power" / "result_0" / "node_0.txt", records)
    switch = {**records[1], "key": "interconnect_power_est", "value": 40}
    write_log(folder / "power" / "result_0" / "sw_0.txt", [switch])
    from mlperf_logging.result_summarizer import result_summarizer

    assert run.time_to_train_s is not None
    theirs = result_summarizer._compute_total_power(
        str(folder), str(folder / "result_0.txt"), run.time_to_train_s * 1e3, "6.0.0"
    )
    (result_set,) = find_result_sets(folder)
    power = read_set_power(result_set, (run_at(folder / "result_0.txt"),))
    assert power is not None and power.runs[0].energy_j == pytest.approx(theirs)


def run_at(path: Path) -> RunResult:
    return read_run_result(read_log(path))


def test_energy_is_over_the_runs_that_the_time_keeps(tmp_path: Path) -> None:
    result_set, _ = measured_set(tmp_path)
    result = judge_set(result_set).result
    times_s = [run.time_to_train_s or 0.0 for run in result.runs]
    kept = [100.0 * (i + 1) * times_s[i] for i in range(10) if i not in result.dropped]
    assert len(kept) == 8
    assert result.energy_j == pytest.approx(sum(kept) / 8)


def test_what_was_not_measured_is_not_known_and_never_0(tmp_path: Path) -> None:
    result_set, _ = measured_set(tmp_path)
    kept = next(i for i in range(10) if i not in judge_set(result_set).result.dropped)
    (result_set.folder / "power" / f"result_{kept}" / "node_0.txt").unlink()
    assert judge_set(result_set).result.energy_j is None
    for path in sorted((result_set.folder / "power").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (result_set.folder / "power").rmdir()
    (again,) = find_result_sets(result_set.folder)
    assert judge_set(again).result.energy_j is None and read_set_power(again, judge_set(again).result.runs) is None


def test_values_that_are_no_power_are_left_out_and_shown() -> None:
    run, records = first_run()
    for index, value in enumerate((-1, 0, "500", None, True, 1e400)):
        records = with_record(records, "power_reading", index + 3, value=value)
    one = summarise(to_log(records), "node", 0, run)
    assert len(one.bad) == 6
    assert one.mean_w is not None and one.mean_w > 0


def test_the_official_crash_on_a_measurement_without_length_is_a_finding(tmp_path: Path) -> None:
    """Published files have start and stop at one stamp; theirs divides by zero, ours says so."""
    from mlperf_logging.compliance_checker.mlp_parser import parse_file
    from mlperf_logging.result_summarizer import result_summarizer

    runs = short_runs()
    top = write_submission(tmp_path, runs=runs)
    write_power(
        set_folder(top),
        runs,
        change=lambda one: with_record(one, "power_measurement_stop", time_ms=one[0]["time_ms"]),
    )
    path = set_folder(top) / "power" / "result_0" / "node_0.txt"
    lines, _ = parse_file(str(path), "6.0.0")
    with pytest.raises(ZeroDivisionError):
        result_summarizer._compute_power_node(lines, 1000)
    (result_set,) = find_result_sets(top)
    assert judge_set(result_set).result.energy_j is None or 0 in judge_set(result_set).result.dropped
