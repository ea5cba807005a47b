"""Register the packaging extension with the core of the harness: the command `package`."""

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
