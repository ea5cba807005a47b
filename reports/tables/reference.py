"""Renders reports/tables/README.md, the reference page of all columns of result tables, which `dlrmbench schema
columns_page` prints."""

from collections.abc import Mapping, Sequence
from inspect import cleandoc

from reports.tables.columns import FrameColumn, columns_of
from reports.tables.frames import EVALUATION_COLUMNS, FINDING_COLUMNS, RUN_COLUMNS, SET_COLUMNS
from reports.tables.records import DETAIL_TABLES, MeasurementRow

FRAMES: Mapping[str, tuple[str, Sequence[FrameColumn]]] = {
    "sets": ("One row per result set, with its verdict, its score and the means of its runs.", SET_COLUMNS),
    "runs": ('One row per run, and per attempt that left no result (`counted` is "no").', RUN_COLUMNS),
    "evaluations": ("One row per evaluation of a run.", EVALUATION_COLUMNS),
    "findings": ("One row per broken rule at one place, worst first in each set.", FINDING_COLUMNS),
    "measurements": (
        "One row per process of a measurement other than a run to the target. `value`, in `unit`, is the quantity "
        "that the kind of measurement compares.",
        columns_of(MeasurementRow),
    ),
    **{name: (cleandoc(table.row.__doc__ or ""), columns_of(table.row)) for name, table in DETAIL_TABLES.items()},
}
_HEAD = """# The columns of frames and files

Made by `dlrmbench schema columns_page > reports/tables/README.md`.
"""


def render_page() -> str:
    """Render as Markdown the reference page that describes all columns of the tables of results."""
    return "\n".join([_HEAD, *(_table(name, *frame) for name, frame in FRAMES.items())])


def _table(name: str, purpose: str, columns: Sequence[FrameColumn]) -> str:
    head = ("| column | dtype | unit | meaning |", "|---|---|---|---|")
    rows = (f"| {column.name} | {column.dtype} | {column.unit} | {_meaning(column)} |" for column in columns)
    return "\n".join([f"## `{name}`", "", purpose, "", *head, *rows, ""])


def _meaning(column: FrameColumn) -> str:
    return column.meaning + (f" ({', '.join(column.values)})" if column.values else "")
