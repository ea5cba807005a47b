"""What is shown of a published result, on the page and at the terminal."""

from reports.document.blocks import numeric
from rules.records.kept.published import PublishedResult

COLUMNS = (
    ("benchmark", "benchmark"),
    ("round", "round"),
    ("submitter", "submitter"),
    ("system", "system"),
    ("accelerators", lambda row: _accelerators(row)),
    ("division", "division"),
    ("availability", "availability"),
    ("here", "outcome"),
    (numeric("minutes"), "minutes", "{:.3f}".format),
    (numeric("RCP factor"), "rcp_factor", "{:.4f}".format),
    ("logs", lambda row: row.repository),
)


def _accelerators(row: PublishedResult) -> str:
    if row.accelerator is None:
        return "none"
    return f"{row.num_accelerators or '?'} x {row.accelerator}"
