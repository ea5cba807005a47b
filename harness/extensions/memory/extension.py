"""What the core is told of memory: two verbs, the record of a trace, and the chart of its studies."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "trace": Verb(
            "harness.extensions.memory.command:trace",
            "Keep which embedding rows are looked up; what caches miss of it.",
            "Plan and model",
        ),
        "tiers": Verb(
            "harness.extensions.memory.command:tiers",
            "Simulate embedding rows in memories slower than DRAM.",
            "Plan and model",
        ),
    },
    records={"trace": "harness.extensions.memory.records:TraceManifest"},
    shown={
        "trace": "harness.extensions.memory.shown:DETAILS",
        "tiers": "harness.extensions.memory.shown:DETAILS",
    },
)
