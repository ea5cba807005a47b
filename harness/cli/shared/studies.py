"""Keep a study (findings and tables of a measurement or simulation that is neither trained to a target nor scored) in
its own folder with its page, and print it.

A terminal shows the findings and one table, unless --verbose is given.
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.output import has_verbose, is_verbose, show

if TYPE_CHECKING:
    from harness.experiment.finish import FinishedStudy
    from reports.document.blocks import Block, Table
    from rules.records.study import StudyRecord, StudyTable

_MOST_FINDINGS = 2
"""Largest number of a study's findings (sentences) that a terminal shows where the study also has a page. Findings
beyond this number only repeat rows of the table."""


def keep_study(
    study: "StudyRecord",
    output: Path,
    name: str,
    form: str,
    logs: Path | None = None,
    *,
    inputs: Iterable[Path] = (),
    table: int = 0,
    closes: bool = False,
) -> None:
    """Write a study's record (study.json) and page (report.html) to a new folder below `output`, named `name` and the
    time; print the study in the form `form`.

    The contents of the folder `logs`, if given, are copied into the new folder. `inputs` are the files that the study
    was made from; `table` is the index of the table that a terminal shows. `closes` says that the last finding is a
    conclusion, which a terminal shows even where other findings are left out.
    """
    from harness.run_sets.output import find_unique_folder

    folder = find_unique_folder(output, f"{name[:100]}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    folder.mkdir(parents=True)
    if logs is not None:
        shutil.copytree(logs, folder, dirs_exist_ok=True)
    study = with_making(study, inputs)
    write_study(study, folder)
    show_written(study, folder, form, table=table, closes=closes)


def with_making(study: "StudyRecord", inputs: Iterable[Path] = ()) -> "StudyRecord":
    """Return a study's record with a description of how it was made: this process's command line, and the digests of
    the input files `inputs`."""
    from msgspec import structs

    from harness.run_sets.making import describe_making

    return structs.replace(study, made=describe_making(["dlrmbench", *sys.argv[1:]], inputs))


def write_study(study: "StudyRecord", folder: Path) -> None:
    """Write a study (findings and tables) to a folder: its record, study.json, and its page, report.html."""
    from harness.foundation.files import write_record
    from reports.page.content import ReportContent
    from reports.page.report import write_page
    from rules.records.study import STUDY_FILE

    write_record(folder / STUDY_FILE, study)
    write_page(ReportContent(studies=(study,)), folder)


def show_written(study: "StudyRecord", folder: Path, form: str, *, table: int = 0, closes: bool = False) -> None:
    """Print a study (findings and tables) that `write_study` has written to a folder; as text, also the paths of its
    files."""
    from reports.page.report import PAGE_NAME
    from rules.records.study import STUDY_FILE

    show_answer(study, form, table=table, has_page=True, closes=closes)
    if form == "table":
        click.echo(f"\nfile   {folder / STUDY_FILE}\npage   {folder / PAGE_NAME}")


def show_finished(done: "FinishedStudy", folder: Path, form: str, *, table: int = 0) -> None:
    """Print the study (findings and tables) that a complete experiment has as its result; as text, also the paths of
    the experiment's folder and page. A terminal shows the table of index `table`."""
    show_answer(done.study, form, table=table, has_page=True)
    if form == "table":
        click.echo(f"\nresults  {folder}\nreport   {done.page}")


def show_answer(
    study: "StudyRecord", form: str, *, table: int = 0, has_page: bool = False, closes: bool = False
) -> None:
    """Print a study (findings and tables); on a terminal, unless --verbose is given, only its findings and the table
    of index `table`."""
    if form == "table" and not is_verbose():
        show(_answer_blocks(study, table, has_page=has_page, closes=closes))
    else:
        show_study(study, form)


def _answer_blocks(study: "StudyRecord", index: int, *, has_page: bool, closes: bool = False) -> "list[Block]":
    """Return what a terminal shows of a study, as blocks: its findings, one table, failed checks, the load during the
    measurement, and a sentence that says where the rest is shown."""
    from reports.document.blocks import Bullets, Heading, Prose
    from reports.parts.load import environment_words
    from reports.text.formatting import plural, printable
    from rules.records.study import TIMELINE

    shown = study.tables[index]
    findings = study.findings[:_MOST_FINDINGS] if has_page else study.findings
    findings += study.findings[-1:] if closes and len(findings) < len(study.findings) else ()
    failed = tuple(
        f"{printable(check.name)}: expected {check.expected:.10g}, found {check.found:.10g}; FAILED"
        for check in study.checks
        if not check.is_passed
    )
    environment = environment_words(study.preflight, study.loads)
    others = [printable(each.title) for each in study.tables if each is not shown]
    hidden = [f"'{title}'" for title in others if not title.startswith(TIMELINE)]
    hidden += [plural(more, "more finding")] if (more := len(study.findings) - len(findings)) else []
    hidden += [f"the {plural(len(study.parameters), 'input')}"] if study.parameters else []
    places = [*(["--verbose"] if has_verbose() else []), *(["the page"] if has_page else [])]
    rest = f"{_joined(places)} also {'show' if len(places) > 1 else 'shows'} {_joined(hidden)}."
    return [
        Heading(text=printable(study.title)),
        *(Prose(text=printable(finding)) for finding in findings),
        *_narrow_table(shown),
        *([Bullets(items=failed, kind="warnings")] if failed else []),
        *([Prose(text=environment)] if environment else []),
        *([Prose(text=rest[0].upper() + rest[1:])] if hidden and places else []),
    ]


def _joined(words: Sequence[str]) -> str:
    """Return words joined as 'a', 'a and b', 'a, b and c'."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _narrow_table(table: "StudyTable") -> "tuple[Table, Block]":
    """Return a study's table without its empty columns, and a sentence below it on the sources of the columns'
    numbers (given, measured, computed and so on)."""
    from reports.document.blocks import Prose
    from reports.parts.study import study_table, without_empty_columns
    from reports.text.formatting import printable

    table = without_empty_columns(table)
    whole, names = study_table(table), [printable(column.name) for column in table.columns]
    columns = tuple(replace(column, name=name) for column, name in zip(whole.columns, names, strict=True))
    said = [(column.origin, name) for column, name in zip(table.columns, names, strict=True)]
    return replace(whole, columns=columns), Prose(text=_origins(said))


def _origins(columns: Sequence[tuple[str, str]]) -> str:
    """Return a sentence that says from which source the numbers of each column come: 'Given: Cache. Computed: Rows;
    Miss ratio.' Columns are (source, name), in the table's order."""
    origins = dict.fromkeys(origin for origin, _ in columns)
    if len(origins) == 1:
        return f"All {next(iter(origins))}."
    named = {origin: "; ".join(name for of, name in columns if of == origin) for origin in origins}
    return " ".join(f"{origin.capitalize()}: {texts}." for origin, texts in named.items())


def show_study(study: "StudyRecord", form: str) -> None:
    """Print a study (findings and tables) in the form `form`; as CSV, print its one table."""
    from reports.parts.study import study_blocks
    from reports.render.csv import render_csv
    from rules.records.codec import encode

    if form == "json":
        click.echo(encode(study), nl=False)
    elif form == "csv":
        (table,) = study.tables
        click.echo(render_csv([column.name for column in table.columns], table.rows), nl=False)
    else:
        show(study_blocks(study), form)
