"""Register the suites extension with the core of the harness: one command, one kind of experiment, and the details of
its study."""

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
