"""Describe every key of a benchmark definition (TOML): its allowed values, default and meaning, taken from the
dataclasses that parse definitions. The page rules/benchmarks/README.md is made from this.

`dlrmbench schema keys_page` prints that page; `harness.config.start` comments a new definition with these
descriptions. The meaning of a key is the docstring below the dataclass's attribute.
"""

import ast
import inspect
import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from itertools import pairwise
from textwrap import dedent
from typing import Any, get_type_hints

from msgspec import ValidationError, convert
from msgspec import inspect as types

from harness.config.sections import sections_aside, sections_of_problem
from reference_models.config.sections import AdagradSection, AdamSection, RuntimeConfig, SGDSection
from reference_models.data.registry import DATA_KINDS, find_data
from reference_models.data.spec import DataSection, find
from reference_models.data.synthetic.config import SyntheticSection
from reference_models.registry import MODELS, find_model
from rules.benchmarks.loader import NOT_THE_PROBLEM, FirstEval, Head, Quality, Score


@dataclass(frozen=True, kw_only=True, slots=True)
class DefinitionKey:
    """One key of a benchmark's definition. `default` is None where the key is required, and empty where it may be
    left out but has no default value."""

    name: str
    allowed: str
    default: str | None
    meaning: str


SECTIONS: tuple[tuple[str, str, type[Any]], ...] = (
    ("benchmark", "", Head),
    ("quality", "", Quality),
    ("quality.first_eval", "", FirstEval),
    ("score", "", Score),
    *(("model", f"of `{name}`", find_model(name).section) for name in MODELS),
    ("data", "in files", DataSection),
    ("data", "with columns of your own", find_data("columns").section),
    *(
        ("data.parameters", f"of `{kind}`", find(place))
        for kind in DATA_KINDS
        if (place := find_data(kind).parameters)
    ),
    ("data", "held in memory", SyntheticSection),
    *((section.name, "", section.record) for section in sections_of_problem()),
    ("train", "with Adagrad", AdagradSection),
    ("train", "with SGD", SGDSection),
    ("train", "with Adam", AdamSection),
    ("runtime", "", RuntimeConfig),
    *((section.name, "", section.record) for section in sections_aside()),
)
"""Sections of a benchmark's definition: name, variant (such as "with Adam"), and the dataclass that parses the
variant."""
_LARGE = 1e15
"""Largest upper bound of a number that the page of keys shows; larger bounds are only the limits of TOML's
numbers."""
*_OTHERS, _LAST = [f"`[{name}]`" for name in NOT_THE_PROBLEM]
_HEAD = f"""# The keys of a definition

Made by `dlrmbench schema keys_page > rules/benchmarks/README.md`. A definition is a TOML file; `dlrmbench init
mine.toml` begins one with every key explained, and `dlrmbench schema dlrm_definition` prints the JSON Schema of those
whose model is dlrm, for editors. The first line is `schema_version = 1`. A key that is not listed is an error. The
digest of all sections but {", ".join(_OTHERS)} and {_LAST}, without what `[closed]` leaves free, identifies
the problem.
"""
_RULES = """## [closed] and [open]

Values that a run of the Closed, or the Open, division may have, by mllog key: `"free"`, one fixed value, values
such as `{ one_of = ["fp32", "bf16"] }`, bounds such as `{ min = 512, max = 4096 }`, or `{ same_as = KEY }`. `[train]`
and `[closed]` must agree.
"""


def list_keys(record: type[Any]) -> list[DefinitionKey]:
    """Return the keys of a section of benchmark definitions: one for each field of the dataclass `record` that parses
    the section, in the order of the fields."""
    hints, meanings = get_type_hints(record, include_extras=True), read_meanings(record)
    return [
        DefinitionKey(
            name=entry.name,
            allowed=say_allowed(hints[entry.name]),
            default=_default(entry, hints[entry.name]),
            meaning=meanings.get(entry.name, ""),
        )
        for entry in fields(record)
    ]


def read_meanings(record: type[Any]) -> dict[str, str]:
    """Return the docstrings below the attributes of a class and of its bases, each as one line. They are read from
    the source code."""
    found: dict[str, str] = {}
    for part in reversed(record.__mro__[:-1]):
        try:
            statements = ast.parse(dedent(inspect.getsource(part))).body
        except (OSError, TypeError):  # a class without Python source, of a model from another package
            continue
        for definition in statements:
            for attribute, text in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
                if isinstance(attribute, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[ast.unparse(attribute.target)] = _one_line(ast.literal_eval(text.value))
    return found


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def say_allowed(hint: Any) -> str:
    """Return in words which values the type of a key allows, such as 'a whole number of at least 1'. None is not
    mentioned, since TOML has no null value."""
    return " or ".join(_words(types.type_info(hint)))


def _words(kind: Any) -> Iterator[str]:
    if isinstance(kind, types.Metadata):
        described = (kind.extra_json_schema or {}).get("description")
        yield from [described] if described else _words(kind.type)
    elif isinstance(kind, types.UnionType):
        for part in kind.types:
            yield from _words(part)
    elif isinstance(kind, types.LiteralType):
        yield ", ".join(f"`{value}`" for value in kind.values)
    elif isinstance(kind, types.VarTupleType):
        (item,) = _words(kind.item_type)
        plurals = {"a string": "strings", "a table": "tables"}
        yield "a list of " + plurals.get(item, item.replace("a whole number", "whole numbers"))
    elif isinstance(kind, types.IntType | types.FloatType):
        word = "a whole number" if isinstance(kind, types.IntType) else "a number"
        low = "" if kind.ge is None else f" of at least {kind.ge:g}"
        low += "" if kind.gt is None else f" above {kind.gt:g}"
        yield word + low + ("" if kind.le is None or kind.le > _LARGE else f", at most {kind.le:g}")
    elif isinstance(kind, types.StrType):
        yield "a string"
    elif isinstance(kind, types.BoolType):
        yield "true or false"
    elif not isinstance(kind, types.NoneType):
        yield "a table"


def _default(entry: "Field[Any]", hint: Any) -> str | None:
    if entry.default is MISSING and entry.default_factory is MISSING:
        return None
    default = entry.default if entry.default_factory is MISSING else entry.default_factory()
    try:
        convert(default, hint)
    except ValidationError:  # a placeholder such as 0, where another key determines the value
        return ""
    return "" if default in (None, {}) else json.dumps(default)


def render_page() -> str:
    """Return the reference page of all keys of a benchmark's definition, as Markdown."""
    return "\n".join([_HEAD, *(_render_section(*section) for section in SECTIONS), _RULES])


def _render_section(name: str, which: str, record: type[Any]) -> str:
    rows = (
        f"| `{key.name}` | {key.allowed.replace('|', '/')} | {_say_default(key)} | {key.meaning.replace('|', '/')} |"
        for key in list_keys(record)
    )
    title = f"## [{name}]" + (f" {which}" if which else "")
    head = ("| key | value | default | meaning |", "|---|---|---|---|")
    return "\n".join([title, "", _one_line(inspect.getdoc(record)), "", *head, *rows, ""])


def _say_default(key: DefinitionKey) -> str:
    return "needed" if key.default is None else f"`{key.default}`" if key.default else "-"
