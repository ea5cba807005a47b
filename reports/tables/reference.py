"""reports/README.md, made from the columns: python -m reports.tables.reference > reports/README.md."""

import sys
from collections.abc import Mapping, Sequence

from reports.tables.columns import Column, columns_of
from reports.tables.frames import EVALUATION_COLUMNS, FINDING_COLUMNS, RUN_COLUMNS, SET_COLUMNS
from reports.tables.measurements import MeasurementRow

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
}
_HEAD = """# Results in a notebook, and as files

This page is made from the columns (`python -m reports.tables.reference > reports/README.md`).

## A notebook

`frames.read` takes what `dlrmbench report` takes: run sets and folders of them, anyone's result directories and logs,
measurements, and files of `report --format json`. It imports no torch and writes nothing.

```python
from reports import frames

data = frames.read("results")

converged = data.runs[(data.runs["status"] == "success") & (data.runs["counted"] != "no")]
speed = converged.groupby("configuration")[["time_to_train_s", "throughput_samples_per_s"]]
print(speed.agg(["count", "mean", "std"]))

last = data.evaluations.groupby(["configuration", "run"])["quality"].last()
print(last.unstack("configuration"))

print(data.sets[["configuration", "outcome", "num_errors", "score_s", "low_s", "high_s"]])
print(data.findings.groupby(["configuration", "severity", "code"], observed=True).size())
print(data.measurements.groupby(["configuration", "quantity", "unit"])["value"].describe())

data.runs.to_parquet("runs.parquet")
for problem in data.problems:
    print("not used:", problem)
```

Labels in `configuration` tell the sets apart and join `sets`, `runs`, `evaluations` and `findings`; `configuration`,
`run` and `path` tell runs apart. Units are in the names of columns. Missing is missing, never 0: `pd.NA` in Int64 and
string, NaN in float64 and category, NaT in a moment.

## Files

| `report --format` | holds |
|---|---|
| csv | `runs`; text that a spreadsheet would take for a formula gets an apostrophe first |
| parquet | `sets` as configurations.parquet, `runs` and `evaluations`, one file each |
| json | the same as one document: configurations, each with its runs, each with one list per quantity evaluated |

All numbers are there at full precision. Names and meanings stay, and new columns go to the end. `python -m
reports.schemas NAME` prints the JSON Schema of what `report`, `compare` (comparison), `diff` (difference) and
`history` write with `--format json`.

## Columns
"""


def render_reference() -> str:
    """The page."""
    return "\n".join([_HEAD, *(_table(name, *frame) for name, frame in FRAMES.items())])


def _table(name: str, purpose: str, columns: Sequence[Column]) -> str:
    head = ("| column | dtype | unit | meaning |", "|---|---|---|---|")
    rows = (f"| {one.name} | {one.dtype} | {one.unit} | {_meaning(one)} |" for one in columns)
    return "\n".join([f"### `{name}`", "", purpose, "", *head, *rows, ""])


def _meaning(column: Column) -> str:
    return column.meaning + (f" ({', '.join(column.values)})" if column.values else "")


if __name__ == "__main__":
    sys.stdout.write(render_reference())
