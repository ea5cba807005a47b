"""Define the errors of the package `rules`. The command line turns them into exit codes in one place."""

import json
from difflib import get_close_matches


class DefinitionError(ValueError):
    """Error for a benchmark definition that is missing, malformed or contradicts itself, or for an unknown name of a
    benchmark, round or rule (exit code 2)."""


class InputError(ValueError):
    """Error for input, such as a path to judge, that is missing, unreadable or of no use (exit code 8)."""


class NothingToJudgeError(InputError):
    """Error for a path that exists and holds no MLPerf logs that could be judged."""


class AbsentKindError(InputError):
    """Error for a file of a kind of measurement that this installation does not have, such as a kind that an
    extension defines."""


class ReferenceSystemError(ValueError):
    """Error for a name that is no reference system's, for a system without results comparable to the given ones, or
    for results that may not be compared with published ones (exit code 2)."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" with the known word that is closest to an unknown one, or a list of the known words
    where none is close."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(sorted(known))}."


def why_no_json(error: json.JSONDecodeError, line: str, start: int) -> str:
    """Return the reason why the log record that begins at character `start` of a line is not valid JSON: that the
    record is cut off before its end, or the decoder's message and the position in the record."""
    if error.pos > start and (error.msg.startswith("Unterminated") or error.pos >= len(line.rstrip())):
        return "not valid JSON: the record is cut off before its end"
    return f"not valid JSON: {error.msg.removesuffix(' at')} at character {error.pos - start + 1} of the record"
