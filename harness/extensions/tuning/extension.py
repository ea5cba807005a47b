"""Register the tuning extension: the command `tune` with its API function, kind of experiment, stop rule and page."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "tune": Verb(
            "harness.extensions.tuning.command:tune",
            "Search for settings under constraints; confirm the best in pairs.",
            "Run",
            is_everyday=True,
        ),
    },
    relations={"search": "harness.extensions.tuning.relation:SEARCH"},
    stop_rules={"search": "harness.extensions.tuning.rule:SearchRule"},
    functions={"tune": "harness.extensions.tuning.api:tune"},
    shown={"tune": "harness.extensions.tuning.shown:DETAILS"},
)
