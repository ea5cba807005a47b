"""Register the placement extension: four commands, and an experiment that measures placement plans. The extension
reads traces made by the extension `memory`."""

from rules.extensions import Extension, Verb

_DEVICES = (
    "--devices",
    "--devices-per-host",
    "--device-type",
    "--device-memory",
    "--device-bandwidth",
    "--intra-host-bandwidth",
    "--inter-host-bandwidth",
)
EXTENSION = Extension(
    verbs={
        "place": Verb(
            "harness.extensions.placement.place:place",
            "Search devices for embedding tables, where this machine need not have them.",
            "Plan and model",
        ),
        "place-tasks": Verb(
            "harness.extensions.placement.place_tasks:place_tasks",
            "Compare searches of plans on many tasks, which are of no benchmark.",
            "Plan and model",
        ),
        "measure-costs": Verb(
            "harness.extensions.placement.measure_costs:measure_costs",
            "Measure embedding tables' times here, for 'place' on any machine.",
            "Plan and model",
        ),
        "plan-devices": Verb(
            "harness.extensions.placement.plan_devices:plan_devices",
            "Show TorchRec's plan of tables on devices that need not exist.",
            "Plan and model",
        ),
    },
    relations={"ranking": "harness.extensions.placement.relation:RANKING"},
    records={"costs": "harness.extensions.placement.records:CostsRecord"},
    shown={"place": "harness.extensions.placement.shown:DETAILS"},
    renamed={
        **{f"plan {option}": (f"plan-devices {option}",) for option in _DEVICES},
        "place --tasks": ("place-tasks -n TASKS",),
        "place --task-file": ("place-tasks --read TASKS TABLES",),
        "place --tables": ("place-tasks --read TASKS TABLES",),
    },
    needs=("memory",),
)
