"""One run on several ranks, from the command line: trained to the target, killed, disagreeing, started by others."""

import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_sets import made_in
from places import ROOT, TESTS
from ranks_builder import Process, find_rank, needs_torchrec, processor_s, reserve_port, send, started, started_world
from small_set import SmallBenchmark
from waiting import HANG_S, wait_until

from rules.records.codec import json_schema
from rules.records.run import RunRecord

pytestmark = needs_torchrec
SBATCH = ROOT / "harness" / "launch" / "slurm" / "dlrmbench.sbatch"
ENDLESS = ("--set", "train.global_batch_size=4")
"""Steps for many minutes: what waits for such a run to train can stop one of its ranks before it is over."""


def options(data_root: Path, *more: object) -> list[object]:
    return ["run", "dlrm_tiny", "--data", data_root, "--implementation", "torchrec", "--threads", 1, *more]


def only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    assert len(found) == 1, found
    return found[0]


def record(run_set: Path, index: int, attempt: int) -> dict[str, Any]:
    path = run_set / "extra" / f"run_{index}" / f"attempt_{attempt}" / "run.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def logged(run_set: Path, key: str) -> list[Any]:
    log = only(run_set, "results/*/*/result_0.txt").read_text()
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.splitlines()]
    return [line["value"] for line in lines if line["key"] == key]


@pytest.mark.long
def test_two_ranks_train_to_the_target_and_rank_0_logs(tmp_path: Path, data_root: Path, dlrmbench: Any) -> None:
    done = dlrmbench(*options(data_root, "-n", 1, "--ranks", 2, "--seed", 5, "--sharding", "row_wise"))
    assert done.returncode == 0, done.stderr
    run_set = only(tmp_path, "results/dlrm_tiny-*")
    assert logged(run_set, "world_size") == [2]
    assert logged(run_set, "local_batch_size") == [256]
    assert logged(run_set, "sharding") == ["row_wise"]
    assert len(logged(run_set, "run_start")) == 1
    run = record(run_set, 0, 0)
    assert run["status"] == "success"
    schema = json_schema(RunRecord)
    jsonschema.Draft202012Validator(schema).validate(run)
    assert [one["rank"] for one in run["ranks"]] == [0, 1]
    assert run["exchange"]["bytes_per_step"]["embedding_forward"] > 0
    checked = dlrmbench("check", run_set, "--format", "json")
    assert json.loads(checked.stdout)["verdicts"][0]["num_errors"] == 0


@pytest.mark.long
def test_the_full_shape_of_dcnv2_runs_on_two_ranks_in_bounded_memory(tmp_path: Path, dlrmbench: Any) -> None:
    """All its tables, lookups and layers, the tables capped at 40,000 rows: it steps, evaluates, and ends."""
    definition = TESTS / "benchmarks" / "dlrm_dcnv2_capped.toml"
    options = ["--data", tmp_path / "data", "--implementation", "torchrec", "--ranks", 2, "--threads", 1]
    done = dlrmbench("run", definition, *options, "-n", 1, "--seed", 5)
    assert done.returncode == 4, done.stdout + done.stderr
    run = record(only(tmp_path, "results/dlrm_dcnv2_capped_40k-*"), 0, 0)
    assert run["status"] == "not_converged"
    assert sum(block["num_samples"] for block in run["blocks"]) == 2048
    assert len(run["evaluations"]) == 2
    assert len(run["ranks"]) == 2
    # 0.45 GB of weights and state, and twice what Python, torch and torchrec take; 1.8 GB were measured.
    assert run["peak_rss_bytes"] == sum(one["peak_rss_bytes"] for one in run["ranks"]) < 2.5e9


@pytest.mark.long
def test_a_sweep_over_ranks_trains_each_to_the_target(tmp_path: Path, data_root: Path, dlrmbench: Any) -> None:
    axis = ["--axis", "runtime.ranks=1,2", "--implementation", "torchrec", "--threads", 1]
    done = dlrmbench("sweep", "dlrm_tiny", "--data", data_root, *axis, "-n", 1, "--seed", 5)
    assert done.returncode == 0, done.stdout + done.stderr
    (sweep,) = made_in(tmp_path / "results")
    rank_counts = [logged(folder, "world_size") for folder in sorted(sweep.glob("0*"))]
    assert rank_counts == [[1], [2]]
    assert "Over ranks and links" in (sweep / "report.html").read_text()


@pytest.mark.long
def test_a_sweep_over_ranks_measures_throughput(tmp_path: Path, data_root: Path, dlrmbench: Any) -> None:
    axis = ["--axis", "runtime.ranks=1,2", "--implementation", "torchrec", "--threads", 1]
    done = dlrmbench("sweep", "dlrm_tiny", "--data", data_root, *axis, "--throughput", 10, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    (sweep,) = made_in(tmp_path / "results")
    for folder, num_ranks in zip(sorted(sweep.glob("0*")), (1, 2), strict=True):
        processes = json.loads((folder / "extra" / "throughput.json").read_text())["processes"]
        assert [one["hyperparameters"]["world_size"] for one in processes] == [num_ranks] * 5
        assert {one["num_samples"] for one in processes} == {10 * 512}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
def test_killed_ranks_end_the_run_and_resume_completes_it(tmp_path: Path, small: SmallBenchmark, rank: int) -> None:
    kill_and_resume(tmp_path, small, rank, lambda process: wait_for_training(tmp_path / "results", process))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_killed_ranks_at_many_moments(tmp_path: Path, small: SmallBenchmark, seed: int) -> None:
    """Whichever moment it is, also the one after the work was done."""
    draw = random.Random(seed)
    kill_and_resume(tmp_path, small, draw.randrange(2), lambda process: time.sleep(draw.uniform(0.0, 8.0)))


def kill_and_resume(tmp_path: Path, small: SmallBenchmark, rank: int, wait: Callable[[Process], object]) -> None:
    batches = ("--set", "train.global_batch_size=128")  # so that there are steps enough to be killed in
    given = ("--implementation", "torchrec", "-n", 1, "--ranks", 2, "--seed", 5, *batches)
    with started("run", *small.options, *given, cwd=tmp_path) as process:
        pid = find_rank(process, rank)
        wait(process)
        send(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=HANG_S)
    run_set = only(tmp_path, "results/mine-*")
    if process.returncode != 0:  # else the rank had done its work
        assert process.returncode == 9, output
        assert f"rank {rank} was killed by SIGKILL" in output
        assert record(run_set, 0, 0)["status"] == "interrupted"
        with started("resume", run_set, cwd=tmp_path) as resumed:
            output, _ = resumed.communicate(timeout=HANG_S)
        assert resumed.returncode == 0, output
    assert logged(run_set, "run_stop") != [] and logged(run_set, "world_size") == [2]


@pytest.mark.long
def test_a_killed_rank_ends_a_measurement_of_throughput(tmp_path: Path, data_root: Path) -> None:
    with started(*options(data_root, "--ranks", 2, "--throughput", 1_000_000), cwd=tmp_path) as process:
        pid = find_rank(process, 1)
        wait_until(lambda: pid is None or processor_s(pid) > 10, "10 s of processor time for rank 1")
        send(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 9, output
    assert "rank 1 was killed by SIGKILL" in output
    assert "Traceback" not in output


@pytest.mark.long
def test_a_rank_that_is_stopped_ends_the_run(tmp_path: Path, data_root: Path) -> None:
    with started(*options(data_root, "-n", 1, "--ranks", 2, *ENDLESS), cwd=tmp_path) as process:
        pid = find_rank(process, 1)
        wait_for_training(tmp_path / "results", process)
        send(pid, signal.SIGSTOP)
        output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 9, output
    assert "rank 1 has not been heard of for 20 s" in output


@pytest.mark.once("two ranks are started")
def test_ranks_that_differ_do_not_begin(tmp_path: Path, data_root: Path) -> None:
    same = options(data_root, "-n", 1, "--run-index", 0, "-o", tmp_path / "set", "--seed", 3)
    with started_world([same, [*same, "--set", "train.global_batch_size=1024"]], tmp_path) as world:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in world]
    assert [process.returncode for process in world] == [2, 2], outputs
    for output in outputs:
        assert "rank 1 differs from rank 0 in train.global_batch_size: 1024 and 512" in output
    assert not (tmp_path / "set").exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", [None, 4])
def test_ranks_that_are_given_different_seeds_do_not_begin(tmp_path: Path, data_root: Path, seed: int | None) -> None:
    same = options(data_root, "-n", 1, "--run-index", 0, "-o", tmp_path / "set")
    with started_world([[*same, "--seed", 3], same if seed is None else [*same, "--seed", seed]], tmp_path) as world:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in world]
    assert [process.returncode for process in world] == [2, 2], outputs
    assert all(f"rank 1 differs from rank 0 in --seed: {seed} and 3" in output for output in outputs), outputs


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_stopped_ends_an_externally_launched_run(tmp_path: Path, data_root: Path, rank: int) -> None:
    run_set = tmp_path / "set"
    with training_world(data_root, run_set, *ENDLESS) as world:
        world[rank].send_signal(signal.SIGSTOP)
        output, _ = world[1 - rank].communicate(timeout=HANG_S)
        assert world[1 - rank].returncode == 9, output
        assert f"rank {rank}" in output.splitlines()[-1]
        assert "for 20 s; rank" in output.splitlines()[-1]
        world[rank].send_signal(signal.SIGCONT)
        output, _ = world[rank].communicate(timeout=HANG_S)
        assert re.search(f"rank {rank} (itself did not run|has not been heard of) for", output), output
        assert record(run_set, 0, 0)["status"] == "interrupted"


@pytest.mark.long
def test_a_killed_rank_0_is_named_and_its_attempt_is_recorded_later(tmp_path: Path, data_root: Path) -> None:
    run_set = tmp_path / "set"
    line = kill_in_world(0, data_root, run_set, *ENDLESS)
    assert line is not None and "rank 0, where the ranks meet (127.0.0.1:" in line
    assert not (run_set / "extra" / "run_0" / "attempt_0" / "run.json").exists()
    with started("resume", run_set, cwd=tmp_path) as resumed:
        output, _ = resumed.communicate(timeout=HANG_S)
    assert resumed.returncode == 2, output
    assert "Start it there again, with --run-index 0" in output
    assert record(run_set, 0, 0)["status"] == "interrupted"


def kill_in_world(rank: int, data_root: Path, run_set: Path, *more: object) -> str | None:
    """Kill one of two ranks while they train; the one line that the other ends with, by 9. None when the run was
    over before.
    """
    with training_world(data_root, run_set, *more) as world:
        world[rank].kill()
        outputs = [process.communicate(timeout=HANG_S)[0] for process in world]
    if world[1 - rank].returncode == 0:
        return None
    assert world[1 - rank].returncode == 9, outputs
    line = outputs[1 - rank].strip()
    assert "\n" not in line, line
    assert line.endswith(f"(killed, out of memory?); rank {1 - rank} ends.")
    return line


@contextmanager
def training_world(data_root: Path, run_set: Path, *more: object) -> Iterator[list[Process]]:
    """Two ranks that train in a world of others."""
    same = options(data_root, "-n", 1, "--run-index", 0, "-o", run_set, "--seed", 5, "-q", *more)
    with started_world([same, same], data_root) as world:
        wait_for_training(run_set, *world)
        yield world


def wait_for_training(folder: Path, *processes: Process) -> None:
    """Until a run below `folder` has begun to train, so that its ranks have met, or a process has ended."""

    def trains() -> bool:
        logs = folder.rglob("extra/run_0/attempt_0/log.txt")
        return any(process.poll() is not None for process in processes) or any(
            "run_start" in log.read_text() for log in logs
        )

    wait_until(trains, f"a run that trains below {folder}")


@pytest.mark.long
def test_an_externally_launched_run_is_killed_and_begun_again(tmp_path: Path, data_root: Path) -> None:
    """A killed rank is named on record; the example for Slurm itself completes the set, with an srun that starts two
    tasks on this machine; and a launch with another seed is then refused on both ranks.
    """
    run_set = tmp_path / "results" / "dlrm_tiny-77"
    for _ in range(10):
        if (line := kill_in_world(1, data_root, run_set)) is not None:
            break
        shutil.rmtree(run_set)
    assert line is not None and "rank 1 has not been heard of for" in line
    attempt = record(run_set, 0, 0)
    assert (attempt["status"], attempt["exit_code"]) == ("interrupted", 9)
    assert attempt["reason"] in line
    tools = tmp_path / "bin"
    tools.mkdir()
    make_tool(tools / "scontrol", "echo 127.0.0.1")
    make_tool(
        tools / "srun",
        'shift\nfor r in 0 1; do SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_LOCALID=$r "$@" & pids="$pids $!"; done\n'
        "for p in $pids; do wait $p || exit 1; done",
    )
    make_tool(tools / "dlrmbench", f'exec {sys.executable} -m harness "$@"')
    with reserve_port() as holder:
        environ = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "77",
            "SLURM_JOB_NODELIST": "here",
            "MASTER_PORT": str(holder.getsockname()[1]),
            "DLRMBENCH_DATA": str(data_root),
            "RUNS": "1",
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            ["bash", str(SBATCH), "dlrm_tiny", "--threads", "1"],
            cwd=tmp_path,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sharding spec" not in done.stderr
    assert [record(run_set, 0, attempt)["status"] for attempt in (0, 1)] == ["interrupted", "success"]
    assert logged(run_set, "world_size") == [2]
    assert (run_set / "report.html").is_file()
    other = options(data_root, "-n", 1, "--run-index", 0, "-o", run_set, "--seed", 6)
    with started_world([other, other], tmp_path) as world:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in world]
    assert [process.returncode for process in world] == [2, 2], outputs
    assert outputs[0] == outputs[1]
    assert "was begun with --seed 5, this run has 6" in outputs[0]


def make_tool(path: Path, script: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


LAUNCHED = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (["--run-index", "0"], {}, "no WORLD_SIZE is set"),
        (["--run-index", "0"], {"WORLD_SIZE": "x"}, "WORLD_SIZE is 'x'"),
        (["--run-index", "0", "--ranks", "3"], LAUNCHED, "--ranks is 3, but 2 ranks were started"),
        (["--run-index", "1", "-n", "1"], LAUNCHED, "--run-index is 1, but the set has 1 runs"),
        ([], LAUNCHED, "give --run-index"),
        (["--ranks", "3", "-n", "1"], {"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}, "3 ranks cannot share"),
        (["--ranks", "2", "--sharding", "diagonal"], {}, "runtime.sharding"),
        (["--comm", "bf16", "-n", "1"], {}, "TorchRec has no bf16"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    dlrmbench: Any, data_root: Path, arguments: list[str], environ: dict[str, str], message: str
) -> None:
    done = dlrmbench(*options(data_root, *arguments), env={**os.environ, **environ})
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
