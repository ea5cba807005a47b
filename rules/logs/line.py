"""One record of a log, as everything that reads or judges logs has it."""

from collections.abc import Mapping
from typing import Any

import msgspec

TOKEN = b":::MLLOG"
"""What announces a record."""
MAX_RECORD_BYTES = 1 << 20


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One `:::MLLOG` record. `line_num` counts the file's lines from 1.

    `problems` says what the record lacks although it could be read: no metadata, no value, no event type.
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
    """The process that a launcher says the line is from (`0: `, `[3] `); None where it does not say."""
    is_glued: bool = False
    """Whether another record precedes it in the same line."""
    lacks_blank: bool = False
    """Whether something else than a blank is behind its token, so that no official tool sees it."""

    @property
    def time_s(self) -> float:
        return self.time_ms / 1e3
