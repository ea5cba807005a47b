"""Prices of systems as they are given on a command line: one for all, or one per configuration."""

import math
from collections.abc import Sequence
from dataclasses import replace

from reports.facts.facts import SetFacts
from reports.facts.find import find_by_label
from rules.errors import InputError


def with_prices(sets: Sequence[SetFacts], given: Sequence[str]) -> tuple[SetFacts, ...]:
    """Each set with its price per hour: `given` are 'NAME=PRICE', NAME as a label or a part of it, or 'PRICE' for all
    others; without any, None. Raises InputError for what is no price, and for a name that fits none or several.
    """
    found: dict[int, float] = {}
    rest: float | None = None
    for text in given:
        name, equals, number = text.rpartition("=")
        price = _price(text, number)
        if equals:
            found[find_by_label(sets, name, "--price-per-hour").index] = price
        else:
            rest = price
    return tuple(replace(one, price_per_hour=found.get(one.index, rest)) for one in sets)


def _price(text: str, number: str) -> float:
    try:
        price = float(number)
    except ValueError:
        price = math.nan
    if not (math.isfinite(price) and price > 0):
        raise InputError(f"--price-per-hour {text!r}: expected a price above 0, or NAME=PRICE, such as h100=28.5.")
    return price
