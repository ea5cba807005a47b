"""What the core is told of sorting: verbs, a kind of measurement with its record, a relation, and a section."""

from rules.extensions import Extension, Places, Verb

PLACE = "harness.extensions.sorting"
EXTENSION = Extension(
    verbs={
        "sorting-limit": Verb(f"{PLACE}.command:limit", "Say what sorting costs at least.", "Look"),
        "ends": Verb(f"{PLACE}.command:ends", "Run a sweep of the first and last values alone.", "Run"),
    },
    kinds={"sorting": Places(record=f"{PLACE}.records:SortingRecord", job=f"{PLACE}.job")},
    relations={"ends": f"{PLACE}.relation:ENDS"},
    sections={"sorting": f"{PLACE}.section:SORTING"},
    shown={"sorting": f"{PLACE}.shown:DETAILS"},
)
