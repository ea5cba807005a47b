"""Define one record of an MLPerf log, as everything that reads or judges logs uses it."""

from collections.abc import Mapping
from typing import Any

import msgspec

TOKEN = b":::MLLOG"
"""Token at the beginning of a record in an MLPerf log."""
MAX_RECORD_BYTES = 1 << 20


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One `:::MLLOG` record of an MLPerf log. `line_num` counts the file's lines from 1.

    `problems` lists defects of a readable record: missing metadata, value or event type.
    """

    path: str
    line_num: int
    time_ms: float
    event_type: str
    key: str
    value: Any
    metadata: Mapping[str, Any]
    namespace: str = ""
    problems: tuple[str, ...] = ()
    rank: int | None = None
    """Rank that wrote the record, by the launcher's prefix of the line (`0: `, `[3] `); None where the line has no
    such prefix."""
    is_glued: bool = False
    """Whether another record precedes this record in the same line of the log."""
    lacks_blank: bool = False
    """Whether the record's token is followed by something other than a blank, so that no official tool sees the
    record."""

    @property
    def time_s(self) -> float:
        return self.time_ms / 1e3
