"""Register the codesign extension: the command `codesign`, and the chart and glossary of its study."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "codesign": Verb(
            "harness.extensions.codesign.command:codesign",
            "Search a modelled accelerator, and a benchmark's tilings on it.",
            "Plan and model",
        ),
    },
    shown={"codesign": "harness.extensions.codesign.shown:DETAILS"},
    renamed={f"tune {option}": (f"codesign {option}",) for option in ("--space", "--mode", "--pareto")},
)
