"""MLPerf log lines: any bytes in, lines with file and number out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One `:::MLLOG` record. `line_num` counts the file's lines from 1."""

    path: str
    line_num: int
    time_ms: float
    event_type: str
    key: str
    value: Any
    metadata: Mapping[str, Any]
    namespace: str = ""

    @property
    def time_s(self) -> float:
        return self.time_ms / 1e3


@dataclass(frozen=True, kw_only=True, slots=True)
class Unparsed:
    """Text that announces a record and is none: the place, the reason and an excerpt."""

    path: str
    line_num: int
    reason: str
    excerpt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLog:
    """All records of one log in file order."""

    path: str
    lines: tuple[LogLine, ...]
    unparsed: tuple[Unparsed, ...] = ()
    sha256: str = ""
    num_bytes: int = 0
    by_key: Mapping[str, tuple[LogLine, ...]] = field(default_factory=dict)

    def all(self, key: str) -> tuple[LogLine, ...]:
        return self.by_key.get(key, ())

    def first(self, key: str) -> LogLine | None:
        lines = self.all(key)
        return lines[0] if lines else None

    def last(self, key: str) -> LogLine | None:
        lines = self.all(key)
        return lines[-1] if lines else None

    def value(self, key: str) -> Any:
        """Value of the first record of `key`, or None."""
        line = self.first(key)
        return None if line is None else line.value
