"""Read a suite from a TOML file or from the shipped default. A suite is a list of benchmarks, and two settings, base
and new, in which each benchmark is measured.

Example of a suite's file:

benchmarks = ["dlrm_small", "wukong_small"]
[base.runtime]
implementation = "reference"
[new.runtime]
implementation = "optimized"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.config.run_config import Override, read_config_tables
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.registry import outside_names
from rules.benchmarks.loader import load_benchmark, read_toml
from rules.logs.text import printable
from rules.records.experiment import BASE, NEW, SIDES

DEFAULT = "default"
MAX_BENCHMARKS = 50
_IMPLEMENTATIONS = {BASE: "reference", NEW: "optimized"}
"""The two training implementations that the default suite compares, under the keys BASE and NEW."""
_GENERATED = ("dlrm_small", "dlrm_dcnv2_small", "wukong_small", "dlrmv4_small", "d2nn_small")
"""Benchmarks of the default suite; together they have every model, and every kind of generated data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Suite: benchmarks, given by names or paths of definitions, and the settings of base and of new. If a key is set
    twice, the later setting counts."""

    name: str
    benchmarks: tuple[str, ...]
    settings: Mapping[str, tuple[Override, ...]]
    """Configuration values that the suite sets on each of its two sides: a dict with the keys "base" and "new"."""

    def with_settings(self, side: str, values: Sequence[Override]) -> "Suite":
        """Return the suite with further values for "base" or "new"; they override values of the same keys in this
        suite."""
        return replace(self, settings={**self.settings, side: (*self.settings[side], *values)})


def read_suite(name_or_path: str) -> Suite:
    """Return a suite: "default", or the one in a file. Raises ConfigError or DefinitionError if it is invalid."""
    if name_or_path == DEFAULT:
        source = "suite default"
        settings = {
            side: (Override(key="runtime.implementation", value=value, source=source),)
            for side, value in _IMPLEMENTATIONS.items()
        }
        return Suite(name=DEFAULT, benchmarks=_GENERATED, settings=settings)
    path = Path(name_or_path)
    tables = read_toml(path)
    for key in tables.keys() - {"benchmarks", *SIDES}:
        known = ["benchmarks", *SIDES]
        raise ConfigError(
            f"{path}: unknown key {printable(key)!r}, expected {', '.join(known)}.{did_you_mean(key, known)}"
        )
    given: dict[str, tuple[Override, ...]] = {
        side: tuple(_read_side(path, side, tables.get(side, {}))) for side in SIDES
    }
    return Suite(name=path.stem, benchmarks=_read_benchmarks(path, tables.get("benchmarks")), settings=given)


def _read_side(path: Path, side: str, table: Any) -> list[Override]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path}: {side} is {table!r}, expected tables such as [{side}.runtime].")
    return read_config_tables(path, table, f"{side}.")


def _read_benchmarks(path: Path, given: Any) -> tuple[str, ...]:
    """Return the benchmarks of a suite's file, checked. A stranger may have made the file, so no definition in it may
    lead to other code than dlrmbench's."""
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise ConfigError(f'{path}: benchmarks is {given!r}, expected a list such as ["dlrm_tiny", "wukong_small"].')
    if len(given) > MAX_BENCHMARKS:
        raise ConfigError(f"{path}: {len(given)} benchmarks, expected at most {MAX_BENCHMARKS}.")
    # Paths are relative to the file that has them.
    names = tuple(str(path.parent / each) if each.endswith(".toml") else each for each in given)
    loaded = [load_benchmark(name) for name in names]
    for name, benchmark in zip(names, loaded, strict=True):
        if outside_names(benchmark.model, "reference"):
            raise ConfigError(
                f"{path}: {name} is of the model {benchmark.model!r}, which is not dlrmbench's own: its code runs "
                "where it is named on the command line alone. Compare it with 'dlrmbench versus'."
            )
    twice = next((each.name for at, each in enumerate(loaded) if each.name in {b.name for b in loaded[:at]}), None)
    if twice is not None:
        raise ConfigError(f"{path}: two benchmarks are called {twice!r}. Name each once.")
    return names
