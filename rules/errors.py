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
    """Error for a file of a kind of measurement that this installation does not have."""


class ReferenceSystemError(ValueError):
    """A name belongs to no shipped system, or the system has no set comparable to the given ones (exit code 2)."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?", or a list of the known words where none is close."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(sorted(known))}."


def why_no_json(error: json.JSONDecodeError, line: str, start: int) -> str:
    """Explain why the record at `start` of a line is not valid JSON; name a cut-off record as such."""
    if error.pos > start and (error.msg.startswith("Unterminated") or error.pos >= len(line.rstrip())):
        return "not valid JSON: the record is cut off before its end"
    return f"not valid JSON: {error.msg.removesuffix(' at')} at character {error.pos - start + 1} of the record"
