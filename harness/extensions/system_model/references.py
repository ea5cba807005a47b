"""Read from reference systems' bundles (archives of results) the rates of systems to model, find the bundles to rank,
and read prices per hour."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from harness.cli.shared.values import amount
from harness.planning.hardware.system import ModelledSystem, read_system
from reports.results.bundles import RATES_FILE
from reports.results.reference_systems import known_bundles, open_system
from reports.text.formatting import printable
from rules.errors import InputError
from rules.tree.result_set import real_path


def read_rates(references: Iterable[str]) -> dict[str, ModelledSystem]:
    """Return the rates of reference systems, as a dict from the system's name to its rates. Each reference is the
    name of a system or the path of a bundle (archive of results).

    Raises ReferenceSystemError, InputError, ConfigError or DefinitionError if a reference cannot be read as a system
    or has no rates, and InputError if a system is given twice.
    """
    found = dict[str, ModelledSystem]()
    for given in references:
        opened = open_system(given)
        name, path = opened.record.name, opened.folder / RATES_FILE
        if name in found:
            raise InputError(f"{printable(given)}: reference system {name} is given twice. Give each once.")
        if not path.is_file():
            raise InputError(f"{printable(opened.path)}: {RATES_FILE}: found no such member, expected its rates.")
        found[name] = read_system(path)
    return found


def find_ranked(references: Iterable[str], folder: Path | None) -> tuple[str, ...]:
    """Return the files of all known bundles (archives of a system's results), including those in `folder`, except
    those that `references` name.

    Raises InputError if `folder` is not a folder, and the errors of `open_system` if a reference cannot be read.
    """
    if folder is not None and not folder.is_dir():
        raise InputError(f"--rank {printable(folder)}: no such directory. Give one of bundles.")
    given = {real_path(open_system(each).path) for each in references}
    return tuple(str(path) for path in known_bundles(folder) if real_path(path) not in given)


def read_prices(prices: Sequence[str], systems: Sequence[str]) -> dict[str, float]:
    """Return a dict from system to price per hour, read from texts 'NAME=PRICE' or 'PRICE'. If any text has a name,
    all texts need one. If none has a name, there must be one price for each of `systems`, in the same order.

    Raises UsageError if a name is not that of a system, if a system has two prices, or if the number of prices
    without names is not the number of systems.
    """
    named = [price.rpartition("=") for price in prices]
    found = dict[str, float]()
    if any(equals for _, equals, _ in named):
        for name, _, price in named:
            if name not in systems or name in found:
                raise click.UsageError(
                    f"--price-per-hour {printable(name)}={price}: expected the name of a system, each once: "
                    f"{', '.join(systems)}."
                )
            found[name] = _read_price(price)
        return found
    if prices and len(prices) != len(systems):
        raise click.UsageError(f"--price-per-hour is given {len(prices)} times, for {len(systems)} systems.")
    return dict(zip(systems, map(_read_price, prices), strict=False))


def _read_price(text: str) -> float:
    try:
        return amount(text)
    except click.BadParameter as error:
        raise click.UsageError(f"--price-per-hour: {error.message}") from None
