"""What an optical network holds and does, from its configuration alone (no torch): see `reference_models.costs`.

FLOP are those of the Fourier transforms, 5 N log2 N for N complex points (radix 2, as FFTW counts), and of the sums
over detectors as matrix products. torch's counter counts the latter alone; the number of transforms is held against
those that a step calls. Masks and transfer functions are element-wise and not counted, as activations are not.
"""

import math
from collections.abc import Collection, Sequence

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    FLOAT_BYTES,
    Matmul,
    MemoryEstimate,
    ModelCosts,
    PhaseCosts,
    loop_costs,
)
from reference_models.d2nn.config import D2NNConfig, num_propagations, refuse_data
from reference_models.d2nn.phases import Phase

_COMPLEX_BYTES = 2 * FLOAT_BYTES
_SAVED_FIELDS = 4
"""Fields that a mask and its propagation keep for the backward pass, and what makes them."""


def fft_flop(grid: int) -> int:
    """Count those of one two-dimensional transform of grid x grid complex points."""
    return round(5 * grid**2 * math.log2(grid**2))


def num_transforms(model: D2NNConfig, num_tasks: int) -> tuple[int, int]:
    """Return the transforms of a sample's forward and backward pass: there and back for each propagation."""
    forward, behind = num_propagations(model, num_tasks)
    return 2 * forward, 2 * behind


def model_costs(model: D2NNConfig, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
    """Count those of `model` on `data`, which has no tables."""
    shape = refuse_data(model, data)
    forward, backward = num_transforms(model, shape.num_tasks)
    detection = sum(matmul.flop for matmul in list_matmuls(model, data, 1)) // 2
    return ModelCosts(
        num_embedding_rows=0,
        num_embedding_parameters=0,
        num_dense_parameters=_num_parameters(model, shape.num_tasks),
        num_lookups_per_sample=0,
        embedding_bytes_per_sample=0,
        forward_flop_per_sample=forward * fft_flop(model.grid) + detection,
        training_flop_per_sample=(forward + backward) * fft_flop(model.grid) + 2 * detection,
    )


def _num_parameters(model: D2NNConfig, num_tasks: int) -> int:
    return num_propagations(model, num_tasks)[1] * model.grid**2


def list_matmuls(model: D2NNConfig, data: DataConfig, batch_size: int) -> tuple[Matmul, ...]:
    """List the products of one training step: the sums over detectors, and their gradient to the intensities."""
    shape, cells = refuse_data(model, data), model.grid**2
    rows = batch_size * shape.num_tasks
    return (
        Matmul(Phase.DETECTION_FORWARD, "detectors", rows, cells, shape.num_classes),
        Matmul(Phase.DETECTION_BACKWARD, "detectors", rows, shape.num_classes, cells),
    )


def phase_costs(
    model: D2NNConfig, data: DataConfig, *, batch_size: int, opt_name: str, unique_rows: int,
    entered: Collection[str] = tuple(Phase),
) -> dict[str, PhaseCosts]:  # fmt: skip
    """Count those of every phase of a step. A propagation reads and writes its field once for each transform."""
    shape = refuse_data(model, data)
    costs: dict[str, PhaseCosts] = {phase: PhaseCosts() for phase in Phase}
    field_bytes = batch_size * model.grid**2 * _COMPLEX_BYTES
    for phase, number in zip(
        (Phase.PROPAGATION_FORWARD, Phase.PROPAGATION_BACKWARD), num_transforms(model, shape.num_tasks), strict=True
    ):
        costs[phase] = PhaseCosts(
            elementwise_flop=number * batch_size * fft_flop(model.grid), bytes=2 * number * field_bytes
        )
    for matmul in list_matmuls(model, data, batch_size):
        costs[matmul.phase] += PhaseCosts(matmul_flop=matmul.flop, bytes=matmul.bytes)
    costs |= loop_costs(
        data,
        batch_size=batch_size,
        opt_name=opt_name,
        num_dense_parameters=_num_parameters(model, shape.num_tasks),
    )
    return {phase: made for phase, made in costs.items() if made != PhaseCosts()}


def estimate_memory(
    model: D2NNConfig, data: DataConfig, train: TrainConfig, *, eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:  # fmt: skip
    """Estimate the peak memory of the reference: fp32, one process."""
    shape, cells = refuse_data(model, data), model.grid**2
    parameters = _num_parameters(model, shape.num_tasks)
    propagations, _ = num_propagations(model, shape.num_tasks)
    field_bytes, pixel_bytes = cells * _COMPLEX_BYTES, data.num_dense * FLOAT_BYTES
    kept = propagations * _SAVED_FIELDS * field_bytes + pixel_bytes
    scores = shape.num_tasks * (shape.num_classes + 1) * _COMPLEX_BYTES
    return MemoryEstimate(
        weights_bytes=parameters * FLOAT_BYTES,
        optimizer_bytes=2 * parameters * FLOAT_BYTES,
        gradients_bytes=parameters * FLOAT_BYTES,
        activations_bytes=train.global_batch_size * kept,
        evaluation_bytes=min(train.eval_batch_size, eval_samples) * (_SAVED_FIELDS * field_bytes + pixel_bytes)
        + eval_samples * scores,
    )
