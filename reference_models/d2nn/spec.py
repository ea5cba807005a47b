"""ModelSpec of the optical network: all that the harness knows of this model. Torch-free."""

from reference_models.d2nn.config import D2NNConfig, parse_model, require_patterns
from reference_models.d2nn.costs import declare_step, estimate_memory
from reference_models.d2nn.phases import LABELS
from reference_models.data.store.dataset import ImageBatch
from reference_models.spec import Costs, Implementation, ModelSpec, load_class

SPEC = ModelSpec(
    section=D2NNConfig,
    parse=parse_model,
    refuse=require_patterns,
    why_no_bags="has no embedding tables",
    batch=ImageBatch,
    metric="accuracy",
    optimizers=("Adam",),
    implementations={
        "reference": Implementation(load=load_class("reference_models.d2nn.reference:ReferenceWorkload")),
        "optimized": Implementation(load=load_class("reference_models.d2nn.optimized:OptimizedWorkload")),
    },
    costs=Costs(step=declare_step, own_memory=estimate_memory),
    phases=LABELS,
    baselines={
        "linear": load_class("reference_models.d2nn.baselines:LinearWorkload"),
        "untrained_shared": load_class("reference_models.d2nn.baselines:UntrainedSharedWorkload"),
    },
)
