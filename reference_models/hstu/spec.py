"""ModelSpec of HSTU: all that the harness knows of this model. Torch-free."""

from reference_models.hstu.config import HSTUConfig, parse_model, sequence_shape
from reference_models.hstu.costs import declare_step, estimate_memory
from reference_models.hstu.phases import LABELS
from reference_models.spec import Costs, Implementation, ModelSpec, load_class

_REFERENCE = "reference_models.hstu.reference:ReferenceWorkload"
SPEC = ModelSpec(
    section=HSTUConfig,
    parse=parse_model,
    refuse=sequence_shape,
    why_no_bags="looks up the events of a sequence one by one, and pools no bags",
    optimizers=("Adam",),
    notes=(
        "The model departs from MLPerf's reference in actions, content, contextual tokens and attention's divisor: "
        "see reference_models/hstu/README.md, section 4.",
    ),
    scaling_axis="model.num_layers=1,2,4,16",
    implementations={
        "reference": Implementation(load=load_class(_REFERENCE)),
        "optimized": Implementation(load=load_class("reference_models.hstu.optimized:OptimizedWorkload")),
    },
    costs=Costs(
        step=declare_step,
        own_memory=estimate_memory,
        min_samples=lambda model, data: sequence_shape(model, data).num_candidates,
    ),
    phases=LABELS,
    baselines={
        "no_history": load_class(_REFERENCE, model_class="reference_models.hstu.baselines:NoHistory"),
        "mean_history": load_class(_REFERENCE, model_class="reference_models.hstu.baselines:MeanHistory"),
    },
)
