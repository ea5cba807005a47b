"""One record of a log, shared by everything that reads or judges logs."""

from collections.abc import Mapping
from typing import Any

import msgspec

TOKEN = b":::MLLOG"
"""Token that announces a record."""
MAX_RECORD_BYTES = 1 << 20


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One `:::MLLOG` record. `line_num` counts the file's lines from 1.

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
    """Rank that a launcher's prefix gives (`0: `, `[3] `); None where the line has no such prefix."""
    is_glued: bool = False
    """Whether another record precedes this one in the same line."""
    lacks_blank: bool = False
    """Whether the token is followed by something other than a blank, so that no official tool sees the record."""

    @property
    def time_s(self) -> float:
        return self.time_ms / 1e3
