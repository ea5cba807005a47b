"""What measurements of serving show of their own."""

from reports.kinds.details import Details
from reports.kinds.serving.blocks import serving_blocks
from reports.kinds.serving.lines import serve_facts
from reports.kinds.serving.terms import TERMS
from reports.kinds.serving.words import served_answer

DETAILS = Details(
    lines=serve_facts,
    blocks=serving_blocks,
    hidden=("queries_per_s", "times_alone", "auc"),
    answer=served_answer,
    terms=TERMS,
)
