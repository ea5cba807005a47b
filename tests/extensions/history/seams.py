"""Cases that history adds to tests of the core."""

from typing import Any

READING = {"history": "history {place}"}
WAYS = {
    "history": (
        "",
        "--format json --fail-on regression",
        "--format csv",
        "--format md --fail-on regression",
        "--format html -o {out}.html",
    ),
}
WORDS = {
    "history": (("run dlrm_tiny --threads 1 -n 1 -q --seed 1",), "history results --format html"),
}
SHOWN_PAGES = {"history": ("dlrm_tiny", "no change can be shown yet")}
MEASURING_NOTHING = {"history": "it reads what was measured"}
PAGES = {"history.html": "history results --format html"}
HOSTILE_PAGES = {"history": "history_builder:write_hostile_history"}


def _past_sets() -> dict[str, Any]:
    return {"before": WORDS["history"][0], "inputs": "results/*/extra/**/*.*", "words": ("history results",)}


FAMILIES = {"past sets": _past_sets}
