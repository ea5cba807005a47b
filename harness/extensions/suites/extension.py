"""What the core is told of suites: one verb, one relation, and what its study shows."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "suite": Verb(
            "harness.extensions.suites.command:suite",
            "Measure several benchmarks in two settings; verdicts, and one mean.",
            "Run",
            is_everyday=True,
        ),
    },
    relations={"suite": "harness.extensions.suites.relation:SUITE"},
    shown={"suite": "harness.extensions.suites.shown:DETAILS"},
)
