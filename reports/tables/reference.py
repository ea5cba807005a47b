"""The tables of columns in reports/README.md: python -m reports.tables.reference writes them anew."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from reports.tables.columns import Column, columns_of
from reports.tables.frames import EVALUATION_COLUMNS, FINDING_COLUMNS, RUN_COLUMNS, SET_COLUMNS
from reports.tables.records import MeasurementRow, ServedRow

FRAMES: Mapping[str, tuple[str, Sequence[Column]]] = {
    "sets": ("One row per result set, with its verdict, its score and the means of its runs.", SET_COLUMNS),
    "runs": ("One row per run, and per attempt that left no result (`counted` is no).", RUN_COLUMNS),
    "evaluations": ("One row per evaluation of a run.", EVALUATION_COLUMNS),
    "findings": ("One row per broken rule at one place, worst first in each set.", FINDING_COLUMNS),
    "measurements": (
        "One row per process that measured something else than a run to the target. `value` in `unit` is what its "
        "kind compares.",
        columns_of(MeasurementRow),
    ),
    "served": (
        "One row per process that served. Rates and latencies are measured, `modelled_per_s` is simulated, "
        "`model_bytes` computed.",
        columns_of(ServedRow),
    ),
}
README = Path(__file__).parents[1] / "README.md"
_HEADING = "\n## Columns\n"


def render_reference(page: str) -> str:
    """Write what follows the heading Columns of a page anew; what comes before it stays."""
    return "\n".join(
        [page.partition(_HEADING)[0] + _HEADING, *(_table(name, *frame) for name, frame in FRAMES.items())]
    )


def _table(name: str, purpose: str, columns: Sequence[Column]) -> str:
    head = ("| column | dtype | unit | meaning |", "|---|---|---|---|")
    rows = (f"| {column.name} | {column.dtype} | {column.unit} | {_meaning(column)} |" for column in columns)
    return "\n".join([f"### `{name}`", "", purpose, "", *head, *rows, ""])


def _meaning(column: Column) -> str:
    return column.meaning + (f" ({', '.join(column.values)})" if column.values else "")


if __name__ == "__main__":
    README.write_text(render_reference(README.read_text(encoding="utf-8")), encoding="utf-8")
