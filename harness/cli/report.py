"""Define the command `report`: results as one self-contained page, or as JSON, CSV or Markdown."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import (
    DEFINITION,
    NO_SECOND_OPINION,
    RULESET,
    WITH,
    ResultPath,
    distinct,
    is_published,
    seconds,
)
from harness.cli.shared.output import echo_others, refuse_folder, show_opinions, write_output
from harness.foundation.status_line import StatusLine
from reports.render.forms import FORMS

_DEFAULT_PAGE = Path("report.html")


@verb("dlrmbench report latest", "dlrmbench report A B --baseline A -o ab.html")
@click.argument("paths", nargs=-1, required=True, type=ResultPath(), metavar="PATH...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to which the report is written.  [default: report.html for html, stdout for other formats]",
)
@click.option("--title", help="Headline of the page, instead of the result in one sentence.")
@click.option(
    "--baseline",
    metavar="NAME",
    help="Configuration with which the others are compared: its name or a part of it.  [default: the first "
    "configuration]",
)
@WITH
@DEFINITION
@RULESET
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["html", "json", "csv", *FORMS, "parquet"]),
    default="html",
    show_default=True,
    help="Form of the report. html: a page; json: all data; csv: one row per run, or per process if all sets are "
    "measurements; md: tables of verdicts; parquet: configurations, runs, evaluations and measurements, one "
    "file each, in the directory --output.",
)
@click.option(
    "--price-per-hour",
    "prices",
    multiple=True,
    metavar="[NAME=]PRICE",
    help="Price of the system per hour, such as 98USD: adds the cost to train, from the Olympic mean of times to "
    "train. With NAME (a configuration's name or part of it), the price holds for that configuration alone; "
    "repeatable.",
)
@click.option(
    "--mtbf",
    "mtbf_s",
    type=seconds,
    metavar="TIME",
    help="Mean time between failures of the system, such as 12h: adds the modelled checkpoint interval that loses "
    "least time.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(["files", "score"]),
    default="files",
    show_default=True,
    help="Order of the configurations in html and md. files: the order in which their files are given. score: the "
    "fastest first; this order is not a ranking, since scores may differ by chance.",
)
@click.option(
    "--summary",
    "is_brief",
    is_flag=True,
    help="Make a short HTML page with only the result in one sentence, its origin, the differences between "
    "configurations, and every run.",
)
@NO_SECOND_OPINION
def report(
    paths: tuple[Path, ...],
    output: Path | None,
    title: str | None,
    baseline: str | None,
    reference: str | None,
    benchmark_file: Path | None,
    ruleset: str | None,
    output_format: str,
    prices: tuple[str, ...],
    mtbf_s: float | None,
    order: Literal["files", "score"],
    is_brief: bool,
    no_second_opinion: bool,
) -> None:
    """Report on the result sets at or below each PATH, with comparable sets side by side.

    PATH is a result directory of any origin, a directory of result directories (such as a published round), or one
    log. PATH may also be a bundle of 'measure-system --bundle', a directory of bundles, or a study.json, which
    'profile --forward' and other commands write. With --format json, csv or parquet, PATH may also be a file written
    with --format json.
    """
    from rules.judge.parallel import no_collections

    with no_collections():  # imported objects stay, so collecting garbage would only take time
        from reports.tables.documents import is_document

    if output_format == "parquet" or any(is_document(path) for path in paths):
        if reference is not None:
            raise click.UsageError("--with makes a page, json, csv or md of result directories. Leave it out here.")
        if ruleset is not None and any(is_document(path) for path in paths):
            raise click.UsageError("--ruleset judges logs, and an exported file has none. Leave it out here.")
        _write_tables(distinct(paths), output, output_format, ruleset, second_opinion=not no_second_opinion)
        return
    if is_published(reference) and output_format != "html":
        raise click.UsageError("--with published makes a page, or text of 'compare'. Leave --format or --with out.")
    if is_brief and output_format != "html":
        raise click.UsageError(f"--summary makes an HTML page, not {output_format}. Leave one of them out.")
    is_printed = str(output) == "-" or (output is None and output_format != "html")
    if not is_printed:
        refuse_folder(output, _DEFAULT_PAGE)
    with no_collections():  # almost all gathered objects stay until the page is written
        from reports.page.content import gather_everything
        from reports.page.report import render_report
        from reports.results.find import find_by_label, with_prices
        from reports.results.reference_systems import close_systems, expand_bundles
        from rules.errors import InputError
        from rules.tree.inventory import take_inventory

        click.get_current_context().call_on_close(close_systems)
        inventories = [take_inventory(path, benchmark_file) for path in expand_bundles(distinct(paths))]
        echo_others(inventories)
        gathered = gather_everything(
            inventories,
            second_opinion=not no_second_opinion,
            benchmark_file=benchmark_file,
            on_opinion=partial(show_opinions, StatusLine()),
            mtbf_s=mtbf_s,
            reference=reference,
            ruleset=ruleset,
        )
        try:
            base = None if baseline is None else find_by_label(gathered.sets, baseline, "--baseline")
            priced = with_prices(gathered.sets, prices)
            gathered = replace(gathered, results=(*priced, *gathered.measured))
        except InputError as error:
            # The error is in a name on the command line, not in a file.
            raise click.UsageError(str(error)) from None
        text = render_report(
            gathered, output_format=output_format, title=title, baseline=base, order=order, is_brief=is_brief
        )
    if is_printed:
        click.echo(text, nl=False)
    else:
        click.echo(write_output(output, _DEFAULT_PAGE, text))


def _write_tables(
    paths: tuple[Path, ...], output: Path | None, output_format: str, ruleset: str | None, *, second_opinion: bool
) -> None:
    """Write the results as tables. Parquet can be written from any results, JSON and CSV from exported JSON files.

    Raises UsageError for any other format: a page, for example, needs logs, which exported files do not have. Raises
    UsageError also if Parquet is requested without an output folder.
    """
    from reports.page.exports import read_documents
    from reports.page.report import write_whole
    from reports.tables.documents import json_text

    if output_format not in ("json", "csv", "parquet"):
        raise click.UsageError(
            f"{output_format} is made from result directories; an exported file has no logs. Give the directories, "
            "or --format json, csv or parquet."
        )
    if output_format == "parquet" and (output is None or str(output) == "-" or output.is_file()):
        raise click.UsageError("parquet is several files: give --output a directory for them.")
    document = read_documents(paths, second_opinion=second_opinion, ruleset=ruleset)
    if output_format == "parquet" and output is not None:
        from reports.tables.frames import write_parquet

        for path in write_parquet(document, output):
            click.echo(path)
        return
    if output_format == "csv":
        from reports.tables.frames import document_csv

        text = document_csv(document)
    else:
        text = json_text(document)
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
    else:
        click.echo(write_whole(output, text))
