"""Register the suites extension with the core of the harness: the command `suite`, the kind of experiment that a
suite is, and how the study of a suite is shown on a page."""

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
