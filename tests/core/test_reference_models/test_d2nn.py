"""The optical network: what it learns, what a step does and costs, and what is refused."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rounding import distance_of, is_as_near, sway_of, turn, weights_of
from small_optics import ADAM, OPTICS, PATTERNS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from reference_models.config.sections import DataConfig, RuntimeConfig, parse_train
from reference_models.costs import fft_flop
from reference_models.d2nn.config import D2NNConfig, parse_model, require_patterns
from reference_models.d2nn.costs import num_transforms
from reference_models.d2nn.model import D2NN, free_space, make_detectors, propagate, transfer_function
from reference_models.d2nn.phases import D2NNPhase
from reference_models.d2nn.reference import ReferenceWorkload
from reference_models.d2nn.spec import SPEC
from reference_models.data.registry import generate_dataset, parse_data
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.process.world import SingleProcess
from reference_models.registry import find_model
from reference_models.training.metrics import measure_classes
from reference_models.training.workload import WorkloadSpec

pytestmark = pytest.mark.numeric
N, PITCH, WAVELENGTH = 16, 0.6, 0.75


def config_of(**changes: Any) -> D2NNConfig:
    return parse_model(OPTICS | changes)


@pytest.fixture(scope="module")
def data() -> DataConfig:
    return parse_data(PATTERNS)


@pytest.fixture(scope="module")
def folder(data: DataConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("patterns")
    generate_dataset(made, data, num_threads=1, on_progress=None)
    return made


def build(
    data: DataConfig,
    folder: Path,
    seed: int = 1,
    name: str = "reference",
    train: dict[str, Any] = ADAM,
    **changes: Any,
) -> Any:
    spec = WorkloadSpec(
        model=config_of(**changes),
        data=data,
        train=parse_train(train),
        runtime=RuntimeConfig(threads=1),
        data_dir=folder,
        seed=seed,
    )
    known = find_model("d2nn")
    load = known.implementations[name].load if name in known.implementations else known.baselines[name]
    workload = load(spec, SingleProcess())
    workload.build()
    return workload


# light


def test_masks_of_zero_leave_the_wave_as_it_is(data: DataConfig) -> None:
    """Where edges meet and nothing is cut off, what falls on the detectors has travelled the whole way at once."""
    model = D2NN(config_of(), require_patterns(config_of(), data)).double()
    model.transfer = transfer_function(N, PITCH, WAVELENGTH, 20)
    torch.nn.init.zeros_(model.shared)
    torch.nn.init.zeros_(model.own)
    pixels = torch.randint(0, 2, (6, 64), generator=torch.Generator().manual_seed(1)).double()
    whole = propagate(model.make_field(pixels), transfer_function(N, PITCH, WAVELENGTH, 80))
    light = whole.abs().square().flatten(1) @ model.detectors
    found = model(pixels)
    torch.testing.assert_close(found[:, 0].double().exp(), light, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[:, 0], found[:, 1], rtol=0, atol=1e-12)


def test_a_pattern_and_its_negative_give_the_same_light(data: DataConfig) -> None:
    model = D2NN(config_of(), require_patterns(config_of(), data)).double()
    model.transfer = transfer_function(N, PITCH, WAVELENGTH, 20)
    pixels = torch.randint(0, 2, (6, 64), generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(model(pixels), model(1 - pixels), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("grid", "num_classes"), [(16, 4), (32, 8), (32, 10), (9, 2), (64, 30)])
def test_detectors_lie_apart_and_are_alike(grid: int, num_classes: int) -> None:
    detectors = make_detectors(grid, num_classes)
    assert detectors.shape == (grid**2, num_classes)
    assert detectors.sum(1).max() == 1
    assert len(set(detectors.sum(0).tolist())) == 1 and detectors.sum() > 0


# what a step does


class CountTransforms(TorchDispatchMode):
    """Counts the points that go through Fourier transforms, and FLOP by the formula."""

    def __init__(self) -> None:
        super().__init__()
        self.num, self.flop = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket._qualified_op_name == "aten::_fft_c2c":
            points = math.prod(args[0].shape[at] for at in args[1])
            self.num += args[0].numel() // points
            self.flop += round(5 * args[0].numel() * math.log2(points))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "changes", [{}, {"num_shared_masks": 0, "num_task_masks": 3}, {"num_task_masks": 2, "padding": 2}]
)
def test_flop_are_those_that_a_step_does(data: DataConfig, folder: Path, changes: dict[str, Any]) -> None:
    """torch's counter counts the detectors' products; transforms are counted as they are called."""
    workload, costs = build(data, folder, **changes), SPEC.costs.model(config_of(**changes), data)
    with FlopCounterMode(display=False) as counter, CountTransforms() as transforms:
        workload.train(1)
    matmul_flop = sum(matmul.flop for matmul in SPEC.costs.matmuls(config_of(**changes), data, 32))
    assert counter.get_total_flops() == matmul_flop
    assert transforms.num == 32 * sum(num_transforms(config_of(**changes), 2))
    assert transforms.flop + matmul_flop == 32 * costs.training_flop_per_sample
    with torch.no_grad(), FlopCounterMode(display=False) as counter, CountTransforms() as transforms:
        workload.model(torch.zeros(3, 64))
    assert transforms.flop + counter.get_total_flops() == 3 * costs.forward_flop_per_sample
    window = 16 * changes.get("padding", 1)
    assert transforms.flop == 3 * num_transforms(config_of(**changes), 2)[0] * fft_flop(window)
    by_phase = SPEC.costs.phases(config_of(**changes), data, batch_size=32, opt_name="Adam", unique_rows=0)
    counted = {phase for phase, cost in by_phase.items() if cost.flop and phase != D2NNPhase.DENSE_OPTIMIZER}
    assert sum(by_phase[phase].flop for phase in counted) == 32 * costs.training_flop_per_sample


def test_sharing_masks_takes_fewer_parameters_than_a_network_for_each_task(data: DataConfig, folder: Path) -> None:
    shared, separate = config_of(), config_of(num_shared_masks=0, num_task_masks=3)
    numbers = [SPEC.costs.model(config, data).num_parameters for config in (shared, separate)]
    assert numbers == [4 * 16**2, 6 * 16**2]
    assert numbers[0] < 2 * 3 * 16**2
    for number, config in zip(numbers, (shared, separate), strict=True):
        model = build(data, folder, **asdict(config)).model
        assert sum(parameter.numel() for parameter in model.parameters()) == number


@pytest.mark.parametrize("name", ["reference", "optimized"])
def test_phases_are_entered_in_their_order(data: DataConfig, folder: Path, name: str) -> None:
    workload, entered = build(data, folder, name=name), list[str]()
    with workload.report_phases(entered.append):
        workload.train(1)
    assert entered == [
        D2NNPhase.DATA,
        D2NNPhase.ZERO_GRAD,
        D2NNPhase.PROPAGATION_FORWARD,
        D2NNPhase.DETECTION_FORWARD,
        D2NNPhase.LOSS,
        D2NNPhase.DETECTION_BACKWARD,
        D2NNPhase.PROPAGATION_BACKWARD,
        D2NNPhase.DENSE_OPTIMIZER,
        D2NNPhase.OTHER,
    ]
    assert set(entered) == set(find_model("d2nn").phases)


def test_memory_grows_with_the_batch(data: DataConfig) -> None:
    train = parse_train(ADAM)
    small, large = (
        SPEC.costs.memory(config_of(), data, replace(train, global_batch_size=size), eval_samples=96)
        for size in (32, 64)
    )
    assert large.activations_bytes == 2 * small.activations_bytes
    padded = SPEC.costs.memory(config_of(padding=2), data, parse_train(ADAM), eval_samples=96)
    assert padded.activations_bytes > small.activations_bytes and padded.weights_bytes == small.weights_bytes
    assert small.weights_bytes == 4 * 4 * 16**2 and small.optimizer_bytes == 2 * small.weights_bytes


# learning


@pytest.mark.slow
def test_it_learns_both_tasks_and_says_so_in_all_metrics(data: DataConfig, folder: Path) -> None:
    workload = build(data, folder)
    before = workload.evaluate_with(measure_classes)
    for _ in range(6):
        assert workload.train(16).num_samples == 512
    after = workload.evaluate_with(measure_classes)
    assert workload.evaluate() == after.accuracy > before.accuracy + 0.2
    assert after.log_loss < before.log_loss
    assert after.normalised_entropy == pytest.approx(after.log_loss / math.log(4), rel=0.05)
    keys = workload.hyperparameters()
    assert (keys["opt_name"], keys["train_samples"], keys["eval_samples"]) == ("Adam", 512, 96)
    assert "opt_sparse_name" not in keys


def test_a_linear_classifier_learns_nothing(data: DataConfig, folder: Path) -> None:
    workload = build(data, folder, name="linear")
    for _ in range(6):
        workload.train(16)
    assert workload.evaluate() < 0.4


def test_a_baseline_leaves_its_shared_masks_alone(data: DataConfig, folder: Path) -> None:
    workload = build(data, folder, name="untrained_shared")
    before = {name: value.clone() for name, value in workload.model.state_dict().items()}
    workload.train(2)
    after = workload.model.state_dict()
    assert torch.equal(before["shared"], after["shared"]) and not torch.equal(before["own"], after["own"])


def test_equal_seeds_give_equal_weights_and_noise_needs_no_other_evaluations(data: DataConfig, folder: Path) -> None:
    """Evaluations draw the masks' errors from a generator of their own: training does not depend on them."""
    first = build(data, folder, mask_noise=0.5)
    first.train(2)
    assert first.evaluate() == first.evaluate()
    first.train(2)
    second = build(data, folder, mask_noise=0.5)
    second.train(4)
    for name, value in first.weights().items():
        assert torch.equal(value, second.weights()[name]), name
    assert not torch.equal(build(data, folder, seed=2).weights()["own"], second.weights()["own"])


IMPLEMENTED = [
    {},
    {"padding": 2, "mask_noise": 0.3},
    {"padding": 3, "num_task_masks": 2},
    {"num_shared_masks": 0, "mask_noise": 0.3},
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", IMPLEMENTED)
def test_both_implementations_train_the_same_model(data: DataConfig, folder: Path, changes: dict[str, Any]) -> None:
    """Same weights, same batches, same errors of the masks: logits, and phases after eight steps, are the same.

    Adam's epsilon is of the gradients' size: with less, its first steps are their signs, whatever they round to.
    """
    pixels = torch.randint(0, 2, (20, 64), generator=torch.Generator().manual_seed(1)).float()
    smooth = {**ADAM, "opt_adam_epsilon": 1e-3}
    logits, drawn = [], []

    def make(name: str) -> Any:
        workload = build(data, folder, name=name, train=smooth, **changes)
        logits.append(workload.model(pixels).detach())
        return workload

    def train(name: str) -> Any:
        workload = make(name)
        assert workload.train(8).num_samples == 256
        drawn.append(workload.state()["rng"])
        return workload

    reference, optimized = train("reference"), train("optimized")
    assert torch.equal(*drawn)
    assert is_as_near(weights_of(optimized), *sway_of(reference, lambda: make("reference"), 8, has_relu=False))
    turned = build(data, folder, train=smooth, **changes)
    turn(turned.state()["model"].values())
    moved = distance_of([turned.model(pixels)], logits[:1])
    # A forward pass has at most four hops of two transforms, of eight stages each, that round as a turn does.
    assert distance_of(logits[1:2], logits[:1]) <= 2 * 64 * moved


def test_optimized_gives_equal_weights_for_equal_seeds(data: DataConfig, folder: Path) -> None:
    first, second = (build(data, folder, name="optimized", padding=2) for _ in range(2))
    for workload in (first, second):
        workload.train(4)
    assert all(torch.equal(value, second.weights()[name]) for name, value in first.weights().items())


@pytest.mark.slow
def test_trained_masks_are_as_good_with_any_padding_but_not_where_edges_meet(data: DataConfig, folder: Path) -> None:
    """What is trained in free space is not what the window makes of it: anybody's zero-padding finds the same."""
    workload = build(data, folder, name="optimized", padding=2)
    for _ in range(8):
        workload.train(16)
    model, light = workload.model, (PITCH, WAVELENGTH, 20.0)
    found = workload.evaluate()
    for padding in (3, 4, 8):
        model.transfer = free_space(N, padding, *light).to(torch.complex64)
        assert workload.evaluate() == pytest.approx(found, abs=0.002)
    model.transfer = transfer_function(8 * N, *light).to(torch.complex64)
    assert workload.evaluate() == pytest.approx(found, abs=0.002)
    model.transfer = transfer_function(N, *light).to(torch.complex64)
    assert workload.evaluate() < found - 0.1


# what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pitch_mm": 0.53}, r"model.pitch_mm is 0.53, expected more than 0.5303 \(wavelength_mm / sqrt\(2\)\)"),
        ({"num_task_masks": 0}, "model.num_task_masks is 0, expected a whole number of at least 1"),
        ({"distance_mm": 0}, "model.distance_mm is 0, expected"),
        ({"padding": 0}, "model.padding is 0, expected"),
        ({"mask_noize": 1}, "unknown key model.mask_noize. Did you mean 'mask_noise'"),
    ],
)
def test_impossible_masks_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(**changes)


@pytest.mark.parametrize(
    ("model", "changed", "message"),
    [
        ({}, {"kind": "click_log"}, "data.kind is 'click_log', expected 'patterns'"),
        ({"grid": 20}, {}, "model.grid is 20, expected a multiple of 8"),
        ({}, {"num_embeddings": (65, 65)}, "model.grid is 16, expected at least 18"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    data: DataConfig, model: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        require_patterns(config_of(**model), replace(data, **changed))


def test_classes_outside_their_task_are_refused(data: DataConfig, folder: Path, tmp_path: Path) -> None:
    generate_dataset(tmp_path, data, num_threads=1)
    rows = np.load(tmp_path / "train_indices.npy", mmap_mode="r+")
    rows[3, 1] = 4
    rows.flush()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    changed = (tmp_path / "train_indices.npy").stat().st_mtime_ns
    manifest["files"]["train_indices.npy"]["mtime_ns"] = changed  # as if it had been made so
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    workload: ReferenceWorkload = build(data, tmp_path)
    with pytest.raises(DatasetError, match=r"train sample 3, sparse feature 1: id 4 is outside its table of 4 rows"):
        workload.train(1)
