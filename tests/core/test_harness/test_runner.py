"""The parent: N runs in one set, and a set that is complete after whatever happened in between."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from command import Command
from made_sets import made_in
from small_set import SmallBenchmark
from waiting import HANG_S, has_ended, wait_until

from rules.logs import keys
from rules.logs.log import read_log
from rules.records.codec import json_schema
from rules.records.files import RECORDS


def run_arguments(small: SmallBenchmark, *more: object) -> list[str]:
    """Three runs of half a second each, so that a kill can come while one trains."""
    given = ["--set", "train.global_batch_size=64", "-n", "3", "-q"]
    return ["run", *small.options, *given, *map(str, more)]


def the_set(output: Path) -> Path:
    (folder,) = made_in(output)
    return folder


def records(run_set: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(run_set.glob("extra/run_*/attempt_*/run.json"))]


def qualities(run_set: Path) -> list[list[float]]:
    logs = sorted(run_set.glob("results/*/*/result_*.txt"))
    return [[line.value for line in read_log(log).all(keys.EVAL_ACCURACY)] for log in logs]


@pytest.fixture(scope="session")
def finished_set(small: SmallBenchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run set as `dlrmbench run` leaves it."""
    output = tmp_path_factory.mktemp("finished")
    arguments = run_arguments(small, "-o", output)
    done = subprocess.run([sys.executable, "-m", "harness", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return the_set(output)


@pytest.mark.once("kind training: one command to runs, verdict, score and report")
def test_one_command_leaves_runs_verdict_score_and_report(finished_set: Path) -> None:
    logs = sorted(finished_set.glob("results/*/mine/result_*.txt"))
    assert [log.name for log in logs] == [f"result_{i}.txt" for i in range(3)]
    (system,) = (finished_set / "systems").glob("*.json")
    assert system.stem == logs[0].parent.parent.name
    assert (finished_set / "report.html").stat().st_size > 10_000
    content = json.loads((finished_set / "extra" / "run_set.json").read_text())
    assert content["seeds"] == [read_log(log).value(keys.SEED) for log in logs]
    assert not list(finished_set.rglob("*.partial"))
    assert [record["status"] for record in records(finished_set)] == ["success"] * 3


def validate(content: object, name: str) -> None:
    jsonschema.Draft202012Validator(json_schema(RECORDS[name])).validate(content)


@pytest.mark.slow
def test_its_files_keep_their_schemas(finished_set: Path) -> None:
    validate(json.loads((finished_set / "extra" / "run_set.json").read_text()), "run_set")
    for record in records(finished_set):
        validate(record, "run")


@pytest.mark.slow
def test_what_is_logged_was_read_from_what_was_built(finished_set: Path) -> None:
    log = read_log(next(finished_set.glob("results/*/*/result_0.txt")))
    assert log.value(keys.NUM_THREADS) == 1
    assert log.value(keys.GLOBAL_BATCH_SIZE) == 64
    assert log.value(keys.OPT_NAME) == "adagrad"
    cache_clear = log.first(keys.CACHE_CLEAR)
    assert cache_clear is not None and cache_clear.metadata["method"]
    assert cache_clear.time_ms <= log.lines[1].time_ms


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_the_same_seed_gives_the_same_sequence_of_qualities(
    finished_set: Path, small: SmallBenchmark, tmp_path: Path, inside: Command
) -> None:
    done = inside(*run_arguments(small, "-o", tmp_path / "again", "-n", 2))
    assert done.returncode == 0, done.stderr
    assert qualities(the_set(tmp_path / "again")) == qualities(finished_set)[:2]
    assert all(len(run) > 1 for run in qualities(finished_set))


@pytest.mark.slow
def test_resume_of_a_complete_set_runs_nothing(finished_set: Path, inside: Command) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in finished_set.rglob("result_*.txt"))
    done = inside("resume", finished_set, "-q")
    assert done.returncode == 0, done.stderr
    assert before == sorted((path, path.stat().st_mtime_ns) for path in finished_set.rglob("result_*.txt"))


def kill_at(moment: Callable[[], object], victims: str, output: Path, small: SmallBenchmark) -> None:
    """Kill the parent, its worker, or both, once `moment` has come or the set is complete."""
    arguments = run_arguments(small, "-o", output)
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=output.parent,
    )
    wait_until(lambda: process.poll() is not None or moment(), "the moment to kill")
    workers = workers_of(process.pid)
    for pid in [*(workers if victims != "parent" else []), *([process.pid] if victims != "worker" else [])]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(HANG_S)
    wait_until(lambda: all(map(has_ended, workers)), "the end of a worker whose parent is gone")


def workers_of(parent: int) -> list[int]:
    """The timekeeper of the worker, and the worker."""
    found, waiting = list[int](), [parent]
    for pid in waiting:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        with contextlib.suppress(OSError):
            waiting += (more := [int(child) for child in children.read_text().split()])
            found += more
    return found


def trains(output: Path, index: int) -> bool:
    """Whether run `index` has begun to train."""
    logs = output.glob(f"*/extra/run_{index}/attempt_0/log.txt")
    return any("run_start" in log.read_text() for log in logs)


def check_survival(output: Path, reference: Path, inside: Command) -> None:
    """Complete the set in this process, which gives what processes of their own gave `reference`."""
    sets = [path for path in made_in(output) if (path / "extra" / "run_set.json").exists()] if output.exists() else []
    if not sets:
        return  # killed before there was a set
    (run_set,) = sets
    finished_before = {path: path.read_bytes() for path in run_set.rglob("result_*.txt")}
    attempts_before = {path.parent for path in run_set.glob("extra/run_*/attempt_*/spec.json")}
    done = inside("resume", run_set, "-q")
    assert done.returncode == 0, done.stderr + done.stdout
    logs = sorted(run_set.glob("results/*/*/result_*.txt"))
    assert [log.name for log in logs] == ["result_0.txt", "result_1.txt", "result_2.txt"]
    assert all(not read_log(log).unparsed and read_log(log).last(keys.RUN_STOP) is not None for log in logs)
    assert all(path.read_bytes() == content for path, content in finished_before.items())
    assert qualities(run_set) == qualities(reference)[:3]
    by_status: dict[object, int] = {}
    for record in records(run_set):
        validate(record, "run")
        by_status[record["status"]] = by_status.get(record["status"], 0) + 1
    assert by_status["success"] == 3, "a finished run was lost or run twice"
    assert all((attempt / "run.json").exists() for attempt in attempts_before)
    assert sum(by_status.values()) == len(list(run_set.glob("extra/run_*/attempt_*")))


@pytest.mark.usefixtures("workers_inside")
@pytest.mark.parametrize(
    ("victims", "index"),
    [
        pytest.param("parent", 1, marks=pytest.mark.slow),
        pytest.param("worker", 0, marks=pytest.mark.once("kill -9 of a worker, and resume")),
    ],
)
def test_a_set_survives_kill_9(
    victims: str, index: int, finished_set: Path, small: SmallBenchmark, tmp_path: Path, inside: Command
) -> None:
    """Run `index` trains, those before it are finished."""
    output = tmp_path / "out"
    output.mkdir()
    kill_at(lambda: trains(output, index), victims, output, small)
    assert len(made_in(output)) == 1
    check_survival(output, finished_set, inside)


@pytest.mark.long
@pytest.mark.usefixtures("workers_inside")
@pytest.mark.parametrize("seed", range(2, 52))
def test_a_set_survives_kill_9_at_fifty_moments(
    seed: int, finished_set: Path, small: SmallBenchmark, tmp_path: Path, inside: Command
) -> None:
    """Wherever between the start and the end of the set each of them is on this machine."""
    output = tmp_path / "out"
    output.mkdir()
    draw = random.Random(seed)
    end_s = time.monotonic() + draw.uniform(0.3, 9.0)
    victims = draw.choice(("parent", "worker", "both"))
    kill_at(lambda: time.monotonic() > end_s, victims, output, small)
    check_survival(output, finished_set, inside)
