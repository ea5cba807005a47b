"""Errors of this package. The command line turns them into exit codes in one place."""

import json
from difflib import get_close_matches


class DefinitionError(ValueError):
    """A benchmark definition is missing, malformed or contradicts itself (exit code 2)."""


class InputError(ValueError):
    """A path to judge is missing or unreadable (exit code 8)."""


class NothingToJudgeError(InputError):
    """A directory exists and holds no logs."""


class AbsentKindError(InputError):
    """What is there is of a kind of measurement that this copy does not have."""


class ReferenceSystemError(ValueError):
    """A name is of no shipped system, or the system has no set like those that are given (exit code 2)."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" or the list of what is known."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(sorted(known))}."


def why_no_json(error: json.JSONDecodeError, line: str, start: int) -> str:
    """Say what is wrong with the record at `start` of a line; that it is cut where it ends too early."""
    if error.pos > start and (error.msg.startswith("Unterminated") or error.pos >= len(line.rstrip())):
        return "not valid JSON: the record is cut off before its end"
    return f"not valid JSON: {error.msg.removesuffix(' at')} at character {error.pos - start + 1} of the record"
