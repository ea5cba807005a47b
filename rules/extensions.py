"""What extensions add to the core, by name; one line each, and none of them is imported before it is asked for.

An extension is a folder of harness/extensions with a capability that the core can do without: verbs, kinds of
measurement, files. Deleting its folder, its tests and its line here deletes it; no file of the core names it. The
registries of the core are views on what is here: their own names first, then those of extensions.

Nothing here imports more than the standard library, and `extension.py` of a folder imports this module alone.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")
_NONE: Mapping[str, Any] = MappingProxyType({})


class Verb(NamedTuple):
    """A command of the command line; its module is imported when it is used."""

    command: str
    """Where the command is, as module:name."""
    help: str
    """Its line of --help, which imports nothing for it."""
    heading: str
    """The heading that --help has it under."""
    is_everyday: bool = False
    """Whether --help begins with it, and its line; the others are named below their headings."""


class Places(NamedTuple):
    """Where a kind's record is, as module:type, and the module of its job, which the harness alone looks up."""

    record: str
    job: str


class Extension(NamedTuple):
    """All that the core is told of an extension; every place is "module:name", or the module of a job."""

    verbs: Mapping[str, Verb] = _NONE
    kinds: Mapping[str, Places] = _NONE
    """Kinds of measurement of which sets are made. They are measured in processes and leave no logs to judge."""
    jobs: Mapping[str, str] = _NONE
    """Modules of what a process may be asked besides, of which no set is made."""
    records: Mapping[str, str] = _NONE
    """Types of files beside the logs, for `schema`."""
    documents: Mapping[str, str] = _NONE
    """Types of what --format json prints, for `schema`."""
    tables: Mapping[str, str] = _NONE
    """Tables that its kinds' records have of their own: `rules.records.measure.DetailTable`, by the table's name."""
    shown: Mapping[str, str] = _NONE
    """What a kind of measurement or of study shows of its own: `reports.kinds.details.Details`, by the kind."""
    relations: Mapping[str, str] = _NONE
    """What the configurations of an experiment are to each other, by the name that a record says."""
    sections: Mapping[str, str] = _NONE
    """Sections that a definition may have besides: `harness.config.sections.Section`, by the name of its table, which
    is no part of the problem."""
    stop_rules: Mapping[str, str] = _NONE
    """Classes that say when a set grows no more, by the name that a record says."""
    functions: Mapping[str, str] = _NONE
    """Functions that `harness.api` has besides its own."""
    renamed: Mapping[str, tuple[str, ...]] = _NONE
    """Options that went away, as "verb --option": the command lines that replace it, behind `dlrmbench`."""
    needs: tuple[str, ...] = ()
    """Extensions that it imports, and that it is deleted with."""


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
"""By name, the module whose EXTENSION says what is added: a line is all that the core has of it."""


@cache
def load_extensions() -> Mapping[str, Extension]:
    """Import what every extension says of itself. Raises ValueError for one that needs what is not here."""
    found: dict[str, Extension] = {name: import_module(module).EXTENSION for name, module in EXTENSIONS.items()}
    for name, extension in found.items():
        if missing := set(extension.needs) - set(found):
            raise ValueError(f"extension {name} needs {', '.join(sorted(missing))}, which is not in EXTENSIONS.")
    return MappingProxyType(found)


@cache
def find_places(field: str) -> Mapping[str, Any]:
    """Return what all extensions name in a field of theirs. Raises ValueError for a name that two of them have."""
    return MappingProxyType(merge(_parts(field)))


def with_extensions(core: Mapping[str, Value], field: str) -> Mapping[str, Value]:
    """Return what the core has by name, then what extensions add. Raises ValueError for a name that both have."""
    return MappingProxyType(merge({"the core": core, **_parts(field)}))


def merge(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Join what several parts have by name. Raises ValueError for a name that two of them have."""
    owners: dict[str, str] = {}
    for part, places in parts.items():
        for name in places:
            if name in owners:
                raise ValueError(f"{name!r} is of {owners[name]}, and of {part}: give one of them another name.")
            owners[name] = part
    return {name: place for places in parts.values() for name, place in places.items()}


def _parts(field: str) -> dict[str, Mapping[str, Any]]:
    return {f"extension {name}": getattr(each, field) for name, each in load_extensions().items()}


def load_place(place: str) -> Any:
    """Import what "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
