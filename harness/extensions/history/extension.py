"""Register the history extension with the core of the harness: the command `history`, and the document that it prints
as JSON."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "history": Verb(
            "harness.extensions.history.command:history",
            "List past results of a folder, and say when speed changed.",
            "Judge and show",
            is_everyday=True,
        ),
    },
    documents={"history": "harness.extensions.history.documents:HistoryDocument"},
)
