"""Throughput mode: fresh processes, a fixed number of steps, a file of its own, and nothing that could be scored."""

from pathlib import Path

import msgspec
import pytest
from command import Command
from made_sets import made_in
from ranks_builder import needs_torchrec

from harness.config.catalog import load_entry
from harness.config.run_config import Override
from harness.experiment.create import create
from harness.experiment.executors import RepetitionTask, WorkerExecutor
from harness.experiment.expand import expand
from harness.experiment.loop import perform
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.measure.throughput import KIND, train_steps
from harness.run_sets.folder import open_run_set
from harness.run_sets.keepers import find_keeper
from reference_models.process.errors import ConfigError
from reference_models.training.workload import TrainCounts
from reports.facts.traffic import traffic_words
from reports.text.formatting import moment_of
from rules.records.codec import decode
from rules.records.measured.throughput import ProcessRecord, ThroughputRecord


@pytest.mark.slow
def test_it_measures_in_five_processes_and_writes_no_log(inside: Command, data_root: Path, tmp_path: Path) -> None:
    done = inside(
        "run", "dlrm_tiny", "--data", data_root, "-o", tmp_path / "out", "--threads", 1, "--throughput", 7,
        "--set", "model.top_mlp=[8, 1]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not a score" in " ".join(done.stdout.split())
    (folder,) = made_in(tmp_path / "out")
    content = decode(folder / "extra" / "throughput.json", ThroughputRecord)
    assert isinstance(content, ThroughputRecord), content
    assert [process.num_steps for process in content.processes] == [7] * 5
    batch_size = content.processes[0].hyperparameters["global_batch_size"]
    for process in content.processes:
        assert process.num_samples == 7 * batch_size
        assert process.samples_per_s == pytest.approx(process.num_samples / process.duration_s)
    spans = [(moment_of(process.started_utc), moment_of(process.ended_utc)) for process in content.processes]
    moments = [moment for span in spans for moment in span if moment is not None]
    assert len(moments) == 10 and moments == sorted(moments), "one after another, each with both its moments"
    assert not list(folder.rglob("result_*.txt"))
    assert "dlrm_tiny_throughput" in folder.name  # a changed model is not measured under the benchmark's name


def measure_a_process(data_root: Path, folder: Path, given: dict[str, str | int]) -> ProcessRecord:
    """Measure six steps of dlrm_tiny in a process, or in the ranks that stand for one."""
    request = Request(
        benchmark="dlrm_tiny",
        overrides=[Override(key=key, value=value, source="test") for key, value in given.items()],
        kinds={"throughput": 6},
        seed=1,
        data=data_root,
        output=folder,
        quiet=True,
    )
    run_set, record = open_run_set(create(prepare(expand(request))))
    keeper = find_keeper(KIND, run_set, record)
    first = RepetitionTask(
        kind=KIND, keeper=keeper, run_set=run_set, record=record, index=0, more=record.options, resume="resume"
    )
    outcome = perform(first, WorkerExecutor(), keeper.progress(0, quiet=True))
    assert isinstance(outcome.record, ThroughputRecord)
    (measured,) = outcome.record.processes
    assert measured.num_samples == 6 * record.config["train.global_batch_size"].value
    assert measured.samples_per_s == pytest.approx(measured.num_samples / measured.duration_s)
    return measured


@pytest.mark.once("kind throughput: a process measures")
def test_a_process_measures(data_root: Path, tmp_path: Path) -> None:
    measured = measure_a_process(data_root, tmp_path, {"runtime.threads": 1})
    assert measured.hyperparameters["world_size"] == 1 and not measured.ranks


@pytest.mark.slow
@needs_torchrec
def test_ranks_measure_together(data_root: Path, tmp_path: Path) -> None:
    """One process of the measurement: two ranks, whose samples are counted once."""
    given = {"runtime.implementation": "torchrec", "runtime.ranks": 2, "runtime.threads": 1}
    measured = measure_a_process(data_root, tmp_path, given)
    assert measured.hyperparameters["world_size"] == 2
    assert [rank.rank for rank in measured.ranks] == [0, 1]
    assert measured.peak_rss_bytes == sum(rank.peak_rss_bytes for rank in measured.ranks)
    traffic = measured.traffic
    num_bytes = sum(msgspec.to_builtins(traffic.bytes_per_step).values())
    assert f"{num_bytes:,} bytes per step between 2 ranks" in traffic_words(traffic)
    assert traffic.bytes_per_step.embedding_forward > 0 and traffic.formulas["dense_reduce"]
    assert traffic.bytes_per_evaluation is None
    rows = load_entry("dlrm_tiny").workload.data.num_embeddings or ()
    assert [table.table for table in traffic.placement] == list(range(len(rows)))


def test_steps_go_over_the_end_of_an_epoch() -> None:
    left = iter([3, 2, 4])
    asked: list[int] = []

    def train(num_steps: int) -> TrainCounts:
        asked.append(num_steps)
        done = min(num_steps, next(left))
        return TrainCounts(num_steps=done, num_samples=done * 10)

    assert train_steps(train, 7) == 70
    assert asked == [7, 4, 2]


def test_a_dataset_without_one_batch_is_an_error() -> None:
    with pytest.raises(ConfigError, match="less than one batch"):
        train_steps(lambda num_steps: TrainCounts(num_steps=0, num_samples=0), 1)
