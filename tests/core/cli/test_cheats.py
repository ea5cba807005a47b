"""Ways to make a set look better than its runs were: with its records it is INVALID, without them that is said.

Other data is in test_harness/test_read_data.py, where sets are trained; here logs and records are written.
"""

import copy
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from log_builder import Record, make_runs, to_text, write_log
from read_data_cases import OTHER, changed_file, record_path
from records_builder import read_data
from run_record_cases import TINY, record_of, write_recorded

from rules.logs import keys

Records = list[Record]
Command = Callable[..., tuple[int, str, str]]
PINNED = TINY.sections["data"]["sha256"]


def logs_of(root: Path) -> list[Path]:
    return sorted(root.glob("results/*/*/result_*.txt"))


def edit_logs(root: Path, change: Callable[[Records], Records]) -> None:
    for log in logs_of(root):
        records = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]
        write_log(log, change(records))


def place(records: Records, key: str, index: int = 0) -> int:
    return [number for number, record in enumerate(records) if record["key"] == key][index]


def half_the_time(records: Records) -> Records:
    """Everything after run_start in half the time, at twice the throughput."""
    changed = copy.deepcopy(records)
    start_ms = changed[place(changed, keys.RUN_START)]["time_ms"]
    for record in changed:
        if record["time_ms"] > start_ms:
            record["time_ms"] = start_ms + (record["time_ms"] - start_ms) // 2
        if record["key"] == keys.TRACKED_STATS:
            record["value"] = {"throughput": record["value"]["throughput"] * 2}
    return changed


def cut_short(records: Records, less: int = 1) -> Records:
    """The target met an evaluation earlier, in a log that is right in itself."""
    changed = copy.deepcopy(records)
    evaluation = changed[place(changed, keys.EVAL_ACCURACY, -1 - less)]
    stop = changed[-1]
    end = place(changed, keys.EVAL_STOP, -1 - less)
    shorter_ms = changed[place(changed, keys.EVAL_STOP, -1)]["time_ms"] - changed[end]["time_ms"]
    evaluation["value"] = changed[place(changed, keys.EVAL_ACCURACY, -1)]["value"]
    for name in (keys.SAMPLES_COUNT, keys.EPOCH_NUM):
        stop["metadata"][name] = evaluation["metadata"][name]
    stop["time_ms"] -= shorter_ms
    return [*changed[: end + 1], stop]


def late_start(records: Records) -> Records:
    """run_start behind the sixth evaluation, so that five blocks cost nothing."""
    changed = copy.deepcopy(records)
    start = changed.pop(place(changed, keys.RUN_START))
    stop = place(changed, keys.EVAL_STOP, 5)
    return [*changed[: stop + 1], {**start, "time_ms": changed[stop]["time_ms"]}, *changed[stop + 1 :]]


def fewer_evaluations(records: Records) -> Records:
    """Every second evaluation left out, and its time with it."""
    changed, shift_ms, number = [], 0, 0
    last = sum(record["key"] == keys.EVAL_ACCURACY for record in records) - 1
    start_ms = 0
    for record in copy.deepcopy(records):
        if record["key"] == keys.EVAL_START:
            start_ms = record["time_ms"]
        is_left_out = number % 2 == 1 and number < last
        if record["key"] in (keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP) and is_left_out:
            if record["key"] == keys.EVAL_STOP:
                shift_ms += record["time_ms"] - start_ms
        else:
            changed.append({**record, "time_ms": record["time_ms"] - shift_ms})
        number += record["key"] == keys.EVAL_STOP
    return changed


def best_of_several(root: Path) -> None:
    """Logs of three other sets in the place of the slower ones."""
    for number in range(1, 4):
        runs = make_runs(TINY, start_ms=1_790_000_000_000 + number * 10**9)
        write_log(logs_of(root)[number], runs[number])


def log_of_another_set(root: Path) -> None:
    write_log(logs_of(root)[0], make_runs(TINY, start_ms=1_795_000_000_000)[0])


def left_out(root: Path) -> None:
    """The slowest run, and one made in its place."""
    log = logs_of(root)[-1]
    attempt = root / "extra" / f"run_{len(logs_of(root)) - 1}" / "attempt_3"
    records = make_runs(TINY, start_ms=1_795_000_000_000)[-1]
    attempt.mkdir()
    write_log(log, records)
    record = record_of(records, len(logs_of(root)) - 1, to_text(records).encode())
    (attempt / "run.json").write_text(json.dumps(record))


def rewrite_records(root: Path, **members: object) -> None:
    for index in range(len(logs_of(root))):
        path = record_path(root, index)
        path.write_text(json.dumps(json.loads(path.read_text()) | members))


def carried_weights(root: Path) -> None:
    """Runs that have learned at their first evaluation, all their records in order."""
    shutil.rmtree(root)
    write_recorded(root, runs=make_runs(TINY, num_evals=2))


CHEATS: dict[str, tuple[Callable[[Path], None], str]] = {
    "times after run_start halved": (lambda root: edit_logs(root, half_the_time), "RS116"),
    "an evaluation earlier": (lambda root: edit_logs(root, cut_short), "RS116"),
    "the best runs of several sets": (best_of_several, "RS116"),
    "run_start behind evaluations": (lambda root: edit_logs(root, late_start), "RS116"),
    "other data": (lambda root: rewrite_records(root, read_data=[read_data(OTHER)]), "RS118"),
    "a log of another set": (log_of_another_set, "RS116"),
    "a run made again": (left_out, "RS117"),
    "every second evaluation": (lambda root: edit_logs(root, fewer_evaluations), "RS116"),
    "a digest forged, of files that were changed meanwhile": (
        partial(rewrite_records, read_data=[changed_file("ctime_ns")]),
        "RS118",
    ),
    "weights of an earlier run": (carried_weights, "RC101"),
}
UNSEEN = ("times after run_start halved", "an evaluation earlier", "the best runs of several sets")
"""What logs alone do not show; nor do they show what was in the records."""


def test_an_honest_set_passes(command: Command, tmp_path: Path) -> None:
    root = write_recorded(tmp_path / "set")
    code, out, _ = command("check", root, "--no-second-opinion")
    assert code == 0 and not any(rule in out for rule in ("RS116", "RS117", "RS118", "RS119", "RC101")), out


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_ends_with_3_where_the_records_are_there(name: str, command: Command, tmp_path: Path) -> None:
    cheat, rule = CHEATS[name]
    root = write_recorded(tmp_path / "set")
    cheat(root)
    code, out, _ = command("check", root, "--no-second-opinion")
    assert code == 3 and f"error  {rule}" in out, out


@pytest.mark.parametrize(("member", "is_explained"), [("ctime_ns", True), ("mtime_ns", False)])
def test_a_change_that_ctime_alone_shows_is_said_to_have_other_causes(
    member: str, is_explained: bool, command: Command, tmp_path: Path
) -> None:
    """A run beside a backup by hard links looks like one whose data was changed, and set back."""
    root = write_recorded(tmp_path / "set")
    rewrite_records(root, read_data=[changed_file(member)])
    code, out, _ = command("check", root, "--no-second-opinion")
    assert code == 3 and ("hard links" in out) is is_explained, out


@pytest.mark.parametrize("name", CHEATS)
def test_without_the_records_that_is_said(name: str, command: Command, tmp_path: Path) -> None:
    cheat, _ = CHEATS[name]
    root = write_recorded(tmp_path / "set")
    cheat(root)
    shutil.rmtree(root / "extra")
    code, out, _ = command("check", root / "results", "--no-second-opinion")
    assert "RS119" in out and "the records that this harness writes are missing" in " ".join(out.split())
    if name in UNSEEN:
        assert code == 0, out
