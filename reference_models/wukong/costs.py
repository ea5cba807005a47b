"""What a Wukong holds and does, from its configuration alone (no torch): see `reference_models.costs`."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    FLOAT_BYTES,
    Matmul,
    MemoryEstimate,
    ModelCosts,
    PhaseCosts,
    estimate_click_memory,
    linear_matmuls,
    loop_costs,
    mlp_matmuls,
    table_sizes,
)
from reference_models.dlrm.costs import as_entered, embedding_costs
from reference_models.dlrm.phases import Phase
from reference_models.wukong.config import WukongConfig


def model_costs(model: WukongConfig, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
    """Count those of `model` on `data`; `num_embeddings` where only the prepared dataset knows it.

    Raises ConfigError when neither gives the tables' sizes.
    """
    rows = sum(table_sizes(data, num_embeddings))
    matmuls = list_matmuls(model, data, 1)
    return ModelCosts(
        num_embedding_rows=rows,
        num_embedding_parameters=rows * model.embedding_dim,
        num_dense_parameters=_num_dense_parameters(model, data),
        num_lookups_per_sample=data.num_lookups,
        embedding_bytes_per_sample=data.num_lookups * model.embedding_dim * FLOAT_BYTES,
        forward_flop_per_sample=sum(matmul.flop for matmul in matmuls if matmul.phase.endswith("_forward")),
        training_flop_per_sample=sum(matmul.flop for matmul in matmuls),
    )


def list_matmuls(model: WukongConfig, data: DataConfig, batch_size: int) -> tuple[Matmul, ...]:
    """List every matrix product of one training step; the bottom MLP's input alone needs no gradient."""
    bottom, top = _mlps(model, data)
    made = mlp_matmuls("bottom_mlp", bottom, batch_size, needs_input_gradient=False)
    phases = forward, backward = (Phase.INTERACTION_FORWARD, Phase.INTERACTION_BACKWARD)
    d, num_out = model.embedding_dim, model.num_fmb + model.num_lcb
    for index, n in enumerate(_inputs(model, data)):
        maps = {"project": model.rank, "lcb": model.num_lcb, "residual": 0 if n == num_out else num_out}
        for name, width in maps.items():
            if width:
                where = f"layer.{index}.{name}"
                made += linear_matmuls(where, phases, batch_size * d, n, width, needs_input_gradient=True)
        where = f"layer.{index}.products"
        made.append(Matmul(forward, where, n, d, model.rank, num=batch_size))
        made.append(Matmul(backward, where, n, model.rank, d, num=batch_size))
        made.append(Matmul(backward, where, d, n, model.rank, num=batch_size))
        for depth, (fan_in, fan_out) in enumerate(pairwise(_fmb_mlp(model, n))):
            where = f"layer.{index}.mlp.{depth}"
            made += linear_matmuls(where, phases, batch_size, fan_in, fan_out, needs_input_gradient=True)
    return (*made, *mlp_matmuls("top_mlp", top, batch_size, needs_input_gradient=True))


def phase_costs(
    model: WukongConfig, data: DataConfig, *, batch_size: int, opt_name: str, unique_rows: int,
    entered: Collection[str] = tuple(Phase),
) -> dict[str, PhaseCosts]:  # fmt: skip
    """Count those of every phase of a step that has something to do. `unique_rows`: rows that the step's ids name."""
    costs: dict[str, PhaseCosts] = {phase: PhaseCosts() for phase in Phase}
    for matmul in list_matmuls(model, data, batch_size):
        costs[matmul.phase] += PhaseCosts(matmul_flop=matmul.flop, bytes=matmul.bytes)
    # The vectors are brought together; then each norm, and the sum before the second, reads and writes.
    d, num_out = model.embedding_dim, model.num_fmb + model.num_lcb
    normed = sum(n * model.rank + 2 * num_out * d for n in _inputs(model, data))
    floats = 2 * ((1 + data.num_sparse) * d + normed)
    costs[Phase.INTERACTION_FORWARD] += PhaseCosts(bytes=FLOAT_BYTES * batch_size * floats)
    costs[Phase.INTERACTION_BACKWARD] += PhaseCosts(bytes=FLOAT_BYTES * batch_size * 2 * floats)
    costs |= embedding_costs(d, data, batch_size, opt_name, unique_rows)
    costs |= loop_costs(
        data, batch_size=batch_size, opt_name=opt_name, num_dense_parameters=_num_dense_parameters(model, data)
    )
    return as_entered(costs, entered, unique_rows * d)


def estimate_memory(
    model: WukongConfig, data: DataConfig, train: TrainConfig, *, eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:  # fmt: skip
    """Estimate the peak memory of the reference: fp32, sparse gradients, one process."""
    costs = model_costs(model, data, num_embeddings)
    bottom, top = _mlps(model, data)
    d, num_out = model.embedding_dim, model.num_fmb + model.num_lcb
    saved, widest = sum(bottom[1:]) + sum(top), max(*bottom, *top)
    for n in _inputs(model, data):
        mlp = _fmb_mlp(model, n)
        # Its inputs as they are and turned, their projections, both norms' inputs, and what the MLP keeps.
        saved += 2 * n * d + model.rank * d + n * model.rank + sum(mlp) + num_out * d
        widest = max(widest, n * d, num_out * d, *mlp)
    return estimate_click_memory(costs, data, train, eval_samples=eval_samples, saved=saved, widest=widest)


def _inputs(model: WukongConfig, data: DataConfig) -> list[int]:
    """Return how many vectors enter each layer."""
    return [1 + data.num_sparse, *[model.num_fmb + model.num_lcb] * (model.num_layers - 1)]


def _fmb_mlp(model: WukongConfig, num_inputs: int) -> tuple[int, ...]:
    """Return the widths of a factorization machine's MLP with its input."""
    return (num_inputs * model.rank, *model.fmb_mlp, model.num_fmb * model.embedding_dim)


def _mlps(model: WukongConfig, data: DataConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the widths of both outer MLPs with their inputs."""
    out = (model.num_fmb + model.num_lcb) * model.embedding_dim
    return (data.num_dense, *model.bottom_mlp), (out, *model.top_mlp)


def _num_dense_parameters(model: WukongConfig, data: DataConfig) -> int:
    num = sum((n + 1) * m for widths in _mlps(model, data) for n, m in pairwise(widths))
    num_out = model.num_fmb + model.num_lcb
    for inputs in _inputs(model, data):
        num += inputs * (model.rank + model.num_lcb + (0 if inputs == num_out else num_out))
        num += 2 * inputs * model.rank + 2 * model.embedding_dim
        num += sum((n + 1) * m for n, m in pairwise(_fmb_mlp(model, inputs)))
    return num
