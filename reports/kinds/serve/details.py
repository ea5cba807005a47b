"""What measurements of serving show of their own."""

from reports.kinds.details import Details
from reports.kinds.serve.blocks import serving_blocks
from reports.kinds.serve.lines import serve_facts
from reports.kinds.serve.terms import TERMS
from reports.kinds.serve.words import served_answer

DETAILS = Details(
    lines=serve_facts, blocks=serving_blocks, hidden=("times_alone", "auc"), answer=served_answer, terms=TERMS
)
