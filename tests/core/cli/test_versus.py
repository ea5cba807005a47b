"""`versus` is `run --beside` by a shorter name."""

from collections.abc import Callable
from pathlib import Path

from made_sets import made_in
from sweep_builder import FastWorkers

from rules.records.experiment import ExperimentRecord, read_experiment

Command = Callable[..., tuple[int, str, str]]


def test_a_set_is_measured_again_beside_a_change_of_it(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    assert call("run", "dlrm_tiny", "--throughput", 4, "--threads", 1, "--name", "base")[0] == 0
    code, _, err = call("versus", "base", "--set", "train.global_batch_size=1024", "--seed", 3)
    assert code == 0, err
    asked = [spec["tables"]["train"]["global_batch_size"] for spec in workers.launches]
    assert asked == [512] * 5 + [512, 1024, 1024, 512] * 2 + [512, 1024]
    (pair,) = (folder for folder in made_in(tmp_path / "results") if folder.name.startswith("beside-"))
    record = read_experiment(pair)
    assert isinstance(record, ExperimentRecord) and [each.label for each in record.configurations] == ["base", "new"]


def test_it_takes_a_set_and_no_benchmark(call: Command, workers: FastWorkers) -> None:
    code, _, err = call("versus", "dlrm_tiny")
    assert code in (2, 8) and workers.launches == [] and err
