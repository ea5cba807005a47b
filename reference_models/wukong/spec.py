"""Wukong as the harness knows it. Torch-free."""

from reference_models.dlrm.phases import LABELS
from reference_models.process.world import World
from reference_models.spec import Costs, Implementation, ModelSpec, load_class
from reference_models.training.workload import Workload, WorkloadSpec
from reference_models.wukong.config import WukongConfig, follow, parse_model
from reference_models.wukong.costs import declare_step


def _load_optimized(spec: WorkloadSpec, world: World) -> Workload:
    name = "CUDAGraphWukongWorkload" if spec.runtime.device.startswith("cuda") else "OptimizedWukongWorkload"
    return load_class(f"reference_models.wukong.optimized:{name}")(spec, world)


SPEC = ModelSpec(
    section=WukongConfig,
    parse=parse_model,
    follow=follow,
    width_keys=("bottom_mlp", "fmb_mlp", "top_mlp"),
    scaling_axis="model.width=2,4,8,16",
    implementations={
        "reference": Implementation(load=load_class("reference_models.wukong.reference:WukongWorkload")),
        "optimized": Implementation(load=_load_optimized, chooses_matmul=True),
    },
    costs=Costs(step=declare_step),
    phases=LABELS,
    baselines={
        "dense_only": load_class("reference_models.dlrm.baselines:DenseOnlyWorkload"),
        "logistic_regression": load_class("reference_models.dlrm.baselines:LogisticRegressionWorkload"),
        "frozen_embeddings": load_class("reference_models.wukong.reference:FrozenWukongWorkload"),
    },
)
