"""Parse option values that several commands share: fractions, numbers, and comma-separated lists of them."""

from collections.abc import Callable
from typing import Any

import click

_MOST = 1e12


def share(text: str) -> float:
    """Return a fraction above 0 and up to 1 from text such as 5% or 0.05. Raises BadParameter."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise click.BadParameter(f"{text!r}: expected a share above 0 and up to 1, such as 5% or 0.05.")
    return value


def amount(text: str) -> float:
    """Return a number above 0 from an option's text. Raises BadParameter."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _MOST:
        raise click.BadParameter(f"{text!r}: expected a number above 0 and up to {_MOST:g}.")
    return value


def several(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return a parser for an option's comma-separated values, each kept once."""
    return lambda text: tuple(dict.fromkeys(read(word.strip()) for word in text.split(",")))
