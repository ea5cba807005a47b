"""A run's timekeeper: what it stamps, how it ends, and that what it sees of honest runs raises no alarm."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from log_builder import make_records
from observed import seen
from run_record_cases import TINY, write_recorded
from waiting import HANG_S, has_ended, wait_until

from harness.launch import timekeeper
from harness.launch.timekeeper import RUN_START, RUN_STOP, STARTED, RunClock
from rules.benchmarks.seeds import derive_seeds
from rules.checks.result_set.clocks import LATE, LATE_S
from rules.judge.checker import check_paths

Span = tuple[float, float]


def say(*names: str) -> bytes:
    return b"".join(b"\x1e" + json.dumps({"event": name}).encode() + b"\n" for name in names)


def watch(events: list[tuple[bytes, Span]]) -> dict[str, Any]:
    """What is seen of a process, started at 0, that says these between such moments and ends a second later."""
    clock = RunClock(0.0)
    for said, span in events:
        clock.feed(said, *span, lambda: None)
    return clock.observe(events[-1][1][1] + 1.0, None) or {}


def test_a_run_is_no_longer_than_is_sure() -> None:
    """An event came between two moments: a run is from the later one of its first to the earlier one of its last."""
    said = ((STARTED, (0, 1)), (RUN_START, (2, 3)), ("train", (4, 4)), (RUN_STOP, (9, 12)))
    found = watch([(say(name), span) for name, span in said])
    assert (found["observed_s"], found["uncertain_s"], found["process_s"]) == (6.0, 4.0, 13.0)


def test_a_run_that_sends_its_lines_again_is_not_shorter() -> None:
    lines = [RUN_START, RUN_STOP, RUN_START, RUN_STOP]
    found = watch([(say(name), (second, second)) for second, name in enumerate(lines)])
    assert found["observed_s"] == 3.0


@pytest.mark.parametrize("name", [RUN_START, RUN_STOP])
def test_a_run_without_both_lines_has_no_time(name: str) -> None:
    assert watch([(say(name), (1, 1))])["observed_s"] is None


def test_of_what_is_no_run_nothing_is_kept() -> None:
    assert watch([(say(STARTED, "train"), (1, 1))]) == {}


@pytest.mark.parametrize(
    "said",
    [
        b'{"event": "run_start"}\n',
        b"\x1e{\n",
        b"\x1e" + b"[" * 100_000 + b"\n",
        b'\x1e["event"]\n',
        b'\x1e{"event": ["run_start"]}\n',
    ],
)
def test_what_own_code_prints_is_no_event(said: bytes) -> None:
    assert watch([(said, (1, 1))]) == {}


def test_an_event_may_come_in_parts_and_behind_what_was_printed() -> None:
    said = b"printed " + say(RUN_START) + say(RUN_STOP)
    parts = [(said[place : place + 7], (float(place), float(place))) for place in range(0, len(said), 7)]
    ends = [said.index(name.encode()) + len(name) + 2 for name in (RUN_START, RUN_STOP)]
    assert watch(parts)["observed_s"] == ends[1] // 7 * 7 - ends[0] // 7 * 7


def test_events_of_versions_that_did_not_mark_them_are_seen() -> None:
    clock = RunClock(0.0, is_marked=False)
    clock.feed(b'{"event": "run_start"}\n', 1, 1, lambda: None)
    assert clock.feed(b'{"event": "run_stop"}\n', 5, 5, lambda: None)
    assert (clock.observe(None, None) or {})["observed_s"] == 4.0


def start(folder: Path, code: str, **environ: str) -> "subprocess.Popen[bytes]":
    """A timekeeper that starts Python with that code."""
    asked = {
        "command": [sys.executable, "-I", "-S", "-c", code],
        "environ": environ,
        "record": str(folder / "clock.json"),
        "is_marked": True,
    }
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", timekeeper.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.flush()
    return process


RUN = r"""
import os, sys
def say(name):
    os.write(1, b'\x1e{"event": "%s"}\n' % name.encode())
for name in ("start", "run_start", "run_stop"):
    say(name)
"""


@pytest.mark.once("a timekeeper hands on what is said, keeps what it saw, and ends as what it started")
def test_a_timekeeper_is_as_what_it_starts(tmp_path: Path) -> None:
    code = RUN + "os.write(1, os.environb[b'ODD'] + b'x' * 200_000); sys.stderr.flush(); sys.exit(7)"
    process = start(tmp_path, code, ODD="\xff\xe9")
    out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 7
    assert out == say("start", "run_start", "run_stop") + b"\xff\xe9" + b"x" * 200_000
    found = json.loads((tmp_path / "clock.json").read_text())
    assert 0 <= found["observed_s"] <= found["process_s"] and found["processor_s"] > 0
    assert found["run_start_ms"] <= found["run_stop_ms"]
    assert [path.name for path in tmp_path.iterdir()] == ["clock.json"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_that_ends_what_was_started_is_its_own(number: int, tmp_path: Path) -> None:
    process = start(tmp_path, RUN + f"os.kill(os.getpid(), {int(number)})")
    process.communicate(timeout=HANG_S)
    assert process.returncode == -number


WAIT = RUN + "print(os.getpid(), flush=True)\nwhile os.read(0, 1):\n    pass\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["terminate", "kill", "leave"])
def test_nothing_outlives_a_timekeeper(how: str, tmp_path: Path) -> None:
    """Asked to end, killed, or left by whoever started it."""
    process = start(tmp_path, WAIT)
    assert process.stdout is not None and process.stdin is not None
    pid = int([process.stdout.readline() for _ in range(4)][-1])
    if how == "leave":
        process.stdin.close()
    else:
        getattr(process, how)()
    process.wait(HANG_S)
    wait_until(lambda: has_ended(pid), "the end of what was started")
    for pipe in (process.stdin, process.stdout):
        pipe.close()
    assert "process_s" in json.loads((tmp_path / "clock.json").read_text())


@pytest.mark.slow
def test_a_parent_that_takes_nothing_holds_up_no_stamp(tmp_path: Path) -> None:
    """More waits to be taken than a pipe holds, and the end of the run is seen all the same."""
    code = RUN.replace('say(name)\n"""', "") + "\nos.write(1, b'x' * 1_000_000)\nsay('run_stop')\n"
    process = start(tmp_path, code + "os.read(0, 1)")
    wait_until(lambda: (tmp_path / "clock.json").exists(), "the end of the run")
    process.communicate(timeout=HANG_S)
    assert json.loads((tmp_path / "clock.json").read_text())["observed_s"] is not None


def watched_run(draw: random.Random, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What is seen of an honest run: its lines come from 54 ms before to 18 ms after their stamps, as was measured of
    376 runs, and the timekeeper may be held up by 3 s at any moment, and sees late."""
    clock, spawned_ms = RunClock(0.0), records[0]["time_ms"] - 3000
    wall_ms = {name: next(one["time_ms"] for one in records if one["key"] == name) for name in (RUN_START, RUN_STOP)}
    clock._wall_s = spawned_ms / 1e3  # as its clock and the calendar were where it saw the process begin
    for name in (STARTED, RUN_START, RUN_STOP):
        offset_s = draw.uniform(-0.054, 0.018)
        came_s = (wall_ms.get(name, records[0]["time_ms"]) - spawned_ms) / 1e3 + offset_s
        held_up_s = draw.choice((0.0, 0.05, draw.uniform(0, 3)))
        before_s = held_up_s * draw.random()
        clock.feed(say(name), max(0.0, came_s - before_s), came_s + held_up_s - before_s, lambda: None)
    found = clock.observe(came_s + draw.uniform(0, 3), None)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.once("no honest run is accused")
def test_no_honest_run_of_400_raises_an_alarm(tmp_path: Path) -> None:
    """One in two of them is held up itself for up to 3 s, which both clocks see."""
    draw, start_ms, runs = random.Random(20261126), 1_790_000_000_000, []
    for seed in derive_seeds(7, 400, ()):
        stall_ms = draw.choice((0, draw.randrange(3000)))
        records = make_records(TINY, num_evals=1, seed=seed, start_ms=start_ms, throughput=10 ** draw.uniform(3, 6))
        start = next(place for place, one in enumerate(records) if one["key"] == RUN_START)
        place = draw.randrange(start + 1, len(records))
        runs.append(
            [one | {"time_ms": one["time_ms"] + (stall_ms if at >= place else 0)} for at, one in enumerate(records)]
        )
        start_ms = runs[-1][-1]["time_ms"] + 1000
    write_recorded(tmp_path, runs=runs)
    for index, records in enumerate(runs):
        path = tmp_path / "extra" / f"run_{index}" / "attempt_1" / "run.json"
        found = watched_run(draw, records)
        members = {"observed_s": found.pop("observed_s"), "observed_by": "timekeeper", "observed": found}
        path.write_text(json.dumps(json.loads(path.read_text()) | members))
    (verdict,) = check_paths([tmp_path], second_opinion=False)
    alarms = [finding for finding in verdict.findings if finding.code == "RS121" and finding.severity != "info"]
    assert [outcome.status for outcome in verdict.outcomes if outcome.code == "RS121"] != ["skip"]
    assert not alarms, alarms


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_run_whose_clock_is_slow_beyond_the_tolerance_raises_one(share: float, tmp_path: Path) -> None:
    """Of as many seconds as make that more than 0.25 s and 1 %."""
    records = make_records(TINY, num_evals=2, seed=derive_seeds(7, 1, ())[0], throughput=10_000)
    write_recorded(tmp_path, runs=[records, records, records])
    start_ms, stop_ms = (
        next(one["time_ms"] for one in records if one["key"] == key) for key in (RUN_START, RUN_STOP)
    )
    said_s = (stop_ms - start_ms) / 1e3
    observed_s = said_s / share
    assert observed_s - said_s > LATE_S + LATE * observed_s
    path = tmp_path / "extra" / "run_0" / "attempt_1" / "run.json"
    members = {"observed_s": observed_s, "observed_by": "timekeeper", "observed": seen((start_ms, stop_ms), None)}
    path.write_text(json.dumps(json.loads(path.read_text()) | members))
    (verdict,) = check_paths([tmp_path], second_opinion=False)
    assert ("RS121", "error") in {(finding.code, finding.severity) for finding in verdict.findings}


def test_a_timekeeper_imports_nothing_of_the_product() -> None:
    code = (
        f"import runpy, sys; runpy.run_path({timekeeper.__file__!r}); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('harness', 'rules', 'site')])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "[]"
