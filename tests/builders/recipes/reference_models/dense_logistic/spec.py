"""Logistic regression as the harness knows it. Torch-free."""

from reference_models.dense_logistic.model import LogisticConfig, declare_step, load, parse_model
from reference_models.spec import Costs, Implementation, ModelSpec

SPEC = ModelSpec(
    section=LogisticConfig,
    parse=parse_model,
    implementations={"reference": Implementation(load=load)},
    costs=Costs(step=declare_step),
)
