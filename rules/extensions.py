"""List the extensions (optional capabilities) of the harness, and look up by name what they add to the core. Each
addition is imported only when asked for.

An extension is a folder of harness/extensions with a capability that the core can do without: commands, kinds of
measurement, files. No file of the core names an extension. To remove one, delete its folder, its tests and its line
in `EXTENSIONS`. The core's registries list their own names first, then those of extensions.

This module imports only the standard library. An extension's `extension.py` imports only this module.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")
_NONE: Mapping[str, Any] = MappingProxyType({})


class Verb(NamedTuple):
    """Command of the command line, such as `run` in `dlrmbench run`; its module is imported when the command is
    used."""

    command: str
    """Location of the command's function, as module:name."""
    help: str
    """Line on the command in --help, which is shown without importing the command."""
    heading: str
    """Heading of --help that the command is listed under."""
    is_everyday: bool = False
    """Whether --help lists the command at its top, with a line of text; other commands are only named below their
    headings."""


class Places(NamedTuple):
    """Locations of two parts of a kind of measurement: its record type (`record`, as module:type), and the module
    that measures it (`job`), which only the harness imports."""

    record: str
    job: str


class Extension(NamedTuple):
    """Everything that an extension adds to the core; every location is "module:name" or, for code that the harness
    starts in a process of its own, the module."""

    verbs: Mapping[str, Verb] = _NONE
    kinds: Mapping[str, Places] = _NONE
    """Kinds of measurement that can fill a run set, by name. They are measured in processes of their own and leave no
    MLPerf logs to judge."""
    jobs: Mapping[str, str] = _NONE
    """Dict from names to modules whose code the harness may start in a process of its own. Unlike measurements, they
    leave no results in a run set."""
    records: Mapping[str, str] = _NONE
    """Types of JSON files, other than logs, that the extension reads or writes, by name, for the command `schema`."""
    documents: Mapping[str, str] = _NONE
    """Types of JSON documents that the extension's commands print with --format json, by name, for the command
    `schema`."""
    tables: Mapping[str, str] = _NONE
    """Additional tables, for export, of the extension's kinds of measurement: a map from a table's name to the
    location of its `rules.records.measure.DetailTable`."""
    shown: Mapping[str, str] = _NONE
    """Additional content of report pages: a map from the kind of measurement or of simulation (study) that a page
    shows to the location of its `reports.kinds.details.Details`."""
    relations: Mapping[str, str] = _NONE
    """Forms of experiment that the extension defines, such as a search: a map from the form's name in experiment.json
    to the location of its definition."""
    sections: Mapping[str, str] = _NONE
    """Sections that the extension adds to benchmark definitions: a map from the name of the TOML table to the
    location of its `harness.config.sections.Section`. These sections do not change the training problem, so they are
    left out of the definition's digest."""
    stop_rules: Mapping[str, str] = _NONE
    """Stop rules, which decide whether an experiment grows further (by repetitions or configurations): a map from the
    rule's name in the experiment's record to the location of its class."""
    functions: Mapping[str, str] = _NONE
    """Functions of the extension that `harness.api` exports in addition to its own, by name."""
    renamed: Mapping[str, tuple[str, ...]] = _NONE
    """Command-line options that were removed: a map from "verb --option" to the command lines that replace it,
    written without `dlrmbench`."""
    needs: tuple[str, ...] = ()
    """Names of other extensions that this extension imports: whoever deletes one of them must delete this extension,
    too."""


EXTENSIONS: Mapping[str, str] = {
    "calibration": "harness.extensions.calibration.extension",
    "codesign": "harness.extensions.codesign.extension",
    "history": "harness.extensions.history.extension",
    "memory": "harness.extensions.memory.extension",
    "packaging": "harness.extensions.packaging.extension",
    "placement": "harness.extensions.placement.extension",
    "serving": "harness.extensions.serving.extension",
    "suites": "harness.extensions.suites.extension",
    "system_model": "harness.extensions.system_model.extension",
    "tuning": "harness.extensions.tuning.extension",
    "usage": "harness.extensions.usage.extension",
}
"""Module of each extension by its name; the module's EXTENSION lists what the extension adds. The core has no other
line about an extension."""


@cache
def load_extensions() -> Mapping[str, Extension]:
    """Import the list of additions of every extension. Raises ValueError where an extension that another needs is
    missing."""
    found: dict[str, Extension] = {name: import_module(module).EXTENSION for name, module in EXTENSIONS.items()}
    for name, extension in found.items():
        if missing := set(extension.needs) - set(found):
            raise ValueError(f"extension {name} needs {', '.join(sorted(missing))}, which is not in EXTENSIONS.")
    return MappingProxyType(found)


@cache
def find_places(field: str) -> Mapping[str, Any]:
    """Return the entries of all extensions in one field of `Extension`, such as `kinds`. Raises ValueError for a name
    that two extensions define."""
    return MappingProxyType(merge(_parts(field)))


def with_extensions(core: Mapping[str, Value], field: str) -> Mapping[str, Value]:
    """Return the core's entries for a field of `Extension`, then those of all extensions. Raises ValueError for a
    name that two of them define."""
    return MappingProxyType(merge({"the core": core, **_parts(field)}))


def merge(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the entries of the core and of extensions, by name. Raises ValueError for a name that two of them
    define."""
    owners: dict[str, str] = {}
    for part, places in parts.items():
        for name in places:
            if name in owners:
                raise ValueError(
                    f"{name!r} is defined by {owners[name]} and by {part}: give one of them another name."
                )
            owners[name] = part
    return {name: place for places in parts.values() for name, place in places.items()}


def _parts(field: str) -> dict[str, Mapping[str, Any]]:
    return {f"extension {name}": getattr(each, field) for name, each in load_extensions().items()}


def load_place(place: str) -> Any:
    """Import the module in "module:name" and return the object of that name."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
