"""Costs of an optical network, computed from its configuration without torch: see `reference_models.costs`.

FLOP are counted for Fourier transforms and for the sums over detectors, which are matrix products. A transform has
5 N log2 N for N complex points of the padded grid (radix 2, as FFTW counts), even where an implementation skips a
part of it. torch's counter counts only the matrix products; a test compares the number of transforms computed here
with the number that a training step runs. Masks and transfer functions are element-wise work, which is not counted,
like activations.
"""

from collections.abc import Sequence

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    FLOAT_BYTES,
    Linear,
    MemoryEstimate,
    PhaseCosts,
    Step,
    fft_flop,
)
from reference_models.d2nn.config import SLICE, D2NNConfig, num_propagations, require_patterns
from reference_models.d2nn.phases import D2NNPhase

_COMPLEX_BYTES = 2 * FLOAT_BYTES
_SAVED_FIELDS = 4
"""Number of light fields, temporary ones included, that the optical network saves for the backward pass per phase
mask and propagation."""
_PADDED_FIELDS = 3
"""Number of copies of the padded light field in memory at a time while a propagation through free space is
computed."""


def num_transforms(model: D2NNConfig, num_tasks: int) -> tuple[int, int]:
    """Return the number of Fourier transforms in the forward and in the backward pass of a sample, two for each
    propagation."""
    forward, behind = num_propagations(model, num_tasks)
    return 2 * forward, 2 * behind


def declare_step(model: D2NNConfig, data: DataConfig, batch_size: int) -> Step:
    """Declare what a training step of the optical network computes (layers and other work); its costs are computed
    from this. Each Fourier transform reads and writes its padded field once."""
    shape, cells, window = require_patterns(model, data), model.grid**2, model.padding * model.grid
    phases = (D2NNPhase.PROPAGATION_FORWARD, D2NNPhase.PROPAGATION_BACKWARD)
    beside: dict[str, PhaseCosts] = {
        phase: PhaseCosts(
            elementwise_flop=number * batch_size * fft_flop(window),
            bytes=2 * number * batch_size * window**2 * _COMPLEX_BYTES,
        )
        for phase, number in zip(phases, num_transforms(model, shape.num_tasks), strict=True)
    }
    detectors = Linear(
        (D2NNPhase.DETECTION_FORWARD, D2NNPhase.DETECTION_BACKWARD),
        "detectors",
        batch_size * shape.num_tasks,
        cells,
        shape.num_classes,
        has_bias=False,
        is_trained=False,
    )
    return Step(
        layers=(detectors,),
        num_other_parameters=num_propagations(model, shape.num_tasks)[1] * cells,
        beside=beside,
    )


def estimate_memory(
    model: D2NNConfig,
    data: DataConfig,
    train: TrainConfig,
    *,
    eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:
    """Estimate the peak memory of training the optical network by the reference implementation: fp32, one process."""
    shape, cells, window = require_patterns(model, data), model.grid**2, model.padding * model.grid
    parameters = declare_step(model, data, 1).num_dense_parameters
    propagations, _ = num_propagations(model, shape.num_tasks)
    field_bytes, pixel_bytes = cells * _COMPLEX_BYTES, data.num_dense * FLOAT_BYTES
    padded_bytes = _PADDED_FIELDS * window**2 * _COMPLEX_BYTES
    kept = propagations * _SAVED_FIELDS * field_bytes + pixel_bytes
    scores = shape.num_tasks * (shape.num_classes + 1) * _COMPLEX_BYTES
    return MemoryEstimate(
        weights_bytes=parameters * FLOAT_BYTES,
        optimizer_bytes=2 * parameters * FLOAT_BYTES,
        gradients_bytes=parameters * FLOAT_BYTES,
        activations_bytes=train.global_batch_size * kept + min(SLICE, train.global_batch_size) * padded_bytes,
        evaluation_bytes=min(train.eval_batch_size, eval_samples)
        * (_SAVED_FIELDS * field_bytes + padded_bytes + pixel_bytes)
        + eval_samples * scores,
    )
