"""Parts of pages and summaries for measurements of serving and studies of a simulated queue."""

from harness.extensions.serving.shown.blocks import serving_blocks
from harness.extensions.serving.shown.lines import serve_facts
from harness.extensions.serving.shown.queue import draw_latencies
from harness.extensions.serving.shown.terms import TERMS
from harness.extensions.serving.shown.words import served_answer
from reports.kinds.details import Details

SERVE = Details(
    lines=serve_facts,
    blocks=serving_blocks,
    hidden=("modelled_per_s", "times_alone", "auc"),
    answer=served_answer,
    terms=TERMS,
)
QUEUE = Details(answer=served_answer, terms=TERMS, chart=draw_latencies)
