"""What the core is told of placement: one verb, which reads the traces of memory, and the relation of plans."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "place": Verb(
            "harness.extensions.placement.command:place",
            "Search where embedding tables should be, on devices not here.",
            "Look",
        ),
    },
    relations={"ranking": "harness.extensions.placement.relation:RANKING"},
    needs=("memory",),
)
