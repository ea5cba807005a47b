"""Load and validate benchmark definitions (TOML files): those shipped with the harness, and a user's own.

`rules` owns the sections `[benchmark] [quality] [score] [closed]` and, if the Open division fixes values too,
`[open]`. This module does not interpret other sections: `reference_models` parses `[model] [data] [id_map] [train]
[runtime] [checkpoint]`, and each extension parses the sections that it defines. `[closed]`, `[open]` and `[train]`
are written in mllog keys, so a setting has the same name in all three. A workload (status `workload`) is a model's
shape for measuring throughput, or quality without a target. It has no `[quality] [score] [closed]`, and cannot be
judged.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta, ValidationError, convert

from rules.benchmarks.constraints import Constraint, parse_constraint
from rules.benchmarks.toml_file import parse_toml, read_bytes
from rules.benchmarks.toml_file import read_toml as read_toml
from rules.errors import DefinitionError, did_you_mean
from rules.extensions import find_places
from rules.logs.log import as_whole
from rules.records.codec import Count, PositiveCount, say_expected
from rules.records.metrics import METRICS, Metric, MetricName

SCHEMA_VERSION = 1
_FOLDER = Path(__file__).parent
_WORKLOADS = _FOLDER / "workloads"
_JUDGED = ("quality", "score", "closed")
_NEAR, _NAME_CHARS = 0.8, 100
_ALIASES = {"dlrm_v4_hstu": "dlrmv4"}
"""Names of benchmarks in the text of MLPerf's rules of round 6.1, mapped to their names in logs and checkers."""
NOT_THE_PROBLEM = ("runtime", "checkpoint", *find_places("sections"))
"""Sections of a benchmark definition that may be left out, and that are not part of the definition's digest, since
they do not change the training problem."""
_OPAQUE = ("model", "data", "id_map", "train", *NOT_THE_PROBLEM)
_SECTIONS = ("benchmark", *_JUDGED, *_OPAQUE, "open")
_MAY_BE_LEFT_OUT = (*NOT_THE_PROBLEM, "open", "id_map")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstEval:
    """Start of evaluation: the first evaluation is after FLOOR((slope * global_batch_size + offset) / divisor)
    samples, rounded up to a multiple of the evaluation interval (closed_dlrmv4.yaml)."""

    slope: Count
    """Factor of global_batch_size in the formula for the first evaluation, FLOOR((slope * global_batch_size + offset)
    / divisor) samples."""
    offset: Count
    """Number added in the formula for the first evaluation, FLOOR((slope * global_batch_size + offset) / divisor)
    samples."""
    divisor: PositiveCount
    """Divisor in the formula for the first evaluation, FLOOR((slope * global_batch_size + offset) / divisor)
    samples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """Quality target of a run, and the schedule of evaluations."""

    metric: MetricName
    """Metric of an evaluation: `roc_auc`, the exact area under the ROC curve, or `accuracy`, the share of samples
    whose most likely class is the right one, the mean over tasks. The model must compute it."""
    target: Annotated[float, Meta(ge=0.5, le=1, description="a number from 0.5 to 1")]
    """Quality at which a run ends. `dlrmbench calibrate` suggests one."""
    evals_per_epoch: PositiveCount
    """Number of evaluations per epoch, at equal distances in samples."""
    max_epochs: Annotated[float, Meta(ge=1e-6, le=1e6, description="a number from 1e-6 to 1e6")]
    """Number of epochs after which a run ends even if it has not reached the target."""
    first_epoch_num: Count = 0
    """Value of epoch_num at the start of training: 0, or 1 for `dlrm` (training_rules.adoc of rounds 0.7 to 2.1)."""
    interval_rounding: Literal["down", "up"] = "down"
    """Rounding of the evaluation interval to whole batches. It is "up" for `dlrmv4` (closed_dlrmv4.yaml), which
    evaluates after whole multiples of the interval in samples."""
    convergence_unit: Literal["epoch_num", "samples_count"] = "epoch_num"
    """Key in the metadata of eval_accuracy whose value measures how fast a run converged; reference convergence
    points are in the same unit."""
    first_eval: FirstEval | None = None
    """Formula for the samples before the first evaluation; None if the first evaluation is after one evaluation
    interval."""
    binds_open: bool = False
    """Whether runs of the Open division, too, must meet the target (open_dlrmv4.yaml)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Scoring of a result set: drop the fastest and slowest `drop` runs, take the mean of the times to train of the
    rest."""

    num_runs: PositiveCount
    """Number of runs in a score, each with a seed of its own."""
    method: Literal["olympic_mean"] = "olympic_mean"
    """Scoring method: the mean of the times to train that remain when the fastest and the slowest runs are
    dropped."""
    drop: Count = 1
    """Number of runs dropped at each end, the fastest and the slowest; one of the slowest may be a run that missed
    the target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Section [benchmark]: the definition's name, version and description."""

    name: Annotated[
        str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}(?!\n)$", description="lower case letters, digits and '_'")
    ]
    """Name of the benchmark in commands, logs and folders; a benchmark of your own may not have the name of a shipped
    one."""
    version: PositiveCount
    """Version of the definition, raised whenever the training problem changes; results of two versions are never
    compared."""
    title: str
    """Title of the benchmark in one line, for readers."""
    description: str = ""
    """Longer description of the benchmark, for readers."""
    status: Literal["own", "official", "workload"] = "own"
    """Kind of definition: `own` for a user's own benchmark, `official` for MLPerf's, `workload` for a model's shape
    without a quality target. A workload has no `[quality]`, `[score]` and `[closed]`. It serves measurements with
    `--throughput`, and with `--quality` if a model can learn from its data."""
    model: str
    """Model that trains: `dlrm` (DLRM and DLRM-DCNv2), `wukong`, `hstu` (DLRMv4), `d2nn`; others by entry point."""
    rounds: tuple[str, ...] = ()
    """MLPerf Training rounds that use this definition; empty for a benchmark of your own."""
    notes: tuple[str, ...] = ()
    """Remarks for readers of results."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark(Head):
    """Benchmark: a training problem with a quality target, from its definition. `sections` holds the TOML tables that
    other packages parse, as they are in the file.

    A workload (a model's shape to measure without a target) states no quality target and no score; access to these
    raises DefinitionError.
    """

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
    def metric(self) -> Metric:
        """Return the quality metric of the benchmark's evaluations, such as ROC AUC."""
        return METRICS[self.quality.metric]

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
        """Return the number of training steps between evaluations: FLOOR(train_samples / (GBS * evals_per_epoch)), at
        least 1 (training_rules.adoc; GBS is the global batch size); CEIL for benchmarks that round up."""
        size = global_batch_size * self.quality.evals_per_epoch
        down = self.quality.interval_rounding == "down"
        return max(1, train_samples // size if down else -(-train_samples // size))

    def first_eval_samples(self, train_samples: int, global_batch_size: int) -> int:
        """Return the number of samples trained before the first evaluation: one evaluation interval, or as
        `first_eval` states."""
        interval = self.steps_between_evals(train_samples, global_batch_size) * global_batch_size
        first = self.quality.first_eval
        if first is None:
            return interval
        return -(-((first.slope * global_batch_size + first.offset) // first.divisor) // interval) * interval

    def data_samples(self, key: str) -> int | None:
        """Return the number of samples that the definition fixes for the key train_samples or eval_samples; None
        where the dataset's size decides."""
        constraint = self.closed.get(key)
        value = constraint.value if constraint is not None else None
        return as_whole(self.sections.get("data", {}).get(key) if value is None else value)

    def is_met_by(self, quality: float) -> bool:
        return quality >= self.quality.target


def guess_meant_name(name: object) -> str | None:
    """Return the name of the shipped benchmark that a user probably means by an unknown name; None if no name is
    similar. It is the benchmark for which the text of MLPerf's rules uses the unknown name, else the one with the
    most similar name."""
    text = "_".join(str(name)[:_NAME_CHARS].lower().replace("-", " ").split())
    if (alias := _ALIASES.get(text)) is not None:
        return alias
    return next(iter(get_close_matches(text, shipped_names(), n=1, cutoff=_NEAR)), None)


@cache
def shipped_names() -> tuple[str, ...]:
    """Return the names of the benchmarks that come with this distribution, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def shipped_versions(name: str) -> tuple[Benchmark, ...]:
    """Return the definitions of all versions of a shipped benchmark, the current one last; none for any other name.

    Older versions are still read, and run where a user names them (NAME@VERSION), so that their results stay valid.
    """
    if name not in shipped_names():
        return ()
    older = (_load(path) for path in _FOLDER.glob(f"version_*/{name}.toml"))
    return (*sorted(older, key=lambda benchmark: benchmark.version), _load(_FOLDER / f"{name}.toml"))


def shipped_twin(benchmark: Benchmark) -> Benchmark | None:
    """Return the version of a shipped definition that has the name and the content of `benchmark`; None if there is
    no such version."""
    versions = shipped_versions(benchmark.name)
    return next((known for known in versions if known.definition_sha256 == benchmark.definition_sha256), None)


def list_versions(name: str) -> str:
    """Return in words the versions of a shipped benchmark that this distribution has: '1 and 2, the current one'."""
    *older, current = (str(benchmark.version) for benchmark in shipped_versions(name))
    return f"{', '.join(older)} and {current}, the current one" if older else current


@cache
def list_workload_names() -> tuple[str, ...]:
    """Return the names of the workloads (model shapes without a quality target) that come with this distribution,
    sorted."""
    return tuple(sorted(path.stem for path in _WORKLOADS.glob("*.toml")))


def load_benchmark(name_or_path: str | Path) -> Benchmark:
    """Load the definition of a shipped benchmark or workload by its name, or a user's own TOML file by its path.

    NAME@VERSION means that version of a shipped benchmark; NAME alone means the current version. Raises
    DefinitionError if there is no such definition or if it is invalid. The error states file, field, the value given
    and the value expected.
    """
    text = str(name_or_path)
    if text.endswith(".toml") or "/" in text:
        path = Path(text)
        if not path.is_file():
            raise DefinitionError(f"{text}: no such file. Give the path of a TOML definition.")
        return _load(path)
    name, at, version = text.partition("@")
    known = [*shipped_names(), *list_workload_names()]
    if name not in known:
        raise DefinitionError(f"unknown benchmark {text!r}.{did_you_mean(name, known)}")
    if not at:
        return _load((_WORKLOADS if name in list_workload_names() else _FOLDER) / f"{name}.toml")
    found = next((benchmark for benchmark in shipped_versions(name) if str(benchmark.version) == version), None)
    if found is None:
        versions = list_versions(name) if name in shipped_names() else "none, as a workload"
        raise DefinitionError(f"{text!r}: {name} has no version {version!r} here. Known: {versions}.")
    return found


def read_definition(path: Path) -> dict[str, Any]:
    """Read the tables of a benchmark definition, without sections of extensions that this installation does not have.

    Raises DefinitionError.
    """
    return _known_tables(parse_toml(read_bytes(path), path))


def read_definition_text(path: Path) -> str:
    """Return the TOML text of a benchmark definition, without the sections that `read_definition` leaves out.

    Raises DefinitionError.
    """
    content = read_bytes(path)
    tables, text = parse_toml(content, path), content.decode("utf-8")
    for name in tables.keys() - _known_tables(tables).keys():
        text = re.sub(rf"^\[{re.escape(name)}\]\n(?:(?!\[).*\n?)*", "", text, flags=re.MULTILINE)
    return text


def _known_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition's tables without the sections of extensions that this installation lacks. Such sections are
    known from the shipped definitions; any other unknown section is kept."""
    if tables.keys() <= {"schema_version", *_SECTIONS}:
        return dict(tables)
    return {name: table for name, table in tables.items() if name not in _absent_sections()}


@cache
def _absent_sections() -> frozenset[str]:
    paths = (path for folder in (_FOLDER, _WORKLOADS) for path in folder.glob("*.toml"))
    names = {name for path in paths for name in parse_toml(read_bytes(path), path)}
    return frozenset(names - {"schema_version", *_SECTIONS})


def _load(path: Path) -> Benchmark:
    content = read_bytes(path)
    known = _parse_known(content)
    if known is None:
        return parse_benchmark(parse_toml(content, path), path)
    return replace(known, path=path, sections={name: dict(table) for name, table in known.sections.items()})


@lru_cache(maxsize=32)
def _parse_known(content: bytes) -> Benchmark | None:
    """Parse a benchmark definition from its bytes; None where they are no definition. Cached, since many result sets
    hold the same copy."""
    try:
        return parse_benchmark(parse_toml(content, Path()), Path())
    except DefinitionError:
        return None


def parse_benchmark(tables: Mapping[str, Any], path: Path) -> Benchmark:
    """Validate the tables of one benchmark definition. `path` is only kept and named in messages, not opened. Raises
    DefinitionError."""
    tables = _known_tables(tables)
    _refuse_unknown(path, "the file", tables, ("schema_version", *_SECTIONS))
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
        elif not isinstance(tables.get(section, {} if section in _MAY_BE_LEFT_OUT else None), Mapping):
            raise DefinitionError(f"{path}: section [{section}] is missing or not a table.")
    head = _read(path, "benchmark", tables["benchmark"], Head)
    if head.status == "official" and "id_map" in tables:
        raise DefinitionError(
            f"{path}: [id_map] in an official benchmark, {head.name}: its tables are as MLPerf says, so id_map.kind, "
            "id_map.budget and id_map.samples have no place there. Map the ids of another benchmark."
        )
    opaque = [name for name in _OPAQUE if name in tables or name == "runtime"]
    sections = {section: dict(tables.get(section, {})) for section in opaque}
    closed = {key: parse_constraint(path, f"closed.{key}", rule) for key, rule in tables.get("closed", {}).items()}
    open_ = {key: parse_constraint(path, f"open.{key}", rule) for key, rule in tables.get("open", {}).items()}
    _check_train_agrees(path, sections["train"], closed)
    return Benchmark(
        **{field.name: getattr(head, field.name) for field in fields(Head)},
        stated_quality=None if is_workload else _read_quality(path, tables["quality"]),
        stated_score=None if is_workload else _read_score(path, tables["score"]),
        closed=closed,
        open=open_,
        sections=sections,
        definition_sha256=definition_sha256(tables),
        path=path,
    )


def _read_score(path: Path, table: Mapping[str, Any]) -> Score:
    score = _read(path, "score", table, Score)
    if score.num_runs > 2 * score.drop:
        return score
    raise DefinitionError(f"{path}: score.num_runs {score.num_runs}: must exceed twice score.drop ({score.drop}).")


def _read_quality(path: Path, table: Mapping[str, Any]) -> Quality:
    quality = _read(path, "quality", {key: value for key, value in table.items() if key != "first_eval"}, Quality)
    if "first_eval" not in table:
        return quality
    return replace(quality, first_eval=_read(path, "quality.first_eval", table["first_eval"], FirstEval))


def definition_sha256(tables: Mapping[str, Any]) -> str:
    """Return the digest of a definition's training problem: the SHA-256 of the definition as canonical JSON. The
    sections in `NOT_THE_PROBLEM`, such as [runtime], and the fields of [train] that the Closed division leaves free
    are left out."""
    free = {key for key, rule in tables.get("closed", {}).items() if rule == "free"}
    content = {name: tables[name] for name in _SECTIONS if name not in NOT_THE_PROBLEM and name in tables}
    if content.get("id_map", {}).get("kind", "none") == "none":
        content.pop("id_map", None)  # the default leaves the digest as it was before the metric could be chosen
    if content["data"].get("kind") == "synthetic":
        content["data"] = {**content["data"], "kind": "made_up"}  # an older name of the same kind
    content["train"] = {key: value for key, value in tables["train"].items() if key not in free}
    return canonical_sha256(content)


def canonical_sha256(content: object) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys and no white space; 1 and 1.0 are the same number."""
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


def _refuse_unknown(path: Path, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in (names := list(known)):
            raise DefinitionError(f"{path}: unknown key {key!r} in {where}.{did_you_mean(key, names)}")


def _read(path: Path, where: str, table: Any, kind: type[T]) -> T:
    """Return one table of a definition as a record, a data class whose types state what values are allowed. Raises
    DefinitionError."""
    if not isinstance(table, Mapping):
        raise DefinitionError(f"{path}: {where} is {table!r}, expected a table.")
    hints = get_type_hints(kind, include_extras=True)
    _refuse_unknown(path, f"[{where}]", table, hints)
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in table and field.default is MISSING:
            raise DefinitionError(f"{path}: {where}.{field.name} is missing.")
        if field.name in table:
            try:
                values[field.name] = convert(table[field.name], hints[field.name])
            except ValidationError as error:
                raise DefinitionError(
                    f"{path}: {where}.{field.name} is {table[field.name]!r}, expected "
                    f"{_expected(hints[field.name], str(error))}."
                ) from None
    return kind(**values)


def _expected(hint: Any, error: str) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    described = [meta.description for meta in get_args(hint)[1:] if isinstance(meta, Meta) and meta.description]
    if described:
        return described[0]
    return say_expected(error)
