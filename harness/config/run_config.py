"""Resolve every value of a run's configuration, with the source of each (RunConfig).

From weakest to strongest, the sources are: definition, configuration file, environment (DLRMBENCH_), --set, option.
Some values make the benchmark what it is: a user who changes one of these must give the benchmark another name.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.config import catalog
from harness.config.catalog import MODEL_KEY, WorkloadConfig, parse_recorded, refuse_model_file
from harness.config.sections import CHECKPOINT, Section, find_sections, sections_aside, sections_of_problem
from harness.config.sharding_plan import refuse_other_plan, take_plan
from harness.config.synthetic import use_synthetic_data
from harness.foundation.errors import HarnessError
from harness.system.submission import SubmissionValue, check_field
from reference_models.config.sections import TRAIN_SECTIONS, RuntimeConfig
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.registry import find_model, is_model, parse_place, pin_code
from rules.benchmarks.loader import (
    NOT_THE_PROBLEM,
    Benchmark,
    canonical_sha256,
    list_workload_names,
    load_benchmark,
    parse_benchmark,
    read_definition,
    read_toml,
    shipped_names,
    shipped_versions,
)
from rules.benchmarks.toml_file import parse_toml
from rules.errors import DefinitionError
from rules.logs import keys

ENV_PREFIX = "DLRMBENCH_"
OWN_VARIABLES = ("DATA", "OUTPUT", "SYSTEMS", "DEBUG")
OVERRIDABLE = ("model", "data", "id_map", "train", *NOT_THE_PROBLEM, "quality", "score")
DERIVED = "Derived from "
"""First words of the note in a derived benchmark's definition that names the original benchmark and the changed keys.
"""
WORLD_SOURCE = "the world's size"
"""Source that is recorded for the number of ranks where torchrun or srun started the ranks."""
SUBMISSION = "submission"
_SECTIONS = (*OVERRIDABLE, SUBMISSION)
"""Sections in which users may give values: a definition's, and [submission]."""
_KNOWN_KEYS: Mapping[str, tuple[str, ...]] = {
    "train": tuple(sorted({key for section in TRAIN_SECTIONS.values() for key in section.__dataclass_fields__})),
    "runtime": (*RuntimeConfig.__dataclass_fields__, MODEL_KEY),
}
_UNSAID = ("graph", "kernels")
"""Keys of [runtime] that a run set's record lists only if the user or the definition gave them. Run sets of earlier
versions lack these keys."""
_NAMED_OTHERWISE = {
    "train.batch_size": "train.global_batch_size",
    "train.learning_rate": "train.opt_base_learning_rate",
    "runtime.num_threads": "runtime.threads",
}
"""Names that other programs give to configuration keys, each with dlrmbench's name for the key. Error messages
suggest dlrmbench's name; the key of the most similar spelling would be a wrong suggestion."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """One value that a user gives instead of the benchmark definition's value, and the source of the user's value.
    `key` is "section.name", or "section.name.inner" for a key of a table inside the section."""

    key: str
    value: Any
    source: str


Reshape = Callable[[dict[str, Any], dict[str, str]], None]
"""Function that adjusts the definition's tables (TOML) and the sources of their values, in place, where the user
requests data of another shape; it raises an error for a shape that it does not allow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """Configuration of a benchmark as it is going to run: `tables` is the effective definition, `sources` has the
    source of each changed key."""

    benchmark: Benchmark
    workload: WorkloadConfig
    tables: Mapping[str, Any]
    sources: Mapping[str, str]
    label: str
    submission: Mapping[str, SubmissionValue]

    def values(self) -> dict[str, dict[str, Any]]:
        """Return {"section.key": {"value", "source"}} for every configuration value that affects the run."""
        resolved: dict[str, dict[str, Any]] = {}
        for section in OVERRIDABLE:
            for key, value in self.tables.get(section, {}).items():
                name = f"{section}.{key}"
                resolved[name] = {"value": value, "source": self.sources.get(name, "definition")}
        for name, value in self._defaults():
            resolved.setdefault(name, {"value": "auto" if value is None else value, "source": "default"})
        return resolved

    def _defaults(self) -> Iterator[tuple[str, Any]]:
        """Yield the default values of [runtime] and of the definition's optional sections, by "section.key"."""
        for section in sections_of_problem():
            yield from self._defaults_of(section)
        for key, value in asdict(self.workload.runtime).items():
            if key not in _UNSAID or value not in (None, "auto"):
                yield f"runtime.{key}", value
        for section in sections_aside():
            yield from self._defaults_of(section)

    def _defaults_of(self, section: Section) -> Iterator[tuple[str, Any]]:
        if section.name in self.tables:
            for key, value in section.list_defaults(section.read(self.tables[section.name])).items():
                yield f"{section.name}.{key}", value

    def digest(self) -> str:
        """Return a short digest of all resolved values, for the name of the run set's folder."""
        return canonical_sha256({key: entry["value"] for key, entry in self.values().items()})[:8]


def resolve(
    name_or_path: str | Path,
    overrides: Iterable[Override],
    name: str | None = None,
    *,
    derived_suffix: str | None = None,
    reshape: Reshape = use_synthetic_data,
    sections: Collection[str] = (CHECKPOINT.name,),
) -> RunConfig:
    """Return the configuration of a benchmark with the user's values, `overrides`, applied in their order: a later
    value replaces an earlier one. Raises ConfigError or DefinitionError if a value is invalid.

    If a user changes values that the benchmark fixes, the result is another benchmark, named `name` or, if `name` is
    None, the original's name followed by `derived_suffix`. ConfigError is raised if both are None.

    - `derived_suffix` is given for measurements that do not train to a target. In these, a change of the model's
      shape also changes the keys that depend on it.
    - `reshape` is called if a user changes the shape of the data; it makes the data synthetic or refuses the change.
    - `sections` names the optional sections of a definition that the measurement reads. Other optional sections are
      left out.
    """
    original = load_benchmark(name_or_path)
    catalog.refuse_shipped_name(original)
    tables = read_definition(original.path)
    sources: dict[str, str] = {}
    submission: dict[str, SubmissionValue] = {}
    left_out = {
        name: section.asked_by
        for name, section in find_sections().items()
        if section.asked_by is not None and name not in sections
    }
    tables = {section: table for section, table in tables.items() if section not in left_out}
    for given_override in overrides:
        override = fill_table(given_override, tables)
        section, _, key = override.key.partition(".")
        if section in left_out:
            raise ConfigError(f"{override.source}: {override.key} is only for {left_out[section]}.")
        if section == SUBMISSION:
            field, given = check_field(key, override.value, override.source)
            submission[field] = given
            continue
        check_known(override, tables)
        closed = tables.get("closed", {})
        if section in ("train", "data") and (name or derived_suffix) and closed.get(key, "free") != "free":
            closed[key] = override.value  # the run is of another benchmark, which fixes this value
        table = tables.setdefault(section, {})
        if section == "data" and table.get(key) != override.value:
            table.pop("sha256", None)  # the digest was that of other data
        table[key] = override.value
        before = f"{sources[override.key]}, " if override != given_override and override.key in sources else ""
        sources[override.key] = before + override.source
    _pin_code(original, tables, sources)
    planned = take_plan(tables["runtime"])
    _leave_gpu_precision(tables["runtime"], sources)
    for each in find_sections().values():
        if each.take is not None and each.name not in left_out:
            each.take(tables, sources, original.model)
    if derived_suffix is not None:
        _follow(original.model, tables, sources)
        reshape(tables, sources)
    changed = [key for key in sources if is_fixed(original, key)]
    effective, workload = _parse(tables, original.path, sources)
    label = ""
    if effective.definition_sha256 != original.definition_sha256:
        if name is None and derived_suffix is not None:
            name = original.name + derived_suffix
        tables["benchmark"] = _derived_head(original, tables["benchmark"], name, changed, sources)
        effective, workload = _parse(tables, original.path, sources)
    elif name is not None:
        label = _label(name)
    refuse_other_plan(workload, planned)
    return RunConfig(
        benchmark=effective, workload=workload, tables=tables, sources=sources, label=label, submission=submission
    )


def _pin_code(original: Benchmark, tables: dict[str, Any], sources: Mapping[str, str]) -> None:
    """Add the digests of the user's code files to [runtime]. Raises ConfigError for code files that the definition
    itself names."""
    runtime = dict(tables.get("runtime", {}))
    _refuse_code(original.path, {key: value for key, value in runtime.items() if f"runtime.{key}" not in sources})
    if (file := runtime.get(MODEL_KEY)) is not None:
        refuse_model_file(original, file)
        runtime[MODEL_KEY] = pin_code(file)
    if (name := runtime.get("implementation")) is not None and parse_place(str(name)) is not None:
        runtime["implementation"] = pin_code(name)
    tables["runtime"] = runtime


def _leave_gpu_precision(runtime: dict[str, Any], sources: dict[str, str]) -> None:
    """Replace the definition's precision tf32 by fp32 where the user chose a CPU and no precision."""
    if runtime.get("device") == "cpu" and runtime.get("precision") == "tf32" and "runtime.precision" not in sources:
        runtime["precision"] = "fp32"
        sources["runtime.precision"] = f"{sources.get('runtime.device', 'definition')}, which has no tf32"


def _follow(name: str, tables: dict[str, Any], sources: dict[str, str]) -> None:
    """Where the user changed keys of [model], derive its other keys by the model's own rules, and replace shorthand
    keys by the keys that they stand for."""
    changed = {key.partition(".")[2]: source for key, source in sources.items() if key.startswith("model.")}
    given, file = tables.get("model", {}), tables["runtime"].get(MODEL_KEY)
    if not changed or not (file or is_model(name)):
        return
    made = dict(find_model(file or name).follow(given, changed))
    for key in changed.keys() - made.keys():
        del sources[f"model.{key}"]
    followed = [key for key in made if made[key] != given.get(key)]
    sources |= {f"model.{key}": f"{', '.join(changed.values())}, from which it follows" for key in followed}
    tables["model"] = made


def _derived_head(
    original: Benchmark, head: Mapping[str, Any], name: str | None, changed: list[str], sources: Mapping[str, str]
) -> dict[str, Any]:
    """Return the section [benchmark] for a training problem that differs from the benchmark `original` in the fixed
    fields `changed`. Raises ConfigError if the new problem has no name of its own, or the name of a shipped
    benchmark."""
    if name is None and changed:
        raise ConfigError(
            f"{', '.join(changed)} is fixed by the definition of {original.name!r} ({sources[changed[0]]}). "
            "Give --name NAME to run it as a benchmark of your own."
        )
    if name is None:
        raise ConfigError(f"a fixed field differs from the definition of {original.name!r}. Give --name NAME.")
    if name in (*shipped_names(), *list_workload_names()):
        raise ConfigError(f"--name {name!r} is the name of a shipped benchmark; choose another.")
    status = "workload" if original.status == "workload" else "own"
    what = f"{DERIVED}{original.name} by changing {', '.join(changed)}"
    note = f"{what}: the target was not calibrated for it." if original.stated_quality else f"{what}."
    more = {"name": name, "status": status, "rounds": [], "notes": [*head.get("notes", []), note]}
    return {**head, "description": f"{original.title}, with another {' and '.join(changed)}.", **more}


def _parse(tables: dict[str, Any], path: Path, sources: Mapping[str, str]) -> tuple[Benchmark, WorkloadConfig]:
    """Return the benchmark and the workload from the effective tables; an error in an overridden value names the
    value's source, not the definition's file."""
    try:
        benchmark = parse_benchmark(tables, path)
        workload = parse_recorded(benchmark)
        _refuse_sections(benchmark)
        return benchmark, workload
    except DefinitionError as error:
        message = str(error).removeprefix(f"{path}: ")
        for key, source in sources.items():
            if key in message:
                raise ConfigError(f"{source}: {message}") from None
        raise


def _refuse_sections(benchmark: Benchmark) -> None:
    """Raise DefinitionError for invalid values in the definition's sections that only some measurements read."""
    try:
        for section in sections_aside():
            if section.name in benchmark.sections:
                section.read(benchmark.sections[section.name])
    except ConfigError as error:
        raise DefinitionError(f"{benchmark.path}: {error}") from None


def command_name(benchmark: Benchmark) -> str:
    """Return the argument with which a command line selects the benchmark: its name, NAME@VERSION for an older
    version, or the path of its definition."""
    name, path = benchmark.path.stem, benchmark.path
    if name in (*shipped_names(), *list_workload_names()) and load_benchmark(name).path == path:
        return name
    older = next((known for known in shipped_versions(name) if known.path == path), None)
    return f"{name}@{older.version}" if older is not None else shlex.quote(str(path))


def default_division(benchmark: Benchmark) -> str:
    """Return the division of a run set for which none was given: closed for a user's own benchmark, open for an
    official one."""
    return keys.CLOSED if benchmark.status == "own" else keys.OPEN


def read_config_file(path: Path) -> list[Override]:
    """Return the values that a user's TOML file gives in the definition's sections and [submission]."""
    return read_config_tables(path, read_toml(path))


def read_config_tables(path: Path, tables: Mapping[str, Any], prefix: str = "") -> list[Override]:
    """Return the user's values in the tables of a TOML file; `prefix` is the path to these tables inside the file,
    for error messages. Raises ConfigError."""
    overrides = []
    for section, table in tables.items():
        if section not in _SECTIONS or not isinstance(table, Mapping):
            raise ConfigError(f"{path}: unknown section [{prefix}{section}].{did_you_mean(section, [*_SECTIONS])}")
        _refuse_code(path, table if section == "runtime" else {})
        overrides += [Override(key=f"{section}.{k}", value=v, source=f"file {path}") for k, v in table.items()]
    return overrides


def _refuse_code(path: Path, runtime: Mapping[str, Any]) -> None:
    """Raise ConfigError where a user's TOML file of values names code to be run (a model or an implementation): like
    a definition, the file may come from a stranger."""
    for key in ("implementation", MODEL_KEY):
        if key in runtime and (key == MODEL_KEY or parse_place(str(runtime[key])) is not None):
            raise ConfigError(f"{path}: runtime.{key} is {runtime[key]!r}. {catalog.GIVEN_BY_USER}, as --{key}.")


def read_settings(settings: Mapping[str, Any] | None) -> list[Override]:
    """Return the values in the settings of a caller of the API. Raises HarnessError for a key without a known
    section."""
    overrides = []
    for key, value in (settings or {}).items():
        section, _, name = key.partition(".")
        if section not in _SECTIONS or not name:
            raise HarnessError(f"settings: {key!r}, expected section.key with a section of {', '.join(_SECTIONS)}.")
        listed = list(value) if isinstance(value, tuple) else value
        overrides.append(Override(key=key, value=listed, source="settings"))
    return overrides


def read_environment(environ: Mapping[str, str]) -> list[Override]:
    """Return the values from environment variables DLRMBENCH_<SECTION>_<KEY>; an unknown variable with the prefix is
    an error."""
    overrides = []
    for variable in sorted(environ):
        if not variable.startswith(ENV_PREFIX) or variable.removeprefix(ENV_PREFIX) in OWN_VARIABLES:
            continue
        words = variable.removeprefix(ENV_PREFIX).lower()
        section = next((name for name in _SECTIONS if words.startswith(f"{name}_")), "")
        key = words.removeprefix(f"{section}_")
        if not section or not key:
            raise ConfigError(
                f"environment variable {variable}: unknown. Known: {ENV_PREFIX}DATA, {ENV_PREFIX}OUTPUT, "
                f"{ENV_PREFIX}SYSTEMS, {ENV_PREFIX}<SECTION>_<KEY> with a section of {', '.join(_SECTIONS)}."
            )
        value = environ[variable] if section == SUBMISSION else parse_value(environ[variable])
        overrides.append(Override(key=f"{section}.{key}", value=value, source=f"environment {variable}"))
    return overrides


def read_set_option(text: str, option: str = "--set") -> Override:
    """Return the value that `--set section.key=value` gives; `option` names another option of that form. The value is
    parsed as TOML; it is a plain string where it is not valid TOML."""
    key, equals, value = text.partition("=")
    section, _, name = key.strip().partition(".")
    if not equals or not name:
        like = ""
        if (known := find_sections().get(section)) is not None:
            like = f" Keys of {section}: {', '.join(known.record.__dataclass_fields__)}."
        raise ConfigError(
            f"{option} {text!r}: expected section.key=value, for example train.global_batch_size=4096.{like}"
        )
    if section not in _SECTIONS:
        raise ConfigError(f"{option} {text!r}: unknown section {section!r}.{did_you_mean(section, [*OVERRIDABLE])}")
    parsed = value if section == SUBMISSION else parse_value(value)
    return Override(key=f"{section}.{name}", value=parsed, source=f"{option} {key.strip()}")


def parse_value(text: str) -> Any:
    """Return a value parsed as TOML; the text itself where it is not valid TOML."""
    try:
        return parse_toml(f"value = {text}".encode(), Path("value"))["value"]
    except ValueError:
        return text


def check_known(override: Override, tables: Mapping[str, Any]) -> None:
    """Raise ConfigError where a user's value has an unknown key, with a suggestion. Only sections with the same keys
    for all models and data are checked here; `tables` is the definition."""
    name, _, key = override.key.partition(".")
    section = find_sections().get(name)
    read = _KNOWN_KEYS.get(name) if section is None else tuple(section.record.__dataclass_fields__)
    known = sorted({*(read or ()), *tables.get(name, {})})
    if override.key in _NAMED_OTHERWISE:
        raise ConfigError(
            f"{override.source}: unknown key {override.key!r}. It is called {_NAMED_OTHERWISE[override.key]} here."
        )
    if read is not None and key not in known:
        every = f" Keys of {name}: {', '.join(known)}." if did_you_mean(key, known).startswith(" Did") else ""
        raise ConfigError(f"{override.source}: unknown key {override.key!r}.{did_you_mean(key, known)}{every}")


def fill_table(override: Override, tables: Mapping[str, Any]) -> Override:
    """Return an override of a key inside a table, such as data.parameters.bias, as an override of the whole table:
    the definition's table with that one key changed. An override of a key that is not inside a table is returned
    unchanged. Raises ConfigError if the definition has a plain value where the override expects a table."""
    section, _, name = override.key.partition(".")
    name, dot, inner = name.partition(".")
    if not dot or section == SUBMISSION:
        return override
    key, table = f"{section}.{name}", tables.get(section, {}).get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"{override.source}: {key} is {table!r}, no table with a key {inner!r}. Expected {key}=VALUE."
        )
    return replace(override, key=key, value={**table, inner: override.value})


def is_fixed(benchmark: Benchmark, key: str) -> bool:
    """Return whether another value of "section.key" makes another training problem."""
    section, _, name = key.partition(".")
    constraint = benchmark.closed.get(name) if section == "train" else None
    return section not in NOT_THE_PROBLEM and not (constraint is not None and constraint.free)


def _label(name: str) -> str:
    if not name or len(name) > 64 or not all(c.isascii() and (c.isalnum() or c in "_.-") for c in name):
        raise ConfigError(f"--name {name!r}: use at most 64 letters, digits, '_', '.' or '-'.")
    return name
