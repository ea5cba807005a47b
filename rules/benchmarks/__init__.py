"""Benchmark definitions: the shipped TOML files and the loader that validates them.

`rules` owns the sections `[benchmark] [quality] [score] [closed]`; `[model] [data] [train] [runtime]` are
opaque here and are parsed by `reference_models`. `[closed]` and `[train]` are written in mllog keys, so a
field that the closed division leaves free carries the same name in both.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rules.errors import DefinitionError, did_you_mean

SCHEMA_VERSION = 1
_FOLDER = Path(__file__).parent
_SECTIONS = ("benchmark", "quality", "score", "closed", "model", "data", "train", "runtime")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """When a run has reached its goal, and how often it may look."""

    metric: str
    target: float
    evals_per_epoch: int
    max_epochs: float
    first_epoch_num: int = 0
    """What the log calls the start of training: 0, or 1 for `dlrm` (training_rules.adoc, 0.7 to 2.1)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How runs become one score: drop the fastest and slowest `drop` runs, mean of the rest."""

    num_runs: int
    method: str
    drop: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """What the closed division allows for one mllog key: free, one exact value, or bounds."""

    free: bool = False
    value: Any = None
    min: float | None = None
    max: float | None = None

    def allows(self, value: object) -> bool:
        """Whether `value` satisfies this constraint; booleans are never numbers here."""
        if self.free:
            return value is not None
        if self.min is not None or self.max is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)
        if isinstance(value, bool) != isinstance(self.value, bool):
            return False
        return bool(value == self.value)

    def __str__(self) -> str:
        if self.free:
            return "any value"
        if self.min is not None or self.max is not None:
            return f"between {self.min} and {self.max}"
        return repr(self.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A problem with a quality target. `sections` holds the opaque tables as they stand in the file."""

    name: str
    version: int
    title: str
    description: str
    status: Literal["own", "official"]
    model: str
    rounds: tuple[str, ...]
    notes: tuple[str, ...]
    quality: Quality
    score: Score
    closed: Mapping[str, Constraint]
    sections: Mapping[str, Mapping[str, Any]]
    definition_sha256: str
    path: Path

    def steps_between_evals(self, train_samples: int, global_batch_size: int) -> int:
        """FLOOR(train_samples / (GBS * evals_per_epoch)) iterations, at least 1 (training_rules.adoc)."""
        return max(1, train_samples // (global_batch_size * self.quality.evals_per_epoch))

    def is_met_by(self, quality: float) -> bool:
        return quality >= self.quality.target


def shipped_names() -> tuple[str, ...]:
    """Names of the benchmarks in this distribution, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_benchmark(name_or_path: str | Path) -> Benchmark:
    """Load a shipped benchmark by name, or a user's TOML file by path.

    Raises DefinitionError with file, field, what was given and what was expected.
    """
    text = str(name_or_path)
    if text.endswith(".toml") or "/" in text:
        path = Path(text)
        if not path.is_file():
            raise DefinitionError(f"{text}: no such benchmark file. Give a path to a TOML definition.")
    else:
        path = _FOLDER / f"{text}.toml"
        if text not in shipped_names():
            raise DefinitionError(f"unknown benchmark {text!r}.{did_you_mean(text, list(shipped_names()))}")
    return parse_benchmark(read_toml(path), path)


def read_toml(path: Path) -> dict[str, Any]:
    """Read one TOML file; syntax and encoding errors become DefinitionError with the place."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise DefinitionError(f"{path}: cannot be read: {error.strerror}") from None


def parse_benchmark(tables: Mapping[str, Any], path: Path) -> Benchmark:
    """Validate the tables of one definition. `path` is only named in messages."""
    fields = _Fields(path)
    fields.check_keys("the file", tables, ("schema_version", *_SECTIONS))
    if tables.get("schema_version") != SCHEMA_VERSION:
        raise DefinitionError(
            f"{path}: schema_version is {tables.get('schema_version')!r}, this version reads {SCHEMA_VERSION}."
        )
    for section in _SECTIONS:
        if not isinstance(tables.get(section, {} if section == "runtime" else None), Mapping):
            raise DefinitionError(f"{path}: section [{section}] is missing or not a table.")
    head, quality, score = tables["benchmark"], tables["quality"], tables["score"]
    fields.check_keys(
        "[benchmark]", head, ("name", "version", "title", "description", "status", "model", "rounds", "notes")
    )
    fields.check_keys("[quality]", quality, ("metric", "target", "evals_per_epoch", "max_epochs", "first_epoch_num"))
    fields.check_keys("[score]", score, ("num_runs", "method", "drop"))
    name = fields.text("benchmark", head, "name")
    if not _NAME.match(name):
        raise DefinitionError(f"{path}: benchmark.name {name!r}: use lower case letters, digits and '_'.")
    status = fields.text("benchmark", head, "status", "own")
    if status not in ("own", "official"):
        raise DefinitionError(f"{path}: benchmark.status {status!r}: expected 'own' or 'official'.")
    metric = fields.text("quality", quality, "metric")
    if metric != "roc_auc":
        raise DefinitionError(f"{path}: quality.metric {metric!r}: only 'roc_auc' is known.")
    method = fields.text("score", score, "method", "olympic_mean")
    if method != "olympic_mean":
        raise DefinitionError(f"{path}: score.method {method!r}: only 'olympic_mean' is known.")
    num_runs = fields.whole("score", score, "num_runs", low=1)
    drop = fields.whole("score", score, "drop", default=1, low=0)
    if num_runs <= 2 * drop:
        raise DefinitionError(f"{path}: score.num_runs {num_runs}: must exceed twice score.drop ({drop}).")
    sections = {s: dict(tables.get(s, {})) for s in ("model", "data", "train", "runtime")}
    closed = {key: _constraint(path, key, rule) for key, rule in tables["closed"].items()}
    _check_train_agrees(path, sections["train"], closed)
    return Benchmark(
        name=name,
        version=fields.whole("benchmark", head, "version", low=1),
        title=fields.text("benchmark", head, "title"),
        description=fields.text("benchmark", head, "description", ""),
        status="official" if status == "official" else "own",
        model=fields.text("benchmark", head, "model"),
        rounds=fields.texts("benchmark", head, "rounds"),
        notes=fields.texts("benchmark", head, "notes"),
        quality=Quality(
            metric=metric,
            target=fields.number("quality", quality, "target", low=0.5, high=1.0),
            evals_per_epoch=fields.whole("quality", quality, "evals_per_epoch", low=1),
            max_epochs=fields.number("quality", quality, "max_epochs", low=1e-6, high=1e6),
            first_epoch_num=fields.whole("quality", quality, "first_epoch_num", default=0, low=0),
        ),
        score=Score(num_runs=num_runs, method=method, drop=drop),
        closed=closed,
        sections=sections,
        definition_sha256=definition_sha256(tables),
        path=path,
    )


def definition_sha256(tables: Mapping[str, Any]) -> str:
    """Digest of the problem: canonical JSON of all sections but [runtime], without the free fields."""
    free = {key for key, rule in tables["closed"].items() if rule == "free"}
    content = {section: tables[section] for section in _SECTIONS if section != "runtime"}
    content["train"] = {key: value for key, value in tables["train"].items() if key not in free}
    return canonical_sha256(content)


def canonical_sha256(content: object) -> str:
    """sha256 of JSON with sorted keys and no white space; 1 and 1.0 are the same number."""
    return hashlib.sha256(
        json.dumps(_canonical(content), sort_keys=True, separators=(",", ":"), default=str).encode()
    ).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _constraint(path: Path, key: str, rule: Any) -> Constraint:
    if rule == "free":
        return Constraint(free=True)
    if isinstance(rule, Mapping):
        bad = sorted(set(rule) - {"min", "max"})
        limits = [rule.get("min"), rule.get("max")]
        if bad or not rule or any(isinstance(x, bool) or not isinstance(x, int | float | None) for x in limits):
            raise DefinitionError(f"{path}: closed.{key}: expected 'free', a value, or {{min = …, max = …}}.")
        return Constraint(min=limits[0], max=limits[1])
    if isinstance(rule, list):
        raise DefinitionError(f"{path}: closed.{key}: a list is not a constraint; give one value or bounds.")
    return Constraint(value=rule)


def _check_train_agrees(path: Path, train: Mapping[str, Any], closed: Mapping[str, Constraint]) -> None:
    for key, constraint in closed.items():
        if key in train and not constraint.allows(train[key]):
            raise DefinitionError(
                f"{path}: train.{key} = {train[key]!r} contradicts closed.{key} ({constraint}). Change one."
            )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Typed access to one table, with messages that name file, field, what was given and expected."""

    path: Path

    def check_keys(self, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                raise DefinitionError(f"{self.path}: unknown key {key!r} in {where}.{did_you_mean(key, [*known])}")

    def text(self, section: str, table: Mapping[str, Any], key: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if not isinstance(value, str):
            raise DefinitionError(f"{self.path}: {section}.{key} is {value!r}, expected a string.")
        return value

    def texts(self, section: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise DefinitionError(f"{self.path}: {section}.{key} is {value!r}, expected a list of strings.")
        return tuple(value)

    def whole(self, section: str, table: Mapping[str, Any], key: str, *, default: int | None = None, low: int) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise DefinitionError(
                f"{self.path}: {section}.{key} is {value!r}, expected a whole number of at least {low}."
            )
        return value

    def number(self, section: str, table: Mapping[str, Any], key: str, *, low: float, high: float) -> float:
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise DefinitionError(
                f"{self.path}: {section}.{key} is {value!r}, expected a number from {low} to {high}."
            )
        return float(value)
