"""ModelSpec of Wukong: all that the harness knows of this model. Torch-free."""

from reference_models.dlrm.phases import LABELS
from reference_models.dlrm.spec import SWITCHES, load_optimized
from reference_models.spec import Costs, Implementation, ModelSpec, load_class
from reference_models.wukong.config import WukongConfig, follow, parse_model
from reference_models.wukong.costs import declare_step

_MODEL = "reference_models.wukong.model:Wukong"
_FUSED_MODEL = "reference_models.wukong.fused_stack:FusedWukong"
SPEC = ModelSpec(
    section=WukongConfig,
    parse=parse_model,
    follow=follow,
    width_keys=("bottom_mlp", "fmb_mlp", "top_mlp"),
    scaling_axis="model.width=2,4,8,16",
    implementations={
        "reference": Implementation(
            load=load_class("reference_models.dlrm.reference:ReferenceWorkload", model_class=_MODEL)
        ),
        "optimized": Implementation(
            load=load_optimized(model_class=_FUSED_MODEL), chooses_matmul=True, switches=SWITCHES, serves=False
        ),
    },
    costs=Costs(step=declare_step),
    phases=LABELS,
    baselines={
        "dense_only": load_class("reference_models.dlrm.baselines:DenseOnlyWorkload"),
        "logistic_regression": load_class("reference_models.dlrm.baselines:LogisticRegressionWorkload"),
        "frozen_embeddings": load_class(
            "reference_models.dlrm.baselines:FrozenEmbeddingsWorkload", model_class=_MODEL
        ),
    },
)
