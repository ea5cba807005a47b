"""The reference trains in dataset order, reproducibly, from what the specification says, and refuses bad input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_clicks import (
    BATCH,
    EVAL_SAMPLES,
    MULTI_HOT,
    NUM_DENSE,
    TRAIN_SAMPLES,
    MakeSpec,
    write_dataset,
)

from reference_models.config.sections import parse_runtime
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.process.errors import ConfigError, DatasetError, DeviceError
from reference_models.process.world import SingleProcess
from reference_models.training.workload import TrainCounts, WorkloadSpec

pytestmark = pytest.mark.numeric


def build(spec: WorkloadSpec) -> ReferenceWorkload:
    workload = ReferenceWorkload(spec, SingleProcess())
    workload.build()
    return workload


DCN = {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3}


@pytest.mark.slow
@pytest.mark.parametrize("model", [{}, {"interaction": "cat"}, DCN])
@pytest.mark.parametrize("opt_name", ["adagrad", "rowwise_adagrad", "sgd"])
def test_training_learns(make_spec: MakeSpec, model: dict[str, Any], opt_name: str) -> None:
    workload = build(make_spec(model=model, train={"opt_name": opt_name, "opt_base_learning_rate": 0.1}))
    before = workload.evaluate()
    for _ in range(3):
        workload.train(50)
    assert before < 0.65 < 0.68 < workload.evaluate(), "the rule that made the labels reaches about 0.8"


def test_learning_rate_follows_the_policy(make_spec: MakeSpec) -> None:
    keys = {
        "opt_learning_rate_warmup_steps": 4,
        "opt_learning_rate_decay_start_step": 6,
        "opt_learning_rate_decay_steps": 2,
    }
    workload, rates = build(make_spec(train=keys)), []
    for _ in range(8):
        workload.train(1)
        rates.append([state["param_groups"][0]["lr"] for state in workload.state()["optimizers"]])
    scales = [0.25, 0.5, 0.75, 0.75, 0.75, 1, 0.25, 0.25]
    assert rates == [[pytest.approx(0.05 * scale)] * 2 for scale in scales]
    assert workload.hyperparameters()["opt_base_learning_rate"] == 0.05


def test_hyperparameters_say_what_was_built(make_spec: MakeSpec) -> None:
    assert build(make_spec()).hyperparameters() == {
        "global_batch_size": BATCH,
        "gradient_accumulation_steps": 1,
        "opt_name": "adagrad",
        "opt_base_learning_rate": 0.05,
        "opt_weight_decay": 0,
        "opt_adagrad_learning_rate_decay": 0,
        "opt_adagrad_initial_accumulator_value": 0,
        "opt_adagrad_epsilon": 1e-8,
        "opt_learning_rate_warmup_steps": 0,
        "opt_learning_rate_decay_start_step": 0,
        "opt_learning_rate_decay_steps": 0,
        "train_samples": TRAIN_SAMPLES,
        "eval_samples": EVAL_SAMPLES,
        "precision": "fp32",
        "num_threads": 1,
        "world_size": 1,
    }


def test_cpu_has_no_device_memory_to_report(make_spec: MakeSpec) -> None:
    workload = build(make_spec())
    workload.synchronize()
    assert workload.peak_device_bytes() is None


def test_batch_larger_than_the_dataset_is_refused_with_both_numbers(make_spec: MakeSpec) -> None:
    with pytest.raises(ConfigError, match=rf"global_batch_size is 100000.*only {TRAIN_SAMPLES} training samples"):
        build(make_spec(train={"global_batch_size": 100_000}))


def test_a_batch_of_the_whole_dataset_is_one_step_per_epoch(make_spec: MakeSpec) -> None:
    workload = build(make_spec(train={"global_batch_size": TRAIN_SAMPLES}))
    assert workload.train(5) == TrainCounts(num_steps=1, num_samples=TRAIN_SAMPLES)


@pytest.mark.parametrize("bad_id", [3, -1, 2**31 - 1, -(2**31)])
def test_an_id_outside_its_table_is_named_before_it_can_do_harm(
    make_spec: MakeSpec, tmp_path: Path, bad_id: int
) -> None:
    def damage(indices: np.ndarray, labels: np.ndarray) -> None:
        indices[BATCH + 7, 1] = bad_id

    write_dataset(tmp_path, damage=damage)
    workload = build(make_spec(folder=tmp_path))
    workload.train(1)
    message = rf"train sample {BATCH + 7}, sparse feature 1: id {bad_id} is outside its table of 3 rows"
    with pytest.raises(DatasetError, match=message):
        workload.train(1)


def test_the_feature_of_a_multi_hot_column_is_named(make_spec: MakeSpec, tmp_path: Path) -> None:
    def damage(indices: np.ndarray, labels: np.ndarray) -> None:
        indices[0, 3] = 200

    write_dataset(tmp_path, damage=damage)
    with pytest.raises(DatasetError, match=r"sample 0, sparse feature 2: id 200 is outside its table of 200 rows"):
        build(make_spec(folder=tmp_path)).train(1)


def test_a_label_that_is_neither_class_is_named(make_spec: MakeSpec, tmp_path: Path) -> None:
    def damage(indices: np.ndarray, labels: np.ndarray) -> None:
        labels[BATCH + 1] = 2

    write_dataset(tmp_path, damage=damage)
    with pytest.raises(DatasetError, match=rf"train sample {BATCH + 1}: label 2, expected 0 or 1"):
        build(make_spec(folder=tmp_path)).train(2)


def test_missing_dataset_is_refused(make_spec: MakeSpec, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"does not exist.*dlrmbench data"):
        build(make_spec(folder=tmp_path / "nowhere"))


def test_a_precision_that_cpus_lack_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(ConfigError, match=r"runtime\.precision"):
        build(make_spec(runtime={"precision": "tf32"}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_without_a_gpu_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(DeviceError, match=r"device 'cuda'.*Use --device cpu"):
        build(make_spec(runtime={"device": "cuda"}))


def test_synthetic_batches_stay_inside_their_tables(make_spec: MakeSpec) -> None:
    workload = build(make_spec())
    split = workload.data.train
    batch = Batch.synthetic(split, split.num_embeddings, 1000)
    batch.check(split, "made up", 0)
    assert batch.indices.shape == (1000, sum(MULTI_HOT))
    assert batch.dense.shape == (1000, NUM_DENSE)
    assert set(batch.labels.tolist()) == {0.0, 1.0}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-3), ("tf32", 1e-2), ("bf16", 5e-2)])
def test_cuda_trains_like_the_cpu_from_the_same_weights(
    make_spec: MakeSpec, precision: str, tolerance: float
) -> None:
    spec = make_spec()
    cpu = build(spec)
    cuda = build(replace(spec, runtime=parse_runtime({"device": "cuda", "precision": precision})))
    cuda.model.load_state_dict(cpu.state()["model"])
    for workload in (cpu, cuda):
        workload.train(50)
    assert cuda.evaluate() == pytest.approx(cpu.evaluate(), abs=tolerance)
    assert (cuda.peak_device_bytes() or 0) > 0


def test_an_evaluation_is_what_several_ranks_replace(make_spec: MakeSpec) -> None:
    """Ranks share it by `evaluate_with`; one that another method went around would wait for the others forever."""

    class Sharing(ReferenceWorkload):
        def evaluate_with(self, metric: Any) -> Any:
            return metric(np.array([0, 1]), np.array([0.0, 0.0], dtype=np.float32))

    workload = Sharing(make_spec(), SingleProcess())
    workload.device = torch.device("cpu")
    assert workload.evaluate() == 0.5
