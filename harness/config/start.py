"""Make a new definition for `init`: a shipped one with another name and other values, every key explained."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path
from textwrap import fill, indent, wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import tomli_w
from msgspec import to_builtins

from harness.config.catalog import parse_workload, refuse_shipped_name
from harness.config.reference import SECTIONS, DefinitionKey, list_keys
from harness.config.run_config import Override, check_known, fill_table
from reference_models.data.registry import find_data
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.registry import MODELS, find_model
from reference_models.spec import ModelSpec
from rules.benchmarks.loader import NOT_THE_PROBLEM, SCHEMA_VERSION, load_benchmark, parse_benchmark, read_definition
from rules.extensions import find_places

if TYPE_CHECKING:
    from reference_models.data.columns.guess import Guess

Remarks = Mapping[tuple[str, str, int | None], str]
_FIRST_TARGET = 0.6
_ORDER = ("benchmark", "quality", "score", "closed", "open", "model", "data", "id_map", "train", *NOT_THE_PROBLEM)
_RULES = {
    "closed": 'Values that a closed run may have, by mllog key: "free", one fixed value, one_of, or bounds.',
    "open": "Values that a run of the Open division may have, likewise.",
}
_SIZES = {"train_samples", "eval_samples"}
_SPLIT, _NUM_DAYS = "data.parameters.split", "data.parameters.num_days"
_WIDTH = 116


def begin_definition(
    path: Path,
    like: str,
    name: str,
    *,
    title: str | None,
    target: float | None,
    overrides: Sequence[Override],
    data_of: str | None = None,
    columns: "Guess | None" = None,
    model: str | None = None,
    has_own_files: bool = False,
) -> str:
    """Return a new benchmark definition as TOML text: the definition of the benchmark `like`, with another name,
    title and target, and with the user's values `overrides`. The original's version, description and notes are left
    out. The digest of the original's data is left out if [data] changes.

    `path` is the new file's path, for messages. `data_of` is a benchmark whose dataset the new one shares. `columns`
    are the columns of a user's data file, as guessed from that file. `model` is a user's own model, as --model takes
    it; [model] then has the defaults of that model's keys. `has_own_files` says that the data are a user's own files
    in the original's format; the dataset then gets the new benchmark's name, and the target a first value that the
    user replaces. Raises ConfigError or DefinitionError if the new definition is invalid, for example because its
    name is that of a shipped benchmark.
    """
    original = load_benchmark(like)
    tables = read_definition(original.path)
    tables["benchmark"] = {
        "name": name,
        "version": 1,
        "title": title or f"Like {original.name}: {original.title}",
        "description": "",
        "status": "own",
        "model": original.model,
        "notes": [],
    }
    spec = None
    if model is not None:
        spec = find_model(model)
        tables["benchmark"]["model"] = name
        tables["model"] = to_builtins(spec.section())
    if data_of is not None:
        _share_data(tables, data_of)
    if columns is not None:
        _take_columns(tables, columns)
    if has_own_files:
        tables["data"]["name"] = name
        tables["quality"]["target"] = _FIRST_TARGET
    if target is not None:
        tables.setdefault("quality", {})["target"] = target
    for given in overrides:
        override = fill_table(given, tables)
        section, _, key = override.key.partition(".")
        if section not in _ORDER:
            raise ConfigError(f"{override.source}: unknown section {section!r}.{did_you_mean(section, [*_ORDER])}")
        check_known(override, tables)
        tables.setdefault(section, {})[key] = override.value
        if tables.get("closed", {}).get(key, "free") != "free":
            tables["closed"][key] = override.value
        if section == "data":
            tables["data"].pop("sha256", None)
            tables["data"]["name"] = name if key != "name" else override.value
        if given.key == _SPLIT and given.value != "days" and _NUM_DAYS not in {other.key for other in overrides}:
            override.value.pop("num_days", None)  # only a split by days has a number of days
    benchmark = parse_benchmark(tables, path)
    data = parse_workload(benchmark, benchmark.sections, model).data
    if data.parameters:
        find_data(data.kind).check(data)
    refuse_shipped_name(benchmark)
    remarks = {} if columns is None else _remarks(columns, tables)
    first_target = _FIRST_TARGET if columns is None else _first_target(columns)
    if (columns is not None or has_own_files) and tables["quality"]["target"] == first_target:
        remarks["quality", "target", None] = (
            "Guessed, and low: 'run --quality' measures what your data allows; 'calibrate' chooses a target from it."
        )
        if columns is not None and columns.best_auc < 1:
            remarks["quality", "target", None] += (
                f" The labels are soft: ranked by the labels themselves, the first rows have {columns.best_auc:.4f}."
            )
    return render_definition(tables, remarks, spec)


def _share_data(tables: dict[str, Any], data_of: str) -> None:
    """Replace [data] of a new definition by the section [data] of the benchmark `data_of`, including its digest. The
    rules of the divisions get that benchmark's numbers of samples."""
    other = read_definition(load_benchmark(data_of).path)
    data = deepcopy(other["data"])
    if find_data(data["kind"]).example is None:
        raise ConfigError(
            f"--data-of {data_of}: data.kind is {data['kind']!r}, which is no dataset. Name a benchmark."
        )
    tables["data"] = data
    for section in _RULES:
        for key in _SIZES & tables.get(section, {}).keys():
            value = data.get(key, other.get(section, {}).get(key))
            if value is None:
                del tables[section][key]
            else:
                tables[section][key] = value


def _take_columns(tables: dict[str, Any], columns: "Guess") -> None:
    """Replace [data] of a new definition by the guessed columns of the user's data file. Choose the number of
    evaluations per epoch, the target, and a batch size that suits the number of rows."""
    tables["data"] = columns.data
    for section in find_places("sections"):  # sections of extensions refer to the other definition's data
        tables.pop(section, None)
    for section in _RULES:
        for key in _SIZES & tables.get(section, {}).keys():
            del tables[section][key]
    tables["quality"] |= {"target": _first_target(columns), "evals_per_epoch": 5, "max_epochs": 4.0}
    if tables.get("closed", {}).get("global_batch_size", "free") == "free":
        steps = 2 ** (max(16, columns.num_rows // 200).bit_length() - 1)
        tables["train"]["global_batch_size"] = min(steps, tables["train"]["global_batch_size"])


def _first_target(columns: "Guess") -> float:
    """Return the first target AUC of a new definition: `_FIRST_TARGET`, scaled down where soft labels limit the
    highest possible AUC."""
    return round(0.5 + (_FIRST_TARGET - 0.5) * (columns.best_auc - 0.5) / 0.5, 4)


def _remarks(columns: "Guess", tables: Mapping[str, Any]) -> dict[tuple[str, str, int | None], str]:
    """Return comments on guessed values: how each was guessed. The keys are (section, key, position in a list).
    Values that the user replaced have no comment."""
    guessed, given = columns.data["parameters"], tables["data"]["parameters"]
    return {
        ("data.parameters", key, place): f"Guessed: {reason}."
        for (key, place), reason in columns.reasons.items()
        if given.get(key) == guessed.get(key)
    }


def render_definition(
    tables: Mapping[str, Any], remarks: Remarks = MappingProxyType({}), model: ModelSpec | None = None
) -> str:
    """Return a definition as TOML text, with each key's meaning as a comment. Keys that the definition lacks are
    added as comments, with their defaults.

    `remarks` maps (section, key, position in a list) to further comments on values. `model` is the specification of a
    user's model; None if the model is not a user's own.
    """
    parts = [
        "# A benchmark of your own. 'dlrmbench schema keys_page' explains every key.\n"
        f"schema_version = {SCHEMA_VERSION}\n"
    ]
    for section in _ORDER:
        if section in tables:
            parts.append(_render(section, tables[section], tables, remarks, model))
            parts += [
                _render(f"{section}.{name}", table, tables, remarks, model)
                for name, table in tables[section].items()
                if isinstance(table, Mapping) and section not in _RULES
            ]
    return "\n".join(parts)


def _render(
    section: str, table: Mapping[str, Any], tables: Mapping[str, Any], remarks: Remarks, model: ModelSpec | None
) -> str:
    lines = [f"[{section}]"]
    if section in _RULES:
        return "\n".join([f"# {_RULES[section]}", *lines, *(_rule(*item) for item in table.items()), ""])
    keys = {key.name: key for key in list_keys(_record_of(section, tables, model))}
    for name, value in table.items():
        if not isinstance(value, Mapping):
            remark = remarks.get((section, name, None))
            lines += [*_comment(keys[name]), *(_wrap(remark) if remark else ())]
            length = len(value) if isinstance(value, list) else 0
            lines.append(_assign(name, value, [remarks.get((section, name, place)) for place in range(length)]))
    for key in keys.values():
        if key.name not in table and key.default is not None and not key.allowed.startswith("a table"):
            lines += [*_comment(key), f"# {key.name} = {key.default}".rstrip()]
    return "\n".join([*lines, ""])


def _rule(name: str, value: Any) -> str:
    """Return one line of TOML for a rule of a division (closed or open): the key `name`, and the value or the values
    that a run may have for this key. A rule of several entries becomes an inline table, since a nested table would
    begin a new section."""
    if not isinstance(value, Mapping):
        return f"{name} = {_inline(value)}"
    return f"{name} = {{ {', '.join(f'{key} = {_inline(entry)}' for key, entry in value.items())} }}"


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return tomli_w.dumps({"value": value}).partition(" = ")[2].rstrip()


def _assign(name: str, value: Any, remarks: Sequence[str | None] = ()) -> str:
    """Return `name = value` as TOML: a list of numbers on one line; a list of tables with one table per line, each
    followed by its comment from `remarks`."""
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = [
            f"  {{ {', '.join(f'{key} = {_inline(entry)}' for key, entry in item.items())} }},"
            + (f"  # {remark}" if remark else "")
            for item, remark in zip_longest(value, remarks)
        ]
        return "\n".join([f"{name} = [", *items, "]"])
    if isinstance(value, list) and all(type(item) is int for item in value):
        text = f"{name} = {value}"
        return text if len(text) <= _WIDTH else f"{name} = [\n{indent(fill(str(value)[1:-1], _WIDTH - 2), '  ')},\n]"
    return tomli_w.dumps({name: value}).rstrip()


def _comment(key: DefinitionKey) -> list[str]:
    allowed = "" if key.allowed == "a string" else f" Allowed: {key.allowed}."
    return _wrap(f"{key.meaning}{allowed}".replace("`", ""))


def _wrap(text: str) -> list[str]:
    return wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _record_of(section: str, tables: Mapping[str, Any], model_spec: ModelSpec | None) -> type[Any]:
    """Return the dataclass that parses a section of the definition, which depends on the kind of data, the model and
    the optimizer."""
    kind = str(tables["data"].get("kind"))
    which = {
        "data.parameters": f"of `{kind}`",
        "train": {"sgd": "with SGD", "Adam": "with Adam"}.get(str(tables["train"].get("opt_name")), "with Adagrad"),
    }
    if (model := tables["benchmark"].get("model")) in MODELS:
        which["model"] = f"of `{model}`"
    if section == "data":
        return find_data(kind).section
    if section == "model" and model_spec is not None:
        return model_spec.section
    for name, variant, record in SECTIONS:
        if name == section and which.get(section, variant) == variant:
            return record
    raise ConfigError(f"[{section}] belongs to no {kind} data.")
