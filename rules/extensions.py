"""Additions of extensions to the core, by name: one line each, imported only when asked for.

An extension is a folder of harness/extensions with a capability that the core can do without: verbs, kinds of
measurement, files. Deleting its folder, its tests and its line here removes it; no file of the core names it. The
core's registries combine their own names, first, with those of extensions.

This module imports the standard library alone, and `extension.py` of a folder imports this module alone.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")
_NONE: Mapping[str, Any] = MappingProxyType({})


class Verb(NamedTuple):
    """A command of the command line; its module is imported when the command is used."""

    command: str
    """Location of the command, as module:name."""
    help: str
    """Line of --help for the command, available without importing the command."""
    heading: str
    """Heading of --help that the command is listed under."""
    is_everyday: bool = False
    """Whether the command is listed at the top of --help, with its line; other commands are only named below their
    headings."""


class Places(NamedTuple):
    """Location of a kind's record type, as module:type, and the module of its job, which only the harness imports."""

    record: str
    job: str


class Extension(NamedTuple):
    """Everything an extension adds; every place is "module:name", or the module of a job."""

    verbs: Mapping[str, Verb] = _NONE
    kinds: Mapping[str, Places] = _NONE
    """Kinds of measurement that can fill a set. They are measured in processes and leave no logs to judge."""
    jobs: Mapping[str, str] = _NONE
    """Modules of other jobs that a process may be given, which never fill a set."""
    records: Mapping[str, str] = _NONE
    """Types of files beside the logs, for `schema`."""
    documents: Mapping[str, str] = _NONE
    """Types of documents that --format json prints, for `schema`."""
    tables: Mapping[str, str] = _NONE
    """Additional tables of the kinds' records: `rules.records.measure.DetailTable` by the table's name."""
    shown: Mapping[str, str] = _NONE
    """Additional page content of a kind of measurement or study: `reports.kinds.details.Details` by the kind."""
    relations: Mapping[str, str] = _NONE
    """Relations between the configurations of an experiment, by the name that a record states."""
    sections: Mapping[str, str] = _NONE
    """Additional sections of a definition, `harness.config.sections.Section` by the name of its table; they are not
    part of the benchmark's problem."""
    stop_rules: Mapping[str, str] = _NONE
    """Classes of stop rules, which decide when a set grows no more, by the name that a record states."""
    functions: Mapping[str, str] = _NONE
    """Functions that `harness.api` exports in addition to its own."""
    renamed: Mapping[str, tuple[str, ...]] = _NONE
    """Replacements of removed options: "verb --option" to the command lines that replace it, without `dlrmbench`."""
    needs: tuple[str, ...] = ()
    """Extensions that this one imports, and that must be deleted together with it."""


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
"""Module by extension name, whose EXTENSION lists the additions: the only line about an extension in the core."""


@cache
def load_extensions() -> Mapping[str, Extension]:
    """Import the EXTENSION of every extension. Raises ValueError where a needed extension is missing."""
    found: dict[str, Extension] = {name: import_module(module).EXTENSION for name, module in EXTENSIONS.items()}
    for name, extension in found.items():
        if missing := set(extension.needs) - set(found):
            raise ValueError(f"extension {name} needs {', '.join(sorted(missing))}, which is not in EXTENSIONS.")
    return MappingProxyType(found)


@cache
def find_places(field: str) -> Mapping[str, Any]:
    """Return the entries of all extensions in one field. Raises ValueError for a name that two of them define."""
    return MappingProxyType(merge(_parts(field)))


def with_extensions(core: Mapping[str, Value], field: str) -> Mapping[str, Value]:
    """Return the core's entries, then those of extensions. Raises ValueError for a name that both define."""
    return MappingProxyType(merge({"the core": core, **_parts(field)}))


def merge(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the entries of several parts. Raises ValueError for a name that two of them define."""
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
    """Import the object that "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
