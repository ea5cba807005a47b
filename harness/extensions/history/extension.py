"""What the core is told of history: one verb, and what it prints as JSON."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "history": Verb("harness.extensions.history.command:history", "List past run sets of a directory.", "Look"),
    },
    documents={"history": "harness.extensions.history.documents:HistoryDocument"},
)
