"""Benchmark definitions: the shipped TOML files and the loader that validates them.

`rules` owns the sections `[benchmark] [quality] [score] [closed]` and, where the Open division fixes something
too, `[open]`; `[model] [data] [train] [runtime]` are opaque here and are parsed by `reference_models`. `[closed]`,
`[open]` and `[train]` are written in mllog keys, so a field that a division leaves free has the same name in all.
A workload (status `workload`) has no `[quality] [score] [closed]`: it is a model's shape to measure throughput on,
and nothing there can be judged.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rules.benchmarks.constraints import Constraint, parse_constraint
from rules.errors import DefinitionError, did_you_mean

SCHEMA_VERSION = 1
_FOLDER = Path(__file__).parent
_WORKLOADS = _FOLDER / "workloads"
_JUDGED = ("quality", "score", "closed")
_OPTIONAL = ("runtime", "open")
_SECTIONS = ("benchmark", *_JUDGED, "model", "data", "train", "runtime", "open")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstEval:
    """Where evaluation begins: at the first point of the grid that is at or after
    FLOOR((slope * global_batch_size + offset) / divisor) samples (closed_dlrmv4.yaml)."""

    slope: int
    offset: int
    divisor: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """When a run has reached its goal, and how often it may look."""

    metric: str
    target: float
    evals_per_epoch: int
    max_epochs: float
    first_epoch_num: int = 0
    """What the log calls the start of training: 0, or 1 for `dlrm` (training_rules.adoc, 0.7 to 2.1)."""
    interval_rounding: Literal["down", "up"] = "down"
    """To whole batches; "up" for `dlrmv4` (closed_dlrmv4.yaml), whose points are also on a grid of samples."""
    convergence_unit: Literal["epoch_num", "samples_count"] = "epoch_num"
    """The metadata of eval_accuracy by which convergence is measured, and its reference points are given."""
    first_eval: FirstEval | None = None
    binds_open: bool = False
    """Whether a run of the Open division, too, must meet the target (open_dlrmv4.yaml)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How runs become one score: drop the fastest and slowest `drop` runs, mean of the rest."""

    num_runs: int
    method: str
    drop: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A problem with a quality target. `sections` holds the opaque tables as they are in the file.

    A workload states no quality and no score; asking one for them raises DefinitionError.
    """

    name: str
    version: int
    title: str
    description: str
    status: Literal["own", "official", "workload"]
    model: str
    rounds: tuple[str, ...]
    notes: tuple[str, ...]
    stated_quality: Quality | None
    stated_score: Score | None
    closed: Mapping[str, Constraint]
    open: Mapping[str, Constraint]
    sections: Mapping[str, Mapping[str, Any]]
    definition_sha256: str
    path: Path

    @property
    def quality(self) -> Quality:
        if self.stated_quality is None:
            raise self._no_target()
        return self.stated_quality

    @property
    def score(self) -> Score:
        if self.stated_score is None:
            raise self._no_target()
        return self.stated_score

    def _no_target(self) -> DefinitionError:
        return DefinitionError(
            f"{self.name} is a workload without a quality target: nothing can be trained to one or scored. "
            "Measure its throughput with 'run' or 'sweep' and --throughput STEPS."
        )

    def steps_between_evals(self, train_samples: int, global_batch_size: int) -> int:
        """FLOOR(train_samples / (GBS * evals_per_epoch)) iterations, at least 1 (training_rules.adoc); CEIL for
        benchmarks that round up."""
        size = global_batch_size * self.quality.evals_per_epoch
        down = self.quality.interval_rounding == "down"
        return max(1, train_samples // size if down else -(-train_samples // size))

    def first_eval_samples(self, train_samples: int, global_batch_size: int) -> int:
        """Samples trained when quality is looked at first: one interval, or where `first_eval` says."""
        interval = self.steps_between_evals(train_samples, global_batch_size) * global_batch_size
        first = self.quality.first_eval
        if first is None:
            return interval
        return -(-((first.slope * global_batch_size + first.offset) // first.divisor) // interval) * interval

    def is_met_by(self, quality: float) -> bool:
        return quality >= self.quality.target


@cache
def shipped_names() -> tuple[str, ...]:
    """Names of the benchmarks in this distribution, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def workload_names() -> tuple[str, ...]:
    """Names of the workloads without a quality target in this distribution, sorted."""
    return tuple(sorted(path.stem for path in _WORKLOADS.glob("*.toml")))


def load_benchmark(name_or_path: str | Path) -> Benchmark:
    """Load a shipped benchmark or workload by name, or a user's TOML file by path.

    Raises DefinitionError with file, field, what was given and what was expected.
    """
    text = str(name_or_path)
    if text.endswith(".toml") or "/" in text:
        path = Path(text)
        if not path.is_file():
            raise DefinitionError(f"{text}: no such benchmark file. Give a path to a TOML definition.")
    else:
        known = [*shipped_names(), *workload_names()]
        if text not in known:
            raise DefinitionError(f"unknown benchmark {text!r}.{did_you_mean(text, known)}")
        path = (_WORKLOADS if text in workload_names() else _FOLDER) / f"{text}.toml"
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
    head = tables.get("benchmark")
    is_workload = isinstance(head, Mapping) and head.get("status") == "workload"
    for section in _SECTIONS:
        if is_workload and section in _JUDGED:
            if section in tables:
                raise DefinitionError(f"{path}: a workload has no target, so section [{section}] has no place in it.")
        elif not isinstance(tables.get(section, {} if section in _OPTIONAL else None), Mapping):
            raise DefinitionError(f"{path}: section [{section}] is missing or not a table.")
    head = tables["benchmark"]
    fields.check_keys(
        "[benchmark]", head, ("name", "version", "title", "description", "status", "model", "rounds", "notes")
    )
    name = fields.text("benchmark", head, "name")
    if not _NAME.match(name):
        raise DefinitionError(f"{path}: benchmark.name {name!r}: use lower case letters, digits and '_'.")
    status = fields.text("benchmark", head, "status", "own")
    if status not in ("own", "official", "workload"):
        raise DefinitionError(f"{path}: benchmark.status {status!r}: expected 'own', 'official' or 'workload'.")
    sections = {s: dict(tables.get(s, {})) for s in ("model", "data", "train", "runtime")}
    closed = {key: parse_constraint(path, f"closed.{key}", rule) for key, rule in tables.get("closed", {}).items()}
    open_ = {key: parse_constraint(path, f"open.{key}", rule) for key, rule in tables.get("open", {}).items()}
    _check_train_agrees(path, sections["train"], closed)
    return Benchmark(
        name=name,
        version=fields.whole("benchmark", head, "version", low=1),
        title=fields.text("benchmark", head, "title"),
        description=fields.text("benchmark", head, "description", ""),
        status="official" if status == "official" else "workload" if is_workload else "own",
        model=fields.text("benchmark", head, "model"),
        rounds=fields.texts("benchmark", head, "rounds"),
        notes=fields.texts("benchmark", head, "notes"),
        stated_quality=None if is_workload else _parse_quality(fields, tables["quality"]),
        stated_score=None if is_workload else _score(fields, tables["score"]),
        closed=closed,
        open=open_,
        sections=sections,
        definition_sha256=definition_sha256(tables),
        path=path,
    )


def _score(fields: "_Fields", table: Mapping[str, Any]) -> Score:
    fields.check_keys("[score]", table, ("num_runs", "method", "drop"))
    method = fields.text("score", table, "method", "olympic_mean")
    if method != "olympic_mean":
        raise DefinitionError(f"{fields.path}: score.method {method!r}: only 'olympic_mean' is known.")
    num_runs = fields.whole("score", table, "num_runs", low=1)
    drop = fields.whole("score", table, "drop", default=1, low=0)
    if num_runs <= 2 * drop:
        raise DefinitionError(f"{fields.path}: score.num_runs {num_runs}: must exceed twice score.drop ({drop}).")
    return Score(num_runs=num_runs, method=method, drop=drop)


def _parse_quality(fields: "_Fields", quality: Mapping[str, Any]) -> Quality:
    fields.check_keys("[quality]", quality, tuple(field.name for field in dataclass_fields(Quality)))
    metric = fields.text("quality", quality, "metric")
    if metric != "roc_auc":
        raise DefinitionError(f"{fields.path}: quality.metric {metric!r}: only 'roc_auc' is known.")
    rounding = fields.text("quality", quality, "interval_rounding", "down")
    if rounding not in ("down", "up"):
        raise DefinitionError(f"{fields.path}: quality.interval_rounding {rounding!r}: expected 'down' or 'up'.")
    unit = fields.text("quality", quality, "convergence_unit", "epoch_num")
    if unit not in ("epoch_num", "samples_count"):
        raise DefinitionError(
            f"{fields.path}: quality.convergence_unit {unit!r}: expected 'epoch_num' or 'samples_count'."
        )
    binds_open = quality.get("binds_open", False)
    if not isinstance(binds_open, bool):
        raise DefinitionError(f"{fields.path}: quality.binds_open is {binds_open!r}, expected true or false.")
    return Quality(
        metric=metric,
        target=fields.number("quality", quality, "target", low=0.5, high=1.0),
        evals_per_epoch=fields.whole("quality", quality, "evals_per_epoch", low=1),
        max_epochs=fields.number("quality", quality, "max_epochs", low=1e-6, high=1e6),
        first_epoch_num=fields.whole("quality", quality, "first_epoch_num", default=0, low=0),
        interval_rounding="up" if rounding == "up" else "down",
        convergence_unit="samples_count" if unit == "samples_count" else "epoch_num",
        first_eval=_parse_first_eval(fields, quality.get("first_eval")),
        binds_open=binds_open,
    )


def _parse_first_eval(fields: "_Fields", table: Any) -> FirstEval | None:
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise DefinitionError(f"{fields.path}: quality.first_eval is {table!r}, expected a table.")
    fields.check_keys("quality.first_eval", table, ("slope", "offset", "divisor"))
    return FirstEval(
        slope=fields.whole("quality.first_eval", table, "slope", low=0),
        offset=fields.whole("quality.first_eval", table, "offset", low=0),
        divisor=fields.whole("quality.first_eval", table, "divisor", low=1),
    )


def definition_sha256(tables: Mapping[str, Any]) -> str:
    """Digest of the problem: canonical JSON of all sections but [runtime], without the free fields."""
    free = {key for key, rule in tables.get("closed", {}).items() if rule == "free"}
    content = {section: tables[section] for section in _SECTIONS if section != "runtime" and section in tables}
    if content["data"].get("kind") == "synthetic":
        content["data"] = {**content["data"], "kind": "made_up"}  # one kind, by its older name
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


def _check_train_agrees(path: Path, train: Mapping[str, Any], closed: Mapping[str, Constraint]) -> None:
    for key, constraint in closed.items():
        if key in train and not constraint.resolve(train.get).allows(train[key]):
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
