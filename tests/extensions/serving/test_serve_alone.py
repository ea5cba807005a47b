"""`serve` with LoadGen itself, in processes of its own: what is kept, and that it can be interrupted."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from inside import use_study_workers_inside
from made_sets import made_in
from mapped_set import MAPPED, dataset_in, make_data, train_mapped
from waiting import HANG_S, skip_where_busy, wait_until

from harness.extensions.serving.loadgen import DETAIL, MODULE, SUMMARY
from harness.extensions.serving.records import ServeRecord
from harness.foundation.errors import ExitCode
from harness.foundation.kept_arrays import write_kept
from harness.measure.weights import keep_weights
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import decode
from rules.records.kept.id_maps import IdMapManifest

pytestmark = pytest.mark.skipif(find_spec(MODULE) is None, reason="MLPerf LoadGen is not installed")
Command = Callable[..., "subprocess.CompletedProcess[str]"]
ASKED = ("--queries", "fixed:8", "--percentile", "50", "--target-latency", "100ms", "-n", "1", "-q", "--seed", "3")
"""Half of the queries within 100 ms of a model that answers within one: at some rate so under any load."""


def record_of(output: Path) -> ServeRecord:
    (folder,) = made_in(output)
    record = decode(folder / "extra" / "serve.json", ServeRecord)
    assert isinstance(record, ServeRecord), record
    return record


@pytest.mark.long
def test_two_processes_beside_each_other(inside: Command, data_root: Path, tmp_path: Path) -> None:
    done = inside("serve", "dlrm_tiny", *ASKED, "--data", data_root, "-o", "out", "--colocate", "2")
    assert done.returncode == 0, done.stderr
    assert "latency-bounded" in done.stdout and "2 processes answer" in done.stdout
    record, (folder,) = record_of(tmp_path / "out"), made_in(tmp_path / "out")
    (process,) = record.processes
    assert record.num_copies == 2 and process.alone_per_s is not None and process.quality is None
    assert process.queries_per_s == max(run.completed_per_s for run in process.runs if run.is_valid)
    assert process.latency_s <= 0.1
    assert process.items_per_s == pytest.approx(8 * process.queries_per_s)
    for run in process.runs:
        for name in ("process_0", "process_1"):
            files = folder / "extra" / "serve_0" / "loadgen" / run.folder / name
            assert {DETAIL, SUMMARY} <= {path.name for path in files.iterdir()}


@pytest.mark.long
def test_an_interrupted_measurement_leaves_nothing_half_written(
    inside: Command, data_root: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    words = ["serve", "dlrm_tiny", *ASKED, "--data", str(data_root), "-o", str(output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *words], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    wait_until(lambda: process.poll() is not None or list(output.glob("*/extra/serve_0/loadgen/run_1")), "LoadGen")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert "Complete the measurement with: dlrmbench resume" in said
    (folder,) = made_in(output)
    assert not (folder / "extra" / "serve.json").exists()
    assert not (folder / "extra" / "serve_0" / "measured.json").exists()
    done = inside("resume", folder, "-q")
    assert done.returncode == 0, done.stderr
    assert len(record_of(output).processes) == 1


@pytest.mark.slow
def test_no_rate_is_an_exit_code_of_its_own(inside: Command, data_root: Path) -> None:
    words = ("--queries", "fixed:8", "--target-latency", "1us", "-n", "1", "-q")
    done = inside("serve", "dlrm_tiny", *words, "--data", data_root, "-o", "out")
    assert done.returncode == ExitCode.INCONCLUSIVE
    assert "no rate meets the limit: service alone takes" in done.stderr
    assert "the limit is 0.001 ms" in done.stderr


@pytest.mark.slow
def test_what_was_trained_is_served_with_its_quality(inside: Command, data_root: Path, tmp_path: Path) -> None:
    words = ("--scenario", "single_stream", "--queries", "fixed:8", "-n", "1", "-q", "--train", "2048")
    done = inside("serve", "dlrm_tiny", *words, "--data", data_root, "-o", "out")
    if done.returncode == ExitCode.INCONCLUSIVE:
        skip_where_busy(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "single stream" in done.stdout and "1.00000 of fp32 (MLPerf class 99.9 %)" in done.stdout
    record = record_of(tmp_path / "out")
    (process,) = record.processes
    assert record.library_queries == 8192 // 8
    assert record.weights == "trained" and record.target_latency_s is None
    assert process.quality is not None and process.quality.auc_ratio == process.quality.entropy_ratio == 1
    assert process.latency_s == process.runs[0].latency_s and len(process.runs) == 1


@pytest.mark.slow
def test_weights_of_another_definition_or_damaged_are_refused(
    inside: Command, data_root: Path, tmp_path: Path
) -> None:
    digest = load_benchmark("dlrm_tiny").definition_sha256
    for name, of in (("other", "d" * 64), ("damaged", digest)):
        folder = tmp_path / name / "extra" / "run_0"
        folder.mkdir(parents=True)
        assert keep_weights(folder, {"w": torch.ones(3)}, {**ABOUT, "definition_sha256": of}).error is None
    file = tmp_path / "damaged" / "extra" / "run_0" / "weights" / "w.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    for name, code in (("other", ExitCode.USAGE), ("damaged", ExitCode.INPUT), ("missing", ExitCode.INPUT)):
        weights = ("--weights", str(tmp_path / name), "-n", "1", "-q", "--data", data_root)
        done = inside("serve", "dlrm_tiny", *weights, "-o", "out")
        assert done.returncode == code, (name, done.stderr)
        assert "weights" in done.stderr and "Traceback" not in done.stderr


ABOUT = {
    "benchmark": "dlrm_tiny", "benchmark_version": 2, "dataset_sha256": None, "implementation": "reference",
    "run_index": 0, "seed": 1, "status": "success", "samples_count": 512, "quality": 0.75, "log_sha256": "1" * 64,
}  # fmt: skip
"""Of a manifest, whatever the definition."""


@pytest.mark.numeric
@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_kept_weights_are_served_through_their_own_map_alone(
    inside: Command, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_mapped(make_data(tmp_path_factory.mktemp("mapped")), tmp_path)
    use_study_workers_inside(monkeypatch)
    (made,) = made_in(tmp_path / "out")
    asked = (
        "--target-latency",
        "10s",
        "--queries",
        "fixed:8",
        "--percentile",
        "50",
        "--threads",
        1,
        "--set",
        "serve.threads=1",
        "-q",
    )
    common = ("simulate", "./mine.toml", *asked, "--data", "data", "-o", "served", "--weights")
    ways = [(*common, weights) for weights in (made, f"{made}:0@0")]
    for words in ways:
        done = inside(*words)
        assert done.returncode == 0, done.stderr
    (kept,) = (dataset_in(tmp_path / "data") / "id_maps").glob("quotient_remainder-*")
    manifest = json.loads((kept / "manifest.json").read_text())
    arrays = {f"table_{table}": np.zeros((num, 2), np.int32) for table, num in MAPPED.items()}
    write_kept(kept, arrays, IdMapManifest, {**manifest, "tables": None}, "tables")
    for words in ways:
        done = inside(*words)
        assert done.returncode == ExitCode.INPUT and "trained with the id map" in done.stderr, words
    shutil.rmtree(kept)
    for words in ways:
        assert inside(*words).returncode == 0  # made again, it is the same
