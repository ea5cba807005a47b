"""Define the JSON that `history --format json` prints."""

from typing import Annotated, Literal

from reports.comparison.records import Change, PastSet
from rules.records.codec import Count
from rules.records.rows import Row, meaning


class ChangeRow(Row, kw_only=True, frozen=True):
    """A change between two run sets of a series over time; `others` are the settings, besides the code's version, in
    which the two run sets differ."""

    line: Annotated[str, meaning("name of the series: quantity, benchmark and configuration")]
    unit: str
    is_ratio: bool
    last_before: Annotated[str, meaning("folder of the last set before the change")]
    first_after: str
    commit_before: str
    commit_after: str
    code_before: str
    code_after: str
    step: Annotated[float, meaning("mean after over mean before; where not is_ratio, after less before, in the unit")]
    low: Annotated[float, meaning("95 % interval of the step, the place of the change taken as known")]
    high: float
    is_worse: bool
    num_after: Annotated[Count, meaning("sets of the series after the change")]
    in_turns: Annotated[str, meaning("command that measures both commits alternately")]
    others: tuple[Change, ...]


class HistoryDocument(Row, kw_only=True, frozen=True):
    """Run sets below a directory, newest first, and changes of their quantities over time: the document that `history
    --format json` prints."""

    schema_version: Literal[1] = 1
    num_found: Count
    run_sets: tuple[PastSet, ...]
    changes: Annotated[tuple[ChangeRow, ...] | None, meaning("null where changes were not looked for")] = None
    not_judged: Annotated[tuple[str, ...] | None, meaning("series that cannot be judged, and why")] = None
