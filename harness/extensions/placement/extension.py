"""What the core is told of placement: three verbs, of which one reads traces of memory, and the relation of plans."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "place": Verb(
            "harness.extensions.placement.place:place",
            "Search where embedding tables should be, on devices not here.",
            "Plan and model",
        ),
        "place-tasks": Verb(
            "harness.extensions.placement.place_tasks:place_tasks",
            "Compare such searches on many tasks, which are of no benchmark.",
            "Plan and model",
        ),
        "plan-devices": Verb(
            "harness.extensions.placement.plan_devices:plan_devices",
            "Say where TorchRec would lay tables on devices not here.",
            "Plan and model",
        ),
    },
    relations={"ranking": "harness.extensions.placement.relation:RANKING"},
    shown={"place": "harness.extensions.placement.shown:DETAILS"},
    needs=("memory",),
)
