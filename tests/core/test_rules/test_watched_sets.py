"""What the rules say of sets whose runs were watched, and where nobody could watch: launched ones, and old ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from consistency_cases import write_kept_set
from log_builder import make_runs
from read_data_cases import record_path
from run_record_cases import TINY
from watched_cases import LAST, log_path, write_watched_set

from harness.config.run_config import WORLD_SOURCE
from rules.checks.result_set.clocks import LAUNCHED
from rules.checks.rule import Outcome
from rules.judge.checker import check_paths
from rules.records.chain import LAST_FILE

RANKS = {"runtime.ranks": {"value": 2, "source": LAUNCHED}}
UNSEEN = {"observed_by": "itself", "observed": None}
"""What is on record where torchrun started the ranks; how long the energy's meter ran stays."""


def judge(root: Path) -> dict[str, Outcome]:
    (verdict,) = check_paths([root], second_opinion=False)
    return {outcome.code: outcome for outcome in verdict.outcomes if outcome.code.startswith("RS")}


def severities(outcome: Outcome) -> list[str]:
    return [finding.severity for finding in outcome.findings]


def test_a_watched_set_passes(tmp_path: Path) -> None:
    found = judge(write_watched_set(tmp_path))
    assert {found[code].status for code in ("RS121", "RS122", "RS131", "RS132", "RS133", "RS134")} == {"pass"}


def test_ranks_that_others_started_need_no_timekeeper_and_no_order(tmp_path: Path) -> None:
    assert LAUNCHED == WORLD_SOURCE
    found = judge(write_watched_set(tmp_path, lambda index, record: UNSEEN, config=RANKS))
    assert found["RS121"].status == found["RS131"].status == "pass"
    assert found["RS132"].reason == "torchrun or srun started its runs, in any order"


def test_of_ranks_that_others_started_a_run_by_no_clock_is_a_warning(tmp_path: Path) -> None:
    found = judge(write_watched_set(tmp_path, lambda index, record: {**UNSEEN, "observed_s": None}, config=RANKS))
    assert set(severities(found["RS121"])) == {"warning"}


def test_a_set_without_a_chain_says_so(tmp_path: Path) -> None:
    """One that an earlier version began, whose second clock its parent kept: its old tolerance stays."""
    found = judge(write_kept_set(tmp_path, late_s=lambda said_s: 0.9))
    assert severities(found["RS131"]) == ["info"]
    assert "an earlier one began the set" in str(found["RS131"].findings[0].expected)
    assert "no second clock" not in str(found["RS131"].findings[0].found)
    assert found["RS121"].status == found["RS132"].status == "pass"


def _forget(root: Path, *names: str) -> None:
    """Take members out of every run's record, and the chain out of the set's."""
    for path in (root / "extra" / "run_set.json", *root.glob("extra/run_*/*/run.json")):
        content = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in content.items() if key not in names}))


def test_a_set_that_denies_its_chain_is_found_by_any_trace_of_it(tmp_path: Path) -> None:
    """Only one from which all traces are taken is as one of an earlier version; that it has no clock is said, too."""
    code = {"sha256": "c" * 64, "commit": None, "commit_is_dirty": None}
    root = write_watched_set(tmp_path, lambda index, record: {"code": code}, code_sha256=code["sha256"])
    for names, removed, trace in (
        (("is_chained",), (), "previous_sha256 in the records of its runs"),
        (("previous_sha256",), (), "runs with a timekeeper, of the code that began the set"),
        (("observed_s", "observed_by", "observed"), (), "extra/last_run"),
        ((), (LAST_FILE,), "no is_chained, and no second clock in the records of its runs"),
    ):
        _forget(root, *names)
        for name in removed:
            (root / "extra" / name).unlink()
        found = judge(root)["RS131"]
        assert (severities(found), found.findings[0].found) == (["info" if removed else "error"], trace)


def test_a_chain_without_the_record_of_its_set_has_no_beginning(tmp_path: Path) -> None:
    root = write_watched_set(tmp_path)
    (root / "extra" / "run_set.json").unlink()
    found = judge(root)["RS131"]
    assert severities(found) == ["error"] and "first link" in found.findings[0].message


def test_runs_of_a_newer_version_in_an_old_set_are_held_to_their_own_clock(tmp_path: Path) -> None:
    """A set that was begun without timekeepers and resumed with them."""
    root = write_kept_set(tmp_path)
    path = record_path(root, LAST)
    record = json.loads(path.read_text())
    seen: dict[str, Any] = dict.fromkeys(
        ("run_start_ms", "run_stop_ms", "process_s", "processor_s", "processor_before_s", "processor_run_s")
    )
    members = {"observed_s": record["observed_s"] + 0.9, "observed": {**seen, "uncertain_s": 0.0}}
    path.write_text(json.dumps({**record, **members, "observed_by": "timekeeper"}))
    found = judge(root)
    assert severities(found["RS121"]) == ["error"]
    assert found["RS121"].findings[0].path.endswith(f"result_{LAST}.txt")


def test_code_in_files_is_known_by_its_label(tmp_path: Path) -> None:
    """Logs name it without its folder, and by the begin of its digest; the set has all of both."""
    digest = "0123456789ab" + "c" * 52
    config = {
        "runtime.implementation": {"value": f"/home/me/mine.py:Mine@{digest}", "source": "option"},
        "runtime.model": {"value": f"models/new.py:SPEC@{digest}", "source": "option"},
    }
    label = "mine.py:Mine@0123456789ab of new.py:SPEC@0123456789ab"
    root = write_kept_set(tmp_path, config=config)
    for index in range(LAST + 1):
        log = log_path(root, index)
        log.write_text(log.read_text().replace('"value": "reference"', f'"value": "{label}"'))
    assert judge(root)["RS122"].status == "pass"


@pytest.mark.parametrize("pause_s", [1, 10_000])
def test_a_gap_of_an_own_set_is_one_beyond_its_usual_pause(pause_s: int, tmp_path: Path) -> None:
    """Runs that took turns with those of others have pauses of one length; the last one here is longer."""
    run_s = (make_runs(TINY)[0][-1]["time_ms"] - make_runs(TINY)[0][0]["time_ms"]) / 1e3
    assert 60 + 2 * run_s < 10_000
    root = write_kept_set(tmp_path)
    log = log_path(root, LAST)
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]
    later = (line | {"time_ms": line["time_ms"] + pause_s * 1000} for line in lines)
    log.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in later))
    assert severities(judge(root)["RS114"]) == (["info"] if pause_s > 1 else [])
