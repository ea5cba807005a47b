"""Sets that version 1 wrote are judged, compared and shown as they were when it wrote them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from places import TESTS

from harness.run_sets.folder import open_run_set
from rules.records.codec import Damage, decode
from rules.records.sweep import SweepRecord

VERSION_1 = TESTS / "data" / "version_1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy, since a report is written beside what it shows."""
    return Path(shutil.copytree(VERSION_1, tmp_path / "old"))


def test_runs_are_judged_against_their_records(command: Any, old: Path) -> None:
    for name, num_runs in (("runs", 2), ("two_ranks", 1)):
        code, out, _ = command("check", old / name, "--format", "json", "--no-second-opinion")
        (verdict,) = json.loads(out)["verdicts"]
        assert (code, verdict["outcome"], verdict["num_errors"]) == (0, "incomplete", 0)
        assert not {one["code"] for one in verdict["findings"]} & {"RS111", "RS112", "RS116", "RS117"}
        status = {one["code"]: one["status"] for one in verdict["rules"]}
        assert {status[code] for code in ("RS111", "RS112", "RS116", "RS117")} == {"pass"}
        record = open_run_set(old / name)[1]
        assert (record.kind, record.options, record.num_runs) == ("training", {}, num_runs)


def test_a_log_that_was_changed_is_still_found_out(command: Any, old: Path) -> None:
    log = next((old / "runs").glob("results/*/*/result_1.txt"))
    log.write_text(log.read_text().replace('"reason"', '"Reason"').replace("1470156519", "1470156518"))
    code, out, _ = command("check", old / "runs", "--format", "json", "--no-second-opinion")
    findings = [one for one in json.loads(out)["verdicts"][0]["findings"] if one["code"] == "RS116"]
    assert code == 3
    assert findings and {one["message"] for one in findings} == {"the seed is not as recorded"}


def test_a_report_shows_them_without_a_problem(command: Any, old: Path) -> None:
    code, _, err = command("report", old / "two_ranks", "-o", old / "page.html", "--no-second-opinion")
    page = (old / "page.html").read_text(encoding="utf-8")
    assert (code, "not used" in page) == (0, False), err
    assert "Exchange between ranks" in page and "node0" in page
    code, _, err = command("report", old / "throughput_sweep", "-o", old / "page.html")
    page = (old / "page.html").read_text(encoding="utf-8")
    assert (code, "not used" in page) == (0, False), err
    assert "Sweep: throughput over train.global_batch_size" in page and "1.59× faster" in page


def test_measurements_are_compared_and_history_lists_every_set(command: Any, old: Path) -> None:
    sets = sorted((old / "throughput_sweep").glob("0*"))
    document = json.loads(command("compare", *sets, "--format", "json")[1])
    (factor,) = document["comparisons"][0]["factors"]
    assert factor["ratio"] == pytest.approx(1.594, abs=1e-3)
    past = json.loads(command("history", old, "--format", "json")[1])["run_sets"]
    kinds = {Path(one["folder"]).name: (one["kind"], one["num_done"], one["problem"]) for one in past}
    assert kinds["runs"][:2] == ("training", 2) and kinds["two_ranks"][:2] == ("training", 1)
    assert {kinds[path.name] for path in sets} == {("throughput", 5, None)}


def test_a_newer_file_says_so_wherever_it_is_read(command: Any, old: Path) -> None:
    path = old / "throughput_sweep" / "sweep.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 4'))
    code, _, err = command("report", old / "throughput_sweep", "-o", old / "page.html")
    assert code == 8 and "newer than this version reads" in err
    assert isinstance(decode(path, SweepRecord), Damage)
    path = old / "runs" / "extra" / "run_set.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 4'))
    code, _, err = command("resume", old / "runs")
    assert code == 8 and "schema_version: found 4" in err and "newer than this version reads" in err
    code, out, _ = command("check", old / "runs", "--no-second-opinion")
    assert (code, "newer than this version reads" in out) == (0, True)
