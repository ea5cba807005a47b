"""What the core is told of tuning: one verb, the relation of its trials, its stop rule, and what its study shows."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "tune": Verb(
            "harness.extensions.tuning.command:tune",
            "Search settings under constraints; confirm the best in pairs.",
            "Run",
            is_everyday=True,
        ),
    },
    relations={"search": "harness.extensions.tuning.relation:SEARCH"},
    stop_rules={"search": "harness.extensions.tuning.rule:SearchRule"},
    shown={"tune": "harness.extensions.tuning.shown:DETAILS"},
)
