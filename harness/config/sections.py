"""Sections of a definition that it may leave out and that only some measurements read, the core's and extensions'.

`rules.benchmarks.loader` takes their names alone. Whatever else is done with a section (its keys are explained,
overridden, recorded) is done by its `Section`.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from reference_models.config.checkpoint import CheckpointConfig, parse_checkpoint
from reference_models.config.id_map import IdMapConfig
from reference_models.config.records import read_section
from rules.extensions import load_place, with_extensions


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One section of a definition, by the record that has its keys."""

    name: str
    record: type[Any]
    """A dataclass: the page of keys, the JSON Schema, `init` and `--set` know the section's keys by it."""
    parse: Callable[[Mapping[str, Any]], Any] | None = None
    """Reads the section's table, and raises ConfigError; None where the record's types say all that is allowed."""
    asked_by: str | None = None
    """Who reads it, in words for whoever gives one of its keys to something else; None where everything does."""
    is_of_problem: bool = False
    """Whether other values make another problem, with another digest: of the core alone."""
    take: Callable[[dict[str, Any], dict[str, str], str], None] | None = None
    """Completes what is asked, in place: the tables of a definition, and the sources of its values by `section.key`,
    with the name of its model. Raises ConfigError."""
    find_ways: Callable[[Any], Any] | None = None
    """Says of a `RunConfig` that has the section what is chosen by timing in place of threads and matrix products:
    `harness.autotune.choices.OwnWays`, or None where there is one way only."""
    list_defaults: Callable[[Any], Mapping[str, Any]] = asdict
    """Lists the values of the section as it was read, of which a set records those that nobody gave."""

    def read(self, table: Mapping[str, Any]) -> Any:
        """Read the section's table. Raises ConfigError that names the key."""
        return read_section(self.name, table, self.record) if self.parse is None else self.parse(table)


ID_MAP = Section(name="id_map", record=IdMapConfig, is_of_problem=True)
CHECKPOINT = Section(
    name="checkpoint",
    record=CheckpointConfig,
    parse=parse_checkpoint,
    asked_by="what trains: runs to the target, --throughput and --quality",
    list_defaults=lambda config: {} if config is None else asdict(config),
)
_CORE_SECTIONS: Mapping[str, str] = {
    "id_map": "harness.config.sections:ID_MAP",
    "checkpoint": "harness.config.sections:CHECKPOINT",
}


@cache
def find_sections() -> Mapping[str, Section]:
    """Import all sections, by name: those of the core, then those that extensions add."""
    places = with_extensions(_CORE_SECTIONS, "sections")
    return MappingProxyType({name: load_place(place) for name, place in places.items()})


def sections_of_problem() -> tuple[Section, ...]:
    """Return the sections that a problem's digest is of."""
    return tuple(section for section in find_sections().values() if section.is_of_problem)


def sections_aside() -> tuple[Section, ...]:
    """Return the sections that are no part of the problem, and stand behind [runtime]."""
    return tuple(section for section in find_sections().values() if not section.is_of_problem)
