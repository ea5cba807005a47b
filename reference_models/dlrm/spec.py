"""ModelSpec of DLRM and DLRM-DCNv2: all that the harness knows of these models. Torch-free."""

import shlex
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from reference_models.distributed.limits import refuse_impossible_ranks
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.costs import declare_step, forward_costs, graph_step_bytes
from reference_models.dlrm.phases import LABELS
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.spec import Costs, Implementation, Loader, ModelSpec, load_class
from reference_models.training.workload import Workload, WorkloadSpec

_MLPS = ("bottom_mlp", "top_mlp")
_REQUIREMENTS = Path(__file__).with_name("requirements") / "torchrec-cpu.txt"
_BOTH_MLPS = "mlp"
"""Shorthand key of [model] that sets the hidden widths of bottom and top MLP at once."""
SWITCHES = ("graph", "kernels")
"""Keys of [runtime] that switch off parts of DLRM's optimized implementation."""


def follow(model: Mapping[str, Any], changed: Collection[str]) -> Mapping[str, Any]:
    """Return the section [model] with its shorthand key for the hidden widths of both MLPs written out.

    `changed` are the keys that the user sets. If the embedding dimension is among them, and the bottom MLP is not,
    the bottom MLP's last width becomes the embedding dimension. Raises ConfigError if the shorthand key's value is no
    list, or if the user sets the widths of one of the MLPs together with the shorthand key.
    """
    made = dict(model)
    hidden = made.pop(_BOTH_MLPS, None)
    if hidden is not None:
        if not isinstance(hidden, list):
            raise ConfigError(f"model.{_BOTH_MLPS} is {hidden!r}, expected a list of whole numbers.")
        if clash := [key for key in _MLPS if key in changed]:
            raise ConfigError(f"model.{_BOTH_MLPS} sets both MLPs, so model.{clash[0]} cannot be set beside it.")
        made |= {"bottom_mlp": [*hidden, made.get("embedding_dim")], "top_mlp": [*hidden, 1]}
    elif "embedding_dim" in changed and "bottom_mlp" not in changed and isinstance(made.get("bottom_mlp"), list):
        made["bottom_mlp"] = [*made["bottom_mlp"][:-1], made["embedding_dim"]]
    return made


def initialized_tensors(model: DLRMConfig) -> tuple[str, ...]:
    """Return the names of the weights whose initialisation MLPerf's rounds 1.1 to 2.1 require in a run's log.

    See closed_dlrm.yaml of MLPerf's log checker.
    """
    if model.interaction != "dot":
        return ()
    layers = (("bottom_mlp", len(model.bottom_mlp)), ("top_mlp", len(model.top_mlp)))
    return ("embeddings", *(f"{part}_dense{n}" for part, num in layers for n in range(1, num + 1)))


def load_optimized(**parts: str) -> Loader:
    """Return the loader of the class of DLRM's optimized implementation: CUDAGraphWorkload on a GPU,
    OptimizedWorkload elsewhere. `parts` are further classes for its constructor, named as for `load_class`."""

    def load(spec: WorkloadSpec, world: World) -> Workload:
        on_cuda = spec.runtime.device.startswith("cuda")
        name = "cuda_graph:CUDAGraphWorkload" if on_cuda else "optimized:OptimizedWorkload"
        return load_class(f"reference_models.dlrm.{name}", **parts)(spec, world)

    return load


def _import_with_torchrec(name: str) -> Any:
    """Import a module of DLRM that needs TorchRec. Raises ConfigError, with the install command, if TorchRec is
    missing or cannot be imported."""
    _TORCHREC.require_installed()
    try:
        return import_module(f"reference_models.dlrm.{name}")
    except (ImportError, OSError) as error:
        raise _TORCHREC.explain_missing(error) from error


_TORCHREC = Implementation(
    load=lambda spec, world: _import_with_torchrec("torchrec").TorchRecWorkload(spec, world),
    needs=("torchrec", "fbgemm_gpu"),
    how_to_install=f"Install it beside torch with: pip install --no-deps -r {shlex.quote(str(_REQUIREMENTS))} "
    "(torchrec-gpu.txt, beside it, on a machine with a GPU).",
    reports_phases=False,
    refuse_ranks=lambda train, runtime: refuse_impossible_ranks(train, runtime, runtime.ranks),
    process_bytes=80 << 20,
)
SPEC = ModelSpec(
    section=DLRMConfig,
    parse=parse_model,
    follow=follow,
    width_keys=(*_MLPS, _BOTH_MLPS),
    scaling_axis="model.mlp=8,64,512,2048",
    implementations={
        "reference": Implementation(load=load_class("reference_models.dlrm.reference:ReferenceWorkload")),
        "optimized": Implementation(
            load=load_optimized(), chooses_matmul=True, switches=SWITCHES, gpu_step_bytes=graph_step_bytes
        ),
        "torchrec": _TORCHREC,
    },
    costs=Costs(step=declare_step, forward=forward_costs),
    phases=LABELS,
    baselines={
        "dense_only": load_class("reference_models.dlrm.baselines:DenseOnlyWorkload"),
        "logistic_regression": load_class("reference_models.dlrm.baselines:LogisticRegressionWorkload"),
        "frozen_embeddings": load_class("reference_models.dlrm.baselines:FrozenEmbeddingsWorkload"),
    },
    weights=initialized_tensors,
    serve=lambda spec, weights: import_module("reference_models.dlrm.servable").ServedDLRM(spec, weights),
    plan_devices=lambda *args, **options: _import_with_torchrec("planner").plan_for_devices(*args, **options),
    table_cost=lambda **given: _import_with_torchrec("planner").EstimatedCost(**given),
)
