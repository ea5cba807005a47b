"""Findings of a step, line by line: a step that crashes or is stopped loses nothing that it had found."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from claims import BY_NAME, VERDICTS, Verdict

MAX_TEXT, MAX_FIGURES, MAX_BYTES = 300, 1000, 1 << 20


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a claim, the figure that it goes by, and how that was found."""

    claim: str
    verdict: Verdict
    figure: str
    how: str


@dataclass(frozen=True, slots=True)
class Found:
    """All that a step's file says: judgements by claim, figures by name, and what could not be used of it."""

    judgements: dict[str, Judgement] = field(default_factory=dict)
    figures: dict[str, float | int | str | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Findings:
    """Appends to the file of one step. Without a GPU nothing is proved: a rehearsal's verdicts are "not run"."""

    def __init__(self, path: Path, *, is_rehearsal: bool) -> None:
        self._path, self._is_rehearsal = path, is_rehearsal

    def judge(self, claim: str, holds: bool, figure: str, how: str) -> None:
        assert claim in BY_NAME, claim
        verdict = "proved" if holds else "disproved"
        if self._is_rehearsal:
            how = f"rehearsed without a GPU at tiny sizes, where it {'held' if holds else 'did not hold'}"
            verdict = "not run"
        self._append({"claim": claim, "verdict": verdict, "figure": figure, "how": how})

    def leave_out(self, claim: str, why: str) -> None:
        """Say why a claim could not be looked at."""
        assert claim in BY_NAME, claim
        self._append({"claim": claim, "verdict": "not run", "figure": "", "how": why})

    def note(self, **figures: float | int | str | None) -> None:
        """Note figures that decide nothing; names end in their unit."""
        self._append({"figures": figures})

    def _append(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")


def read_found(path: Path, step: str) -> Found:
    """Read what `step` wrote, whatever is in the file: only what has the right form counts, the rest is a problem."""
    found = Found()
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return found
    if len(content) > MAX_BYTES:
        found.problems.append(f"findings beyond {MAX_BYTES} bytes were not read")
    for number, line in enumerate(content[:MAX_BYTES].decode("utf-8", "replace").splitlines(), 1):
        try:
            problem = _take(json.loads(line), step, found)
        except (ValueError, RecursionError):
            problem = "no JSON"
        if problem is not None and len(found.problems) < 10:
            found.problems.append(f"line {number} of the findings: {problem}")
    return found


def _take(line: Any, step: str, found: Found) -> str | None:
    """Take one line over; returns what is wrong with it, if anything."""
    if not isinstance(line, dict):
        return "expected an object"
    if "figures" in line:
        figures = line["figures"]
        if not isinstance(figures, dict):
            return "figures are no object"
        for name, value in figures.items():
            if not isinstance(value, int | float | str | None):
                return f"figure {printable(str(name), 60)} is neither number nor text"
            if len(found.figures) >= MAX_FIGURES:
                return f"more than {MAX_FIGURES} figures"
            text = printable(value, MAX_TEXT) if isinstance(value, str) else value
            found.figures[printable(str(name), 80)] = None if _is_no_number(text) else text
        return None
    texts = [line.get(key) for key in ("claim", "verdict", "figure", "how")]
    if not all(isinstance(text, str) for text in texts):
        return "expected claim, verdict, figure and how as text"
    claim, verdict, figure, how = cast(list[str], texts)
    if claim not in BY_NAME or BY_NAME[claim].step != step:
        return f"step {step} judges no claim {printable(claim, 60)!r}"
    if verdict not in VERDICTS:
        return f"verdict {printable(verdict, 60)!r} is unknown"
    found.judgements[claim] = Judgement(
        claim, cast(Verdict, verdict), printable(figure, MAX_TEXT), printable(how, MAX_TEXT)
    )
    return None


def _is_no_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def printable(text: str, at_most: int) -> str:
    """Return one line without control characters, of at most so many characters: for terminals, JSON and tables."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * at_most])
    words = " ".join(plain.split())
    return words if len(words) <= at_most else words[: at_most - 1] + "…"
