"""Show measurements of serving, and studies of a simulated queue, as parts of pages and summaries."""

from collections.abc import Sequence

from harness.extensions.serving.shown.blocks import serving_blocks
from harness.extensions.serving.shown.lines import serve_facts
from harness.extensions.serving.shown.queue import draw_latencies
from harness.extensions.serving.shown.terms import TERMS
from harness.extensions.serving.shown.words import served_answer
from reports.kinds.details import Details
from reports.results.result import Result


def follow(result: Result) -> tuple[Sequence[str], str] | None:
    """Return the options of a second measurement that shows the effect of merging queries into batches, and words on
    it. None if the measurement already sets serve.batch, or if its run set has no record."""
    if result.asked is None or "serve.batch" in result.asked.config:
        return None
    return (
        "--set",
        "serve.batch=auto",
    ), "also measures the configuration with batching (several queries in one call)"


SERVE = Details(
    lines=serve_facts,
    blocks=serving_blocks,
    hidden=("modelled_per_s", "times_alone", "auc"),
    answer=served_answer,
    terms=TERMS,
    following=follow,
)
QUEUE = Details(answer=served_answer, terms=TERMS, chart=draw_latencies)
