"""Print results on standard output: the one module that turns blocks of a page (tables, paragraphs) into text, JSON
or the like."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.foundation.status_line import StatusLine, find_terminal_columns, folded
from reports.document.blocks import Block
from reports.render.forms import FORMS
from reports.render.terminal import ansi, plain, render_terminal
from rules.logs.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    import msgspec

    from rules.tree.inventory import Inventory

F = TypeVar("F", bound=Callable[..., Any])


def form_option(*forms: str, text: str = "Form of the output.") -> Callable[[F], F]:
    """Return the option --format with the choices `forms` (table, json, …); the first is the default."""
    return click.option("--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help=text)


def _keep_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_VERBOSE] = value


VERBOSE = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_keep_verbose,
    help="Also print how the result was computed, and all inputs of the computation.",
)
"""Option --verbose of commands that by default print only the findings and one table; `is_verbose` tells whether the
user gave it."""
_VERBOSE = f"{__name__}.verbose"


def is_verbose() -> bool:
    """Return whether the option --verbose was given to the command."""
    return bool(click.get_current_context().meta.get(_VERBOSE))


def has_verbose() -> bool:
    """Return whether the command has the option --verbose."""
    return _VERBOSE in click.get_current_context().meta


def show(blocks: Sequence[Block], form: str = "table") -> None:
    """Print blocks of a page (tables, paragraphs) in the format `form`: with the function that FORMS has for it, or
    as text for a terminal if FORMS has none.

    Lines are as wide as COLUMNS says, else as the terminal, else 80 columns, but at least 40 columns. Text has
    colours only where NO_COLOR is not set; click drops them where the output is no terminal.
    """
    if form in FORMS:
        click.echo(FORMS[form](blocks))
        return
    width = max(40, find_terminal_columns(sys.stdout))
    click.echo(render_terminal(blocks, width=width, style=plain if os.environ.get("NO_COLOR") else ansi))


def show_json(content: "Mapping[str, Any] | msgspec.Struct") -> None:
    """Print a JSON document from plain values or a record."""
    import msgspec

    # Indented separately: with an indent, json uses its Python encoder, which took half the time of a large check.
    text = json.dumps(msgspec.to_builtins(content), allow_nan=False)
    try:
        click.echo(msgspec.json.format(text, indent=2))
    except msgspec.DecodeError:  # an unpaired surrogate, as in a file name that is not UTF-8
        click.echo(json.dumps(json.loads(text), indent=2))


def show_as(form: str, document: "Mapping[str, Any] | msgspec.Struct", blocks: Sequence[Block]) -> None:
    """Print a document as JSON where `form` is 'json', else the blocks of a page with the same content."""
    if form == "json":
        show_json(document)
    else:
        show(blocks, form)


def refuse_folder(output: "Path | None", default: "Path") -> None:
    """Raise UsageError where a page would be written to a path that is a folder. The path is `output`, or `default`
    where `output` is None. A link at the default path is allowed, since it is replaced."""
    place = output or default
    if place.is_dir() and not (output is None and place.is_symlink()):
        raise click.UsageError(f"{place}: is a directory. Give --output a file, such as {place / default.name}.")


def write_output(output: "Path | None", default: "Path", text: str) -> "Path":
    """Write a page to `output`, or to `default` where `output` is None; return the path written. A link at the
    default path is replaced, not followed."""
    from reports.page.report import write_unnamed, write_whole

    return write_unnamed(default, text) if output is None else write_whole(output, text)


def echo_others(inventories: "Sequence[Inventory]") -> None:
    """Print on standard error which result directories of MLPerf's other benchmarks lie beside the judged ones."""
    from rules.tree.inventory import MAX_MENTIONED
    from rules.tree.others import summarise

    if not any(inventory.result_sets for inventory in inventories):
        return
    others = [other for inventory in inventories for other in inventory.others]
    for other in others[:MAX_MENTIONED]:
        click.echo(f"not judged: {printable(str(other.path))}: {other}.", err=True)
    if len(others) > MAX_MENTIONED:
        click.echo(f"not judged: {summarise(others[MAX_MENTIONED:])}.", err=True)


def echo_others_at(paths: "Sequence[Path]") -> None:
    """Print on standard error which result directories of MLPerf's other benchmarks lie in each of `paths`. Files of
    `report --format json` are passed over."""
    from reports.tables.documents import is_document
    from rules.tree.inventory import take_inventory

    for path in paths:
        if not is_document(path):
            echo_others([take_inventory(path)])


def show_opinions(line: StatusLine, num_answered: int, num_questions: int) -> None:
    """Show on the status line how many of the `num_questions` judgements asked of the official checkers have been
    made."""
    line.show_count(num_answered, num_questions, "official answers")


def note(text: str) -> None:
    """Print a sentence on standard error; on a terminal, wrap its lines at blanks."""
    click.echo(folded(text, sys.stderr), err=True)


def tell(text: str) -> None:
    """Print a sentence on standard output; on a terminal, wrap its lines at blanks."""
    click.echo(folded(text, sys.stdout))


def say(doing: str) -> None:
    """Print on standard error what the command is doing."""
    note(f"{click.get_current_context().info_name}: {doing}")
