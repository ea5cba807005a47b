"""Costs of a Wukong, computed from its configuration without torch: see `reference_models.costs`."""

from reference_models.config.sections import DataConfig
from reference_models.costs import (
    FLOAT_BYTES,
    Linear,
    PhaseCosts,
    Product,
    Step,
    make_click_lookups,
    mlp,
)
from reference_models.dlrm.phases import DLRMPhase
from reference_models.wukong.config import WukongConfig


def declare_step(model: WukongConfig, data: DataConfig, batch_size: int) -> Step:
    """Return the layers, lookups and other work of a training step of Wukong, from which its costs follow; only the
    bottom MLP's input needs no gradient."""
    bottom, top = _mlps(model, data)
    num_saved, num_widest = sum(bottom[1:]) + sum(top), max(*bottom, *top)
    layers: list[Linear | Product] = [*mlp("bottom_mlp", bottom, batch_size, needs_input_gradient=False)]
    forward, backward = phases = (DLRMPhase.INTERACTION_FORWARD, DLRMPhase.INTERACTION_BACKWARD)
    d, num_out = model.embedding_dim, model.num_fmb + model.num_lcb
    for index, n in enumerate(_inputs(model, data)):
        name = f"layer.{index}"
        maps = {"project": model.rank, "lcb": model.num_lcb, "residual": 0 if n == num_out else num_out}
        layers += [
            Linear(phases, f"{name}.{part}", batch_size * d, n, width, has_bias=False)
            for part, width in maps.items()
            if width
        ]
        layers.append(Product(phases, f"{name}.products", n, d, model.rank, num=batch_size))
        fmb_mlp = (n * model.rank, *model.fmb_mlp, model.num_fmb * d)
        layers += mlp(f"{name}.mlp", fmb_mlp, batch_size, phases=phases)
        # A layer's inputs and their transpose, projections, both norms' inputs, and the MLP's activations.
        num_saved += 2 * n * d + model.rank * d + n * model.rank + sum(fmb_mlp) + num_out * d
        num_widest = max(num_widest, n * d, num_out * d, *fmb_mlp)
    # The vectors are concatenated; then each norm, and the sum before the second norm, reads and writes.
    inputs = _inputs(model, data)
    floats = 2 * ((1 + data.num_sparse) * d + sum(n * model.rank + 2 * num_out * d for n in inputs))
    moved = PhaseCosts(bytes=FLOAT_BYTES * batch_size * floats)
    return Step(
        layers=(*layers, *mlp("top_mlp", top, batch_size)),
        num_other_parameters=sum(2 * n * model.rank + 2 * d for n in inputs),
        beside={forward: moved, backward: moved + moved},
        lookups=make_click_lookups(data, d, batch_size),
        num_saved=num_saved,
        num_widest=num_widest,
    )


def _inputs(model: WukongConfig, data: DataConfig) -> list[int]:
    """Return the number of vectors that enter each layer of Wukong's stack."""
    return [1 + data.num_sparse, *[model.num_fmb + model.num_lcb] * (model.num_layers - 1)]


def _mlps(model: WukongConfig, data: DataConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the widths of the layers of Wukong's bottom and top MLP, each with its input width first."""
    out = (model.num_fmb + model.num_lcb) * model.embedding_dim
    return (data.num_dense, *model.bottom_mlp), (out, *model.top_mlp)
