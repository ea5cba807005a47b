"""Register the system_model extension with the core of the harness: the command `measure-system`, which measures a
system's rates (FLOP/s, bytes/s …), and `plan-system`, which models training steps by such rates."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "plan-system": Verb(
            "harness.extensions.system_model.plan_system:plan_system",
            "Model a training step, and a run, from systems' rates.",
            "Plan and model",
        ),
        "measure-system": Verb(
            "harness.extensions.system_model.measure_system:measure_system",
            "Measure this system's rates, for 'plan-system' on any machine.",
            "Plan and model",
        ),
    },
    renamed={
        "plan --system": ("plan-system --system FILE",),
        "plan --price-per-hour": ("plan-system --price-per-hour PRICE",),
        "system --measure": ("measure-system",),
    },
)
