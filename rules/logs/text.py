"""Make text and values from strangers' files safe to print."""

import json
from typing import Any

_SHOWN_CHARS = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def printable(text: str) -> str:
    """Return `text` with control characters and lone surrogates escaped: safe on any terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Return a number with its noun in the singular or plural: '1 run', '5 runs'."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def letters(text: str) -> str:
    """Return a name without case and punctuation, so that two spellings of one name compare equal."""
    return "".join(character for character in text.casefold() if character.isalnum())


def show(value: Any, num_chars: int = _SHOWN_CHARS) -> str:
    """Return a value from a log as short text that is safe to print: in JSON's spelling, control characters escaped.

    At most `num_chars` characters are returned; "…" marks a cut.
    """
    try:
        text = _ENCODER.encode(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__} that is too large to show"
    text = printable(text[: 4 * num_chars])
    return text if len(text) <= num_chars else text[: num_chars - 1] + "…"
