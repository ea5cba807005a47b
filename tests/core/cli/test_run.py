"""Bad input to `run` and `resume`: one message with cause, place and remedy, a documented exit code, nothing lost."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command import Command
from made_sets import made_in
from small_set import SmallBenchmark
from waiting import HANG_S, wait_until

from rules.benchmarks.loader import load_benchmark

NUM_TRIES = 10
"""To begin a set again that was complete before it could be disturbed."""


def assert_refused(done: "subprocess.CompletedProcess[str]", exit_code: int, *parts: str) -> None:
    assert done.returncode == exit_code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4
    for part in parts:
        assert part in done.stderr


def tiny(data_root: Path, *more: object) -> list[str]:
    return ["run", "dlrm_tiny", "--data", str(data_root), "--threads", "1", "-q", *map(str, more)]


def two_runs(small: SmallBenchmark, output: Path) -> list[str]:
    """Of half a second each, so that they can be disturbed."""
    given = ["--set", "train.global_batch_size=64", "-n", "2", "--seed", "1", "-q"]
    return ["run", *small.options, *given, "-o", str(output)]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "dlrm_smal"], ["dlrm_smal", "Did you mean 'dlrm_small'"]),
        (["run", "./absent.toml"], ["absent.toml", "no such file"]),
        (["run", "dlrm_tiny", "--set", "train.global_batch=3"], ["Did you mean 'global_batch_size'"]),
        (["run", "dlrm_tiny", "--set", "train.global_batch_size=-1"], ["train.global_batch_size", "at least 1"]),
        (["run", "dlrm_tiny", "--set", "train.global_batch_size='a'"], ["whole number"]),
        (["run", "dlrm_tiny", "--set", "train.opt_base_learning_rate=nan"], ["opt_base_learning_rate"]),
        (["run", "dlrm_tiny", "--set", "quality.target=2", "--name", "mine"], ["quality.target", "0.5"]),
        (["run", "dlrm_tiny", "--set", "quality.target=0.6"], ["quality.target", "--name"]),
        (["run", "dlrm_dcnv2", "--set", "model.embedding_dim=8"], ["model.embedding_dim"]),
        (["run", "dlrm_tiny", "-n", "0"], ["--runs"]),
        (["run", "dlrm_tiny", "--device", "tpu9"], ["tpu9"]),
        (["run", "dlrm_tiny", "--threads", "100000"], ["runtime.threads is 100000", "CPUs"]),
        (["run", "dlrm_tiny", "--implementation", "refrence"], ["Did you mean 'reference'"]),
        (["run", "dlrm_tiny", "-c", "absent.toml"], ["absent.toml"]),
        (["resumee"], ["Did you mean 'resume'"]),
    ],
)
def test_usage_errors_exit_2_and_write_nothing(
    arguments: list[str], parts: list[str], inside: Command, tmp_path: Path
) -> None:
    assert_refused(inside(*arguments), 2, *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_a_gpu_exits_2(inside: Command, tmp_path: Path, data_root: Path) -> None:
    assert_refused(inside(*tiny(data_root, "--device", "cuda")), 2, "cuda", "--device cpu")
    assert list(tmp_path.iterdir()) == []


def test_a_batch_larger_than_the_dataset_exits_2(inside: Command, data_root: Path, tmp_path: Path) -> None:
    done = inside(*tiny(data_root, "--set", "train.global_batch_size=10000000"))
    assert_refused(
        done, 2, "global_batch_size", "10000000", str(load_benchmark("dlrm_tiny").sections["data"]["train_samples"])
    )
    assert list(tmp_path.iterdir()) == []


def test_a_bad_value_is_blamed_on_who_gave_it(inside: Command) -> None:
    done = inside("run", "dlrm_tiny", "--set", "train.global_batch_size=abc")
    assert_refused(done, 2, "--set train.global_batch_size: train.global_batch_size is 'abc'")


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_throughput_measurement_takes_no_timeout_and_resumes_by_measuring_what_is_missing(
    inside: Command, data_root: Path, tmp_path: Path
) -> None:
    arguments = tiny(data_root, "-o", tmp_path / "out", "--throughput", 3)
    assert_refused(inside(*arguments, "--timeout", 3), 2, "--timeout")
    done = inside(*arguments, "--set", "train.opt_name=sgd", "--set", "train.opt_adagrad_epsilon=1e-6")
    assert done.returncode == 2  # Adagrad's keys mean nothing to SGD
    assert inside(*arguments, "--set", "train.opt_adagrad_epsilon=1e-6").returncode == 0
    (folder,) = made_in(tmp_path / "out")
    whole = (folder / "extra" / "throughput.json").read_bytes()
    (folder / "extra" / "throughput.json").unlink()
    again = inside("resume", folder)
    assert again.returncode == 0, again.stderr
    assert (folder / "extra" / "throughput.json").read_bytes() == whole
    assert not list(folder.rglob("result_*"))


@pytest.mark.parametrize("name", ["dlrm", "dlrm_dcnv2", "dlrm_kaggle"])
def test_a_dataset_that_only_the_user_has_exits_8_with_the_way_to_get_it(name: str, inside: Command) -> None:
    assert_refused(inside("run", name, "--device", "cpu"), 8, "data", "--")


@pytest.fixture
def own_data(data_root: Path, tmp_path: Path) -> Path:
    """A copy of dlrm_tiny's dataset to damage; returns its folder."""
    (source,) = data_root.glob("click_log_tiny-*")
    return shutil.copytree(source, tmp_path / "own" / source.name)


def damage_truncated(folder: Path) -> None:
    path = folder / "train_dense.npy"
    os.truncate(path, path.stat().st_size - 1000)


def damage_content(folder: Path) -> None:
    path = folder / "train_indices.npy"
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(content)


def damage_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"schema_version": 1, "files"')


def damage_version(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"schema_version": 99}))


def damage_missing(folder: Path) -> None:
    (folder / "eval_labels.npy").unlink()


@pytest.mark.parametrize(
    "damage", [damage_truncated, damage_content, damage_manifest, damage_version, damage_missing]
)
def test_a_damaged_dataset_exits_8_and_names_the_file(
    damage: "object", own_data: Path, inside: Command, tmp_path: Path
) -> None:
    damage(own_data)  # type: ignore[operator]
    done = inside(*tiny(own_data, "-o", tmp_path / "out"))
    assert_refused(done, 8, str(own_data.name))
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_exits_2(inside: Command, data_root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert_refused(inside(*tiny(data_root, "-o", tmp_path / "file" / "out")), 2, str(tmp_path / "file"))


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_locked_set_exits_2(inside: Command, small: SmallBenchmark, tmp_path: Path) -> None:
    assert inside("run", *small.options, "-o", tmp_path / "out", "-n", 1, "--seed", 1, "-q").returncode == 0
    (run_set,) = made_in(tmp_path / "out")
    with (run_set / "extra" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert_refused(inside("resume", run_set), 2, "another process", str(run_set))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "not a run set"),
        ("{", "JSON"),
        ('{"schema_version": 99}', "99"),
        ('{"schema_version": 3}', "schema_version: found 3, expected 1"),
    ],
)
def test_resume_of_what_is_no_run_set_exits_8(
    content: str | None, part: str, inside: Command, tmp_path: Path
) -> None:
    (tmp_path / "set" / "extra").mkdir(parents=True)
    if content is not None:
        (tmp_path / "set" / "extra" / "run_set.json").write_text(content)
    assert_refused(inside("resume", tmp_path / "set"), 8, part)
    assert_refused(inside("resume", tmp_path / "absent"), 8, "no such run set")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def start_and_wait_for_run(arguments: list[str], output: Path, index: int) -> "subprocess.Popen[str]":
    """A command whose run `index` has begun its log, unless the command has ended before."""
    process = subprocess.Popen([sys.executable, "-m", "harness", *arguments], stderr=subprocess.PIPE, text=True)
    log = f"*/extra/run_{index}/attempt_0/log.txt"
    wait_until(lambda: process.poll() is not None or list(output.glob(log)), f"a log of run {index}")
    return process


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_full_disk_exits_9_and_the_set_can_be_completed(
    small_disk: Path, inside: Command, small: SmallBenchmark
) -> None:
    output = small_disk / "out"
    filler = small_disk / "filler"
    arguments = two_runs(small, output)
    for _ in range(NUM_TRIES):
        filler.unlink(missing_ok=True)
        shutil.rmtree(output, ignore_errors=True)
        process = start_and_wait_for_run(arguments, output, 0)
        with filler.open("wb", buffering=0) as file:  # the disk fills up in the middle of a run
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass
        _, stderr = process.communicate(timeout=HANG_S)
        if process.returncode != 0:
            break
    assert process.returncode == 9, stderr
    assert "No space left" in stderr and "Traceback" not in stderr
    filler.unlink()
    (run_set,) = made_in(output)
    assert inside("resume", run_set, "-q").returncode == 0
    assert len(list(run_set.glob("results/*/*/result_*.txt"))) == 2


def test_a_file_system_that_is_read_only_is_named_so(small_disk: Path, inside: Command, data_root: Path) -> None:
    """Root may write anywhere else: "Permission denied" would say nothing."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert_refused(inside(*tiny(data_root, "-o", small_disk)), 2, f"{small_disk}: Read-only file system.", "Choose")


@pytest.mark.slow
def test_a_full_disk_leaves_no_finished_looking_dataset(small_disk: Path, dlrmbench: Command) -> None:
    done = dlrmbench("data", "generate", "dlrm_tiny", "--data", small_disk)
    assert_refused(done, 9, "No space left")
    assert not list(small_disk.rglob("manifest.json"))


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_run_keep_the_attempt_and_say_how_to_go_on(
    number: signal.Signals, exit_code: int, small: SmallBenchmark, tmp_path: Path, inside: Command
) -> None:
    output = tmp_path / "out"
    for _ in range(NUM_TRIES):
        shutil.rmtree(output, ignore_errors=True)
        process = start_and_wait_for_run(two_runs(small, output), output, 0)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=HANG_S)
        if process.returncode != 0:
            break
    assert process.returncode == exit_code, stderr
    assert "dlrmbench resume" in stderr and "Traceback" not in stderr
    (run_set,) = made_in(output)
    records = [json.loads(path.read_text()) for path in sorted(run_set.glob("extra/run_*/attempt_0/run.json"))]
    assert [record["status"] for record in records] in (["interrupted"], ["success", "interrupted"])
    assert inside("resume", run_set, "-q").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_run_that_cannot_meet_its_target_exits_4_and_is_reported(
    inside: Command, small: SmallBenchmark, tmp_path: Path
) -> None:
    rate = "train.opt_base_learning_rate=0"
    done = inside("run", *small.options, "-o", tmp_path / "out", "-n", 2, "--set", rate, "-q")
    assert done.returncode == 4, done.stderr + done.stdout
    assert "none" in done.stdout and "report.html" in done.stdout
    (run_set,) = made_in(tmp_path / "out")
    assert len(list(run_set.glob("results/*/*/result_*.txt"))) == 2


@pytest.mark.usefixtures("workers_inside")
def test_a_timeout_exits_124(inside: Command, data_root: Path, tmp_path: Path) -> None:
    done = inside(*tiny(data_root, "-o", tmp_path / "out", "-n", 1, "--timeout", "0.01"))
    assert done.returncode == 124, done.stderr + done.stdout


@pytest.mark.usefixtures("workers_inside")
def test_a_diverging_run_is_not_converged(inside: Command, data_root: Path, tmp_path: Path) -> None:
    rate = "train.opt_base_learning_rate=1e30"
    done = inside(*tiny(data_root, "-o", tmp_path / "out", "-n", 1, "--set", rate))
    assert done.returncode == 4, done.stderr + done.stdout
