"""What studies of a simulated queue show of their own: their words are those of serving."""

from reports.kinds.details import Details
from reports.kinds.serving.terms import TERMS
from reports.kinds.serving.words import served_answer

DETAILS = Details(answer=served_answer, terms=TERMS)
