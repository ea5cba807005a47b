"""Describe the optional sections of benchmark definitions, such as [id_map] and [checkpoint], which the core and
extensions add; most of them are read by only some kinds of measurement.

Everything about a section (how its keys are explained, changed by users and recorded) is defined by its `Section`,
with one exception: `rules.benchmarks.loader` knows the names of these sections, and two facts on [id_map]. An
official benchmark has no [id_map], and an [id_map] of kind "none" does not change the definition's digest.
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
    """Optional section of a benchmark's definition, and the record that has the section's keys."""

    name: str
    record: type[Any]
    """Dataclass with a field for each key of the section, from which the page of keys, the JSON Schema, `init` and
    `--set` are made."""
    parse: Callable[[Mapping[str, Any]], Any] | None = None
    """Function that parses the section's table and raises ConfigError; None where the record's types express all
    constraints."""
    asked_by: str | None = None
    """Words for the measurements that read the section, for error messages; None where all measurements read it."""
    is_of_problem: bool = False
    """True if other values in the section make another training problem, with another digest. Only sections of the
    core may do so."""
    take: Callable[[dict[str, Any], dict[str, str], str], None] | None = None
    """Function that fills in, given the model's name, missing values in the tables of a definition and in the dict
    from `section.key` to the source of its value. Raises ConfigError."""
    find_ways: Callable[[Any], Any] | None = None
    """Function that takes a `RunConfig` and returns what autotuning may choose among for this section
    (`harness.autotune.choices.OwnWays`); this is timed in place of the threads and kernels of a training step. The
    function returns None if there is nothing to choose. The member is None for a section without autotuning of its
    own."""
    list_defaults: Callable[[Any], Mapping[str, Any]] = asdict
    """Function that takes the parsed section and returns a dict of all its keys and values. A run set records from it
    the keys that neither the definition nor the user set."""

    def read(self, table: Mapping[str, Any]) -> Any:
        """Return the parsed table of the section. Raises ConfigError that names the key."""
        return read_section(self.name, table, self.record) if self.parse is None else self.parse(table)


ID_MAP = Section(name="id_map", record=IdMapConfig, is_of_problem=True)
CHECKPOINT = Section(
    name="checkpoint",
    record=CheckpointConfig,
    parse=parse_checkpoint,
    asked_by="training: runs to the target, --throughput and --quality",
    list_defaults=lambda config: {} if config is None else asdict(config),
)
_CORE_SECTIONS: Mapping[str, str] = {
    "id_map": "harness.config.sections:ID_MAP",
    "checkpoint": "harness.config.sections:CHECKPOINT",
}


@cache
def find_sections() -> Mapping[str, Section]:
    """Return all optional sections of a definition, by name: the core's, then those of extensions."""
    places = with_extensions(_CORE_SECTIONS, "sections")
    return MappingProxyType({name: load_place(place) for name, place in places.items()})


def sections_of_problem() -> tuple[Section, ...]:
    """Return the sections of a definition that are part of the training problem, and so of its digest."""
    return tuple(section for section in find_sections().values() if section.is_of_problem)


def sections_aside() -> tuple[Section, ...]:
    """Return the optional sections of a definition that are no part of the training problem, such as [checkpoint]; in
    the page of keys they come after [runtime]."""
    return tuple(section for section in find_sections().values() if not section.is_of_problem)
