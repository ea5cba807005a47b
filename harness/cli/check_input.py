"""What `check` reads and tells while it judges: a log from standard input, and how far it is."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from rules.checks.rule import Finding, Outcome
from rules.checks.verdict import Verdict
from rules.logs.text import printable
from rules.tree.inventory import MAX_MENTIONED, Skipped

STANDARD_INPUT = Path("-")
_PLAIN_EVERY_S = 5.0
_WIDTH = 30


@contextmanager
def spooled_input(paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """The paths with '-' replaced by a file that holds standard input, as long as the block lasts.

    A file, because a log is read as a stream of any length and the official checkers read files only.
    """
    if STANDARD_INPUT not in paths:
        yield tuple(paths)
        return
    if list(paths).count(STANDARD_INPUT) > 1:
        raise click.UsageError("'-' is standard input and can be read once.")
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("'-' reads a log from standard input; send one, such as with 'cat LOG |'.")
    with tempfile.TemporaryDirectory(prefix="dlrmbench-check-") as folder:
        place = Path(folder) / STANDARD_INPUT.name
        with place.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield tuple(place if path == STANDARD_INPUT else path for path in paths)


def renamed(verdict: Verdict, old: Path, new: Path) -> Verdict:
    """The verdict on a file of another name: every place that says `old` says `new`."""
    one, other = str(old), str(new)

    def in_finding(finding: Finding) -> Finding:
        return replace(finding, path=finding.path.replace(one, other), message=finding.message.replace(one, other))

    def in_outcome(outcome: Outcome) -> Outcome:
        findings = tuple(in_finding(finding) for finding in outcome.findings)
        return replace(outcome, subject=outcome.subject.replace(one, other), findings=findings)

    return replace(
        verdict,
        subject=verdict.subject.replace(one, other),
        findings=tuple(in_finding(finding) for finding in verdict.findings),
        outcomes=tuple(in_outcome(outcome) for outcome in verdict.outcomes),
        official=tuple(replace(each, subject=each.subject.replace(one, other)) for each in verdict.official),
    )


def echo_skipped(skipped: Sequence[Skipped]) -> None:
    """A line on standard error for each thing that looks like a result and was passed over."""
    for item in skipped:
        click.echo(f"not judged: {printable(str(item.path))}: {item.reason}; {item.remedy}.", err=True)
    if len(skipped) >= MAX_MENTIONED:
        click.echo("not judged: perhaps more, which are not listed.", err=True)


class JudgingProgress:
    """A bar on a terminal once there are many logs; elsewhere a line every few seconds."""

    def __init__(self, least: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._least, self._is_terminal = least, self._stream.isatty()
        self._last_line_s = time.monotonic()

    def tell(self, num_done: int, num_logs: int) -> None:
        if num_logs < self._least:
            return
        text = f"{num_done} of {num_logs} logs judged"
        if self._is_terminal:
            filled = _WIDTH * num_done // max(1, num_logs)
            bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
            self._write("\r\x1b[2K" + ("" if num_done >= num_logs else f"{bar} {text}"))
        elif time.monotonic() - self._last_line_s >= _PLAIN_EVERY_S:
            self._last_line_s = time.monotonic()
            self._write(text + "\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
