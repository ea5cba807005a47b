"""Reference systems as systems to model: the rates in their bundles, and what was measured there."""

from collections.abc import Iterable

from harness.planning.hardware.system import System, read_system
from reports.results.bundles import RATES_FILE
from reports.results.reference_systems import open_system
from reports.text.formatting import printable
from rules.errors import InputError


def read_rates(references: Iterable[str]) -> dict[str, System]:
    """Read the rates of reference systems, given by name or by their bundle's file, by the systems' names.

    Raises ReferenceSystemError, InputError, ConfigError and DefinitionError for what is no system or has no rates,
    and InputError for two of one name.
    """
    found = dict[str, System]()
    for given in references:
        opened = open_system(given)
        name, path = opened.record.name, opened.folder / RATES_FILE
        if name in found:
            raise InputError(f"{printable(given)}: reference system {name} is given twice. Give each once.")
        if not path.is_file():
            raise InputError(f"{printable(opened.path)}: {RATES_FILE}: found no such member, expected its rates.")
        found[name] = read_system(path)
    return found
