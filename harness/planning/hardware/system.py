"""Describe a system by its rates (FLOP/s, bytes per second), in a TOML file: measured here, or written by the
user."""

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
    """One number of a system (rate, size or overhead) with its source, in SI units.

    `of` names the number, and `size` is the size of the operations for which it was measured. `fp32`, `tf32` and
    `bf16` are FLOP/s of matrix products; their size is the smallest of m, k and n. `copy` is bytes read and written
    per second; its size is the bytes that a step moves. `rows` is bytes per second of rows at random places; its size
    is the bytes of the tables. `other` is FLOP/s outside of matrix products. `operator` is the seconds of one torch
    operator that has no work to do.
    """

    of: Literal["cores", "memory", "fp32", "tf32", "bf16", "other", "copy", "rows", "operator"]
    size: Bounded = 1.0
    value: Bounded
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    spread: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """Interquartile range of the repetitions as a fraction of their median, which is `value`. None if the number was
    measured once or its spread is not known."""


class ModelledSystem(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """System that trains, described by its rates: all of its cores together, or one accelerator."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]
    numbers: Annotated[tuple[SystemNumber, ...], Meta(max_length=1000)]
    warnings: Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(max_length=100)] = ()
    """Warnings of the environment check before the system's rates were measured."""
    loads: Annotated[tuple[LoadRecord, ...], Meta(max_length=100)] = ()
    """Load of other processes on the system while its rates were measured."""

    def find(self, of: str, size: PositiveAmount = 1.0) -> float:
        """Return the system's number (rate or overhead) named `of`, such as 'copy', for operations of size `size`. A
        system may have this number for several sizes. Between two of these sizes the number is interpolated over the
        logarithm of size. Outside of them, the number of the nearest size is returned. Raises ConfigError if the
        system has no number of this name."""
        found = sorted((each for each in self.numbers if each.of == of), key=lambda each: each.size)
        if not found:
            known = ", ".join(dict.fromkeys(each.of for each in self.numbers))
            raise ConfigError(
                f"{self.title}: has no number of {of!r}, only of {known or 'nothing'}. Add {of!r} to the file."
            )
        sizes = np.log([max(size, 1e-30), *(each.size for each in found)])
        return float(np.interp(sizes[0], sizes[1:], [each.value for each in found]))


def read_system(path: Path) -> ModelledSystem:
    """Return a system's rates from its TOML file. Raises ConfigError for a number without its source, DefinitionError
    for invalid TOML."""
    try:
        return convert(read_toml(path), ModelledSystem)
    except DamageError as error:
        like = '{ of = "copy", size = 1e6, value = 2e10, source = "where it comes from" }'
        raise ConfigError(f"{path}: {error}. A number is written {like}.") from None


def read_hardware(what: str, name: str, shipped: Mapping[str, Path], record: type[T]) -> tuple[Path, T]:
    """Return the path and the record of a hardware description: a shipped file by its name, or the user's by its
    path.

    Raises ConfigError for an unknown name or a wrong value, DefinitionError for invalid TOML.
    """
    if name not in shipped and not name.endswith(".toml"):
        raise ConfigError(f"--{what} {name}: no such {what}, nor a FILE.toml.{did_you_mean(name, [*shipped])}")
    path = shipped.get(name) or Path(name)
    try:
        return path, convert(read_toml(path), record)
    except DamageError as error:
        raise ConfigError(f"{path}: {error}.") from None


def write_system(system: ModelledSystem) -> str:
    """Return a system (title, warnings, loads, rates) as text of the TOML file that `read_system` reads."""
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
