"""The description of a system by its rates, from a file: what was measured, or the user's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from msgspec import Meta, to_builtins

from reference_models.process.errors import ConfigError, did_you_mean
from rules.benchmarks.toml_file import read_toml
from rules.records.codec import DamageError, PositiveAmount, Record, convert
from rules.records.load import LoadRecord

T = TypeVar("T", bound=Record)
Bounded = Annotated[float, Meta(ge=1e-30, le=1e30)]


class SystemNumber(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number of a system and where it comes from, in SI units.

    `fp32`, `tf32` and `bf16` are FLOP/s of matrix products by the least of their extents m, k and n; `copy` are bytes
    read and written a second, by how many a step moves; `rows` bytes a second of rows at random places, by the bytes
    of the tables; `other` FLOP/s outside of products; `operator` the seconds of one of torch's with nothing to do.
    """

    of: Literal["cores", "memory", "fp32", "tf32", "bf16", "other", "copy", "rows", "operator"]
    size: Bounded = 1.0
    value: Bounded
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    spread: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """How far apart the repetitions lay of which the value is the median: the middle half of them, as a fraction of
    it. None where it was not repeated, or nobody says."""


class ModelledSystem(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What trains: all of its cores together, or one accelerator."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]
    numbers: Annotated[tuple[SystemNumber, ...], Meta(max_length=1000)]
    warnings: Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(max_length=100)] = ()
    """What the environment check warned of before they were measured."""
    loads: Annotated[tuple[LoadRecord, ...], Meta(max_length=100)] = ()
    """What else the system did meanwhile."""

    def find(self, of: str, size: PositiveAmount = 1.0) -> float:
        """Return a number, interpolated over the sizes' logarithms, beyond them the nearest. Raises ConfigError."""
        found = sorted((each for each in self.numbers if each.of == of), key=lambda each: each.size)
        if not found:
            known = ", ".join(dict.fromkeys(each.of for each in self.numbers))
            raise ConfigError(
                f"{self.title}: has no number of {of!r}, only of {known or 'nothing'}. Add it to the file."
            )
        sizes = np.log([max(size, 1e-30), *(each.size for each in found)])
        return float(np.interp(sizes[0], sizes[1:], [each.value for each in found]))


def read_system(path: Path) -> ModelledSystem:
    """Read a system's file. Raises ConfigError for a number without its source, DefinitionError for no TOML."""
    try:
        return convert(read_toml(path), ModelledSystem)
    except DamageError as error:
        like = '{ of = "copy", size = 1e6, value = 2e10, source = "where it comes from" }'
        raise ConfigError(f"{path}: {error}. A number is written {like}.") from None


def read_hardware(what: str, name: str, shipped: Mapping[str, Path], record: type[T]) -> tuple[Path, T]:
    """Read a file that is shipped by its name, or the user's. Raises ConfigError, DefinitionError for no TOML."""
    if name not in shipped and not name.endswith(".toml"):
        raise ConfigError(f"--{what} {name}: no such {what}, nor a FILE.toml.{did_you_mean(name, [*shipped])}")
    path = shipped.get(name) or Path(name)
    try:
        return path, convert(read_toml(path), record)
    except DamageError as error:
        raise ConfigError(f"{path}: {error}.") from None


def write_system(system: ModelledSystem) -> str:
    """Write a system as the file that `read_system` reads."""
    lines = [f"title = {json.dumps(system.title)}"]
    if system.warnings:
        lines.append(f"warnings = {json.dumps(system.warnings)}")
    for name, tables in (("loads", system.loads), ("numbers", system.numbers)):
        if tables:
            lines += [f"{name} = [", *(f"  {{ {_write_table(each)} }}," for each in tables), "]"]
    return "\n".join((*lines, ""))


def _write_table(record: Record) -> str:
    known = ((key, value) for key, value in to_builtins(record).items() if value is not None)
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in known)
