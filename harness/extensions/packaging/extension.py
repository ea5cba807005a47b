"""Register the packaging extension with the core: one command."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "package": Verb(
            "harness.extensions.packaging.command:package",
            "Build a submission tree from results, and judge it.",
            "Judge and show",
        ),
    },
)
