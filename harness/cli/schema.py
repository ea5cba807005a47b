"""`schema`: JSON Schemas of what is read and written, and pages of reference, each by a name of its own."""

import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from harness.cli.shared.options import completing
from harness.cli.shared.output import show
from reports.document.blocks import text_table
from rules.errors import did_you_mean

if TYPE_CHECKING:
    import msgspec


class Entry(NamedTuple):
    """What a name stands for: a line about it, and the function that makes its text."""

    line: str
    text: Callable[[], str]


def _files() -> Mapping[str, Entry]:
    from rules.records.kinds import RECORDS

    return {name: _type_entry(name, record) for name, record in RECORDS.items()}


def _documents() -> Mapping[str, Entry]:
    from reports.schemas import DOCUMENTS

    documents = {f"{name}_document": document for name, document in DOCUMENTS.items()}
    return {name: _type_entry(name, document) for name, document in documents.items()}


def _definitions() -> Mapping[str, Entry]:
    from reference_models.registry import known_models

    return {
        f"{model}_definition": Entry(f"A definition of a benchmark of {model}.", partial(_definition_text, model))
        for model in known_models()
    }


def _definition_text(model: str) -> str:
    from harness.config.schema import definition_schema

    return _json_text(f"{model}_definition", definition_schema(model))


def _pages() -> Mapping[str, Entry]:
    return {
        name: Entry(f"{page}: {about}", partial(_page_text, module)) for name, (module, page, about) in PAGES.items()
    }


def _page_text(module: str) -> str:
    text: str = import_module(module).render_page()
    return text


def _type_entry(name: str, kind: "type[msgspec.Struct]") -> Entry:
    from rules.records.codec import json_schema

    line = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return Entry(line, lambda: _json_text(name, json_schema(kind)))


def _json_text(name: str, schema: Mapping[str, Any]) -> str:
    return json.dumps({"$id": f"{name}.schema.json", **schema}, indent=2) + "\n"


PAGES: Mapping[str, tuple[str, str, str]] = {
    "rules_page": ("rules.judge.handbook", "rules/README.md", "every rule, with its fix and its source."),
    "columns_page": ("reports.tables.reference", "reports/tables/README.md", "every column of frames and files."),
    "keys_page": ("harness.config.reference", "rules/benchmarks/README.md", "every key of a definition."),
}
"""Module whose `render_page` makes the page, the file of the repository that holds it, and what it has, by name."""
GROUPS: Mapping[str, Callable[[], Mapping[str, Entry]]] = {
    "JSON Schema of a file beside the logs": _files,
    "JSON Schema of what --format json prints": _documents,
    "JSON Schema of a definition, for editors": _definitions,
    "page of reference, in Markdown": _pages,
}
"""Functions that return what can be printed, by what it is. Each imports what it needs when it is called."""


def list_names() -> list[str]:
    """List all names, group by group."""
    return [name for entries in GROUPS.values() for name in entries()]


@click.command()
@click.argument("name", required=False, shell_complete=completing(list_names))
def schema(name: str | None) -> None:
    """Print the JSON Schema or the page of reference called NAME; without NAME, list all names.

    A file beside the logs has its own name (run_set). Other names end in what they are: _document is what --format
    json prints, _definition a benchmark's definition by its model, _page Markdown.
    """
    if name is None:
        show([
            text_table(("name", title), [(known, entry.line) for known, entry in entries().items()])
            for title, entries in GROUPS.items()
        ])  # fmt: skip
        return
    for entries in GROUPS.values():
        if (entry := entries().get(name)) is not None:
            click.echo(entry.text(), nl=False)
            return
    raise click.UsageError(f"unknown name {name!r}.{did_you_mean(name, list_names())}")
