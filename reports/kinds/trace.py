"""What studies of a trace show of their own: the chart of studies of memories."""

from reports.kinds.tiers import DETAILS as DETAILS
