"""Finds a configuration by its label or short name, and reads the prices that a command line gives for
configurations."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from reports.results.reference_systems import system_of
from reports.results.result import Result
from reports.text.formatting import names, printable
from rules.errors import InputError

_PRICE = re.compile(r"(?P<amount>[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?) ?(?P<currency>[A-Za-z]{1,8}|[$€£¥])?")
_RUN_SET = re.compile(r"\A(.+)-\d{8}T\d{6}Z\Z")


def brief_name(result: Result) -> str:
    """Return the short name of a result. This is the part of its run set's label between benchmark and time: a name
    chosen by the user, or a digest. For a result without a folder, such as one from an export, return the whole
    label."""
    return result.label if result.place is None else brief_label(result.label, result.benchmark_name)


def brief_label(label: str, benchmark: str | None) -> str:
    """Return the part of a run set's label between benchmark and time: the name that the user chose, or a digest."""
    return _RUN_SET.sub(r"\1", label.removeprefix(f"{benchmark}-"))


def find_by_label(sets: Sequence[Result], name: str, option: str) -> Result:
    """Return the result whose label or chosen name is `name`, or the only one whose label contains it. Raises
    InputError, which names the command-line `option`, if no result matches or several do."""
    return sets[find_index([result.label for result in sets], [brief_name(result) for result in sets], name, option)]


def find_index(labels: Sequence[str], briefs: Sequence[str], name: str, option: str) -> int:
    """Return the index of the configuration with the label or chosen name `name`. If there is none, return the index
    of the only configuration whose label contains `name`, ignoring case.

    Raises InputError, which names the command-line `option`, if no configuration matches or several do.
    """
    wanted = name.casefold()
    both = list(enumerate(zip(labels, briefs, strict=True)))
    found = (
        [index for index, (label, _) in both if label == name]
        or [index for index, (_, brief) in both if brief == name]
        or [index for index, (label, brief) in both if wanted in (label.casefold(), brief.casefold())]
        or [index for index, (label, _) in both if wanted in label.casefold()]
    )
    if len(found) == 1:
        return found[0]
    if found:
        fitting = names([labels[index] for index in found], 8)
        raise InputError(
            f"{option} {printable(name)}: fits {len(found)} configurations: {fitting}. Give one of them."
        )
    if not labels:
        raise InputError(f"{option} {printable(name)}: there is no set of training runs here that could be meant.")
    close = get_close_matches(name, labels, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    raise InputError(f"{option} {printable(name)}: is no configuration here.{meant} There are: {names(labels, 8)}.")


def with_prices(sets: Sequence[Result], given: Sequence[str]) -> tuple[Result, ...]:
    """Return the results with their systems' prices per hour; the price is None if none is given.

    Each text in `given` is 'NAME=PRICE' or 'PRICE'. NAME is a label, a part of a label, or the name of a reference
    system, whose sets all get the price. 'PRICE' alone is for all sets that no NAME matches. The number may be
    followed by a currency, which must be the same in all texts. Raises InputError if a text is not a price, if
    currencies differ, or if a NAME matches no result or several.
    """
    found: dict[int, float] = {}
    rest: float | None = None
    currencies = set()
    for text in given:
        name, equals, number = text.rpartition("=")
        price, currency = _price(text, number)
        currencies.add(currency)
        if equals and (of_system := [result for result in sets if system_of(result) == name]):
            found |= {result.index: price for result in of_system}
        elif equals:
            found[find_by_label(sets, name, "--price-per-hour").index] = price
        else:
            rest = price
    if len(currencies) > 1:
        shown = " and ".join(sorted(currency or "none" for currency in currencies))
        raise InputError(f"--price-per-hour is given in several currencies: {shown}. Give all in one, or none.")
    currency = currencies.pop() if currencies else ""
    return tuple(replace(result, price_per_hour=found.get(result.index, rest), currency=currency) for result in sets)


def _price(text: str, number: str) -> tuple[float, str]:
    match = _PRICE.fullmatch(number)
    price = float(match["amount"]) if match is not None else math.nan
    if match is None or not (math.isfinite(price) and price > 0):
        raise InputError(
            f"--price-per-hour {text!r}: expected a price above 0, or NAME=PRICE, such as h100=28.5 or h100=28.5USD."
        )
    return price, match["currency"] or ""
