"""Defines the columns of tables of published MLPerf results, for the page and the terminal."""

from reports.document.blocks import Shown, numeric
from rules.records.kept.published import PublishedResult

_SUBMITTER: Shown[PublishedResult] = ("submitter", "submitter")
_MEASURED: tuple[Shown[PublishedResult], ...] = (
    ("round", "round"),
    ("system", "system"),
    ("accelerators", lambda row: _accelerators(row)),
    (numeric("minutes"), "minutes", "{:.3f}".format),
    (numeric("RCP factor"), "rcp_factor", "{:.4f}".format),
    ("availability", "availability"),
    ("rules here", "outcome"),
)
COLUMNS: tuple[Shown[PublishedResult], ...] = (
    ("benchmark", "benchmark"), ("division", "division"), _SUBMITTER, *_MEASURED,
    ("logs", lambda row: row.repository),
)  # fmt: skip
"""Columns of a table of published MLPerf results that covers several benchmarks and divisions."""
ON_PAGE: tuple[Shown[PublishedResult], ...] = (_SUBMITTER, *_MEASURED)
"""Columns of a table of published MLPerf results that is of one benchmark and division."""


def _accelerators(row: PublishedResult) -> str:
    if row.accelerator is None:
        return "none"
    return f"{row.num_accelerators or '?'} x {row.accelerator}"
