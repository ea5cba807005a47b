"""What the core is told of sorting: a verb, and a kind of measurement with its record."""

from rules.extensions import Extension, Places, Verb

PLACE = "harness.extensions.sorting"
EXTENSION = Extension(
    verbs={"sorting-limit": Verb(f"{PLACE}.command:limit", "Say what sorting costs at least.", "Look")},
    kinds={"sorting": Places(record=f"{PLACE}.records:SortingRecord", job=f"{PLACE}.job")},
    shown={"sorting": f"{PLACE}.shown:DETAILS"},
)
