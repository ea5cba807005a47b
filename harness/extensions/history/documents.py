"""What `history --format json` prints, member by member."""

from typing import Annotated, Literal

from reports.comparison.records import Change, PastSet
from rules.records.codec import Count
from rules.records.rows import Row, meaning


class ChangeRow(Row, kw_only=True, frozen=True):
    """A change between two sets of a line; `others` is what else differs between them."""

    line: Annotated[str, meaning("quantity, benchmark and configuration")]
    unit: str
    is_ratio: bool
    last_before: Annotated[str, meaning("folder of the last set before it")]
    first_after: str
    commit_before: str
    commit_after: str
    code_before: str
    code_after: str
    step: Annotated[float, meaning("mean after over mean before; where not is_ratio, less it, in the unit")]
    low: Annotated[float, meaning("95 % interval of the step, its place taken as known")]
    high: float
    is_worse: bool
    num_after: Annotated[Count, meaning("sets of the line after it")]
    in_turns: Annotated[str, meaning("command that measures both commits in turns")]
    others: tuple[Change, ...]


class HistoryDocument(Row, kw_only=True, frozen=True):
    """What `history --format json` prints: the run sets below a directory, newest first."""

    schema_version: Literal[2] = 2
    num_found: Count
    run_sets: tuple[PastSet, ...]
    changes: Annotated[tuple[ChangeRow, ...] | None, meaning("null where nobody looked for any")] = None
    not_judged: Annotated[tuple[str, ...] | None, meaning("lines that cannot be judged, and why")] = None
