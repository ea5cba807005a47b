"""Write the events of an experiment to the file of the option --log-to, one line of JSON per event.

Only the process that starts runs writes to the file. Worker processes send it their events, as they do for the
progress display, so they never wait for the file.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.foundation.errors import HarnessError
from rules.records.kept.event import EventRecord
from rules.records.measure import Measurement
from rules.records.run import RunRecord


class _Stream:
    """File to which events are appended; abandoned with a warning once it cannot be written.

    Writing never blocks: a pipe whose reader is too slow is abandoned as well.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._descriptor = path, -1
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise HarnessError(f"--log-to {path}: {error.strerror}. Give a file that can be written.") from None

    def write(self, line: bytes) -> None:
        if self._descriptor < 0:
            return
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            sys.stderr.write(f"warning: --log-to {self._path}: {error.strerror}; no more is written to it\n")
            self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class EventLog:
    """Writer of the events of an experiment, or of one repetition, to the file of --log-to; writes nothing where that
    is not given."""

    stream: _Stream | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    """Fields that each event has to identify where it comes from, such as the experiment and the repetition."""

    def of(self, **about: Any) -> "EventLog":
        """Return a log that writes to the same file, and adds further identifying fields to each event."""
        return replace(self, about={**self.about, **about})

    def write(self, event: str, values: Mapping[str, Any] | None = None) -> None:
        """Write one event to the log with the current time."""
        if self.stream is not None:
            record = EventRecord(
                event=event, time_ms=time.time_ns() // 10**6, values=dict(values or {}), **self.about
            )
            self.stream.write(msgspec.json.encode(record, enc_hook=str) + b"\n")

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Append an event to the log; the event comes from a worker process."""
        self.write(event["event"], {name: value for name, value in event.items() if name != "event"})

    def close(self) -> None:
        """Close the log's file; do nothing where --log-to names no file."""
        if self.stream is not None:
            self.stream.close()


SILENT = EventLog()


def open_event_log(path: Path | None, folder: Path) -> EventLog:
    """Return the event log of the experiment in `folder`. Raises HarnessError (exit 2) where its file cannot be
    written."""
    return SILENT if path is None else EventLog(stream=_Stream(path), about={"experiment": folder.absolute().name})


def quantity_of(record: object) -> dict[str, Any]:
    """Return what one repetition measured, from its record, as a dict from the name of the quantity, such as samples
    per second, to its value. For a run the dict also has the status and its reason."""
    if not isinstance(record, Measurement):
        return {}
    status = {"status": record.status, "reason": record.reason} if isinstance(record, RunRecord) else {}
    name = record.measure.value
    repetition = next(iter(record.repetitions()), None)
    return status if repetition is None else {**status, name: getattr(repetition, name)}
