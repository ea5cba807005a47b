"""Define the command `schema`, which prints the JSON Schema or the reference page that is named. JSON Schemas
describe input and output files."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import completing
from harness.cli.shared.output import show
from reports.document.blocks import text_table
from rules.errors import did_you_mean

if TYPE_CHECKING:
    import msgspec

Entries = Mapping[str, tuple[str, Callable[[], Any]]]
"""Schemas and pages that can be printed. Each name is mapped to a line of description and to the function that
returns the JSON Schema or the page's text."""
PAGES: Mapping[str, tuple[str, str, str]] = {
    "commands_page": ("harness.cli.shared.commands_page", "harness/cli/README.md", "every command with its options."),
    "rules_page": ("rules.judge.handbook", "rules/README.md", "every rule, with its fix and its source."),
    "columns_page": ("reports.tables.reference", "reports/tables/README.md", "every column of frames and files."),
    "keys_page": ("harness.config.reference", "rules/benchmarks/README.md", "every key of a definition."),
}
"""Reference pages. Each name is mapped to the module whose `render_page` makes the page, the page's file in the
repository, and what the page lists."""


def _files() -> Entries:
    from rules.records.files import RECORDS

    return _describe_types(RECORDS)


def _documents() -> Entries:
    from reports.schemas import DOCUMENTS

    return _describe_types({f"{name}_document": document for name, document in DOCUMENTS.items()})


def _describe_types(types: "Mapping[str, type[msgspec.Struct]]") -> Entries:
    from rules.records.codec import json_schema

    lines = {name: " ".join((kind.__doc__ or "").partition("\n\n")[0].split()) for name, kind in types.items()}
    return {name: (lines[name], partial(json_schema, kind)) for name, kind in types.items()}


def _definitions() -> Entries:
    from reference_models.registry import known_models

    make = partial(_call, "harness.config.schema", "definition_schema")
    return {
        f"{model}_definition": (f"A definition of a benchmark of {model}.", partial(make, model))
        for model in known_models()
    }


def _pages() -> Entries:
    return {
        name: (f"{page}: {what}", partial(_call, module, "render_page"))
        for name, (module, page, what) in PAGES.items()
    }


def _call(module: str, function: str, *arguments: str) -> Any:
    return getattr(import_module(module), function)(*arguments)


GROUPS: Mapping[str, Callable[[], Entries]] = {
    "JSON Schema of a file beside the logs": _files,
    "JSON Schema of what --format json prints": _documents,
    "JSON Schema of a definition, for editors": _definitions,
    "page of reference, in Markdown": _pages,
}
"""Groups of schemas and pages that can be printed. Each title is mapped to a function that returns the group's items;
it imports what it needs only when it is called."""


def list_names() -> list[str]:
    """Return the names of all schemas and pages that can be printed, group by group."""
    return [name for entries in GROUPS.values() for name in entries()]


@verb("dlrmbench schema", "dlrmbench schema event")
@click.argument("name", required=False, shell_complete=completing(list_names))
def schema(name: str | None) -> None:
    """Print the JSON Schema or the reference page called NAME; without NAME, list all names.

    To print the schema of a file that lies beside the logs, give the file's name as NAME, such as run_set. Schemas
    whose names end in _document describe the output of a command's --format json. Schemas whose names end in
    _definition describe benchmark definitions; each is for one model. Names that end in _page are of reference pages
    in Markdown.
    """
    if name is None:
        show(
            [
                text_table(("name", title), [(known, line) for known, (line, _) in entries().items()])
                for title, entries in GROUPS.items()
            ]
        )
        return
    for entries in GROUPS.values():
        if name in (found := entries()):
            content = found[name][1]()
            text = (
                content
                if isinstance(content, str)
                else json.dumps({"$id": f"{name}.schema.json", **content}, indent=2)
            )
            click.echo(text.rstrip("\n"))
            return
    raise click.UsageError(f"unknown name {name!r}.{did_you_mean(name, list_names())}")
