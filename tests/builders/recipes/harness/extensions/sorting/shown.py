"""What measurements of sorting show of their own."""

from reports.kinds.details import Details

DETAILS = Details(terms={"Sorting rate": "Numbers that are sorted in a second."})
