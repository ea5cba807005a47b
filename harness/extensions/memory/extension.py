"""Register the memory extension: the commands `trace` and `tiers`, the manifest of a trace of embedding lookups
(JSON), and the charts of both commands' studies."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "trace": Verb(
            "harness.extensions.memory.command:trace",
            "Record which embedding rows are looked up, and simulate caches of them.",
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
