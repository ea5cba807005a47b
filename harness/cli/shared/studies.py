"""Keep a study that a verb has made, in a folder of its own with its page, and print it."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.output import is_verbose, show, tell

if TYPE_CHECKING:
    from harness.experiment.finish import FinishedStudy
    from rules.records.study import StudyRecord


def keep_study(study: "StudyRecord", output: Path, name: str, form: str, logs: Path | None = None) -> None:
    """Write study.json and report.html to a new folder `name` and moment below `output`; print the study.

    What the folder `logs` holds, where there is one, is kept beside them.
    """
    from harness.run_sets.output import unique_folder

    folder = unique_folder(output, f"{name[:100]}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    folder.mkdir(parents=True)
    if logs is not None:
        shutil.copytree(logs, folder, dirs_exist_ok=True)
    write_study(study, folder)
    show_written(study, folder, form)


def write_study(study: "StudyRecord", folder: Path) -> None:
    """Write study.json and report.html to a folder."""
    from harness.foundation.files import write_record
    from reports.page.content import ReportContent
    from reports.page.report import write_page
    from rules.records.study import STUDY_FILE

    write_record(folder / STUDY_FILE, study)
    write_page(ReportContent(studies=(study,)), folder)


def show_written(study: "StudyRecord", folder: Path, form: str) -> None:
    """Print a study that `write_study` has written to a folder."""
    from reports.page.report import PAGE_NAME
    from rules.records.study import STUDY_FILE

    show_study(study, form)
    if form == "table":
        click.echo(f"\nfile   {folder / STUDY_FILE}\npage   {folder / PAGE_NAME}")


def show_finished(done: "FinishedStudy", folder: Path, form: str, last: str = "") -> None:
    """Print the study that is in the folder of a complete experiment, where both are, and a `last` sentence."""
    from reports.text.formatting import printable

    show_study(done.study, form)
    if form == "table":
        ending = f"\n{printable(last)}" if last else ""
        tell(f"results  {folder}\nreport   {done.page}{ending}")


def show_answer(study: "StudyRecord", form: str) -> None:
    """Print a study; for a terminal, unless --verbose is given, what was found and its first table alone."""
    from reports.document.blocks import Heading, Prose
    from reports.parts.study import study_table
    from reports.text.formatting import plural, printable

    if form != "table" or is_verbose():
        show_study(study, form)
        return
    first, *others = study.tables
    hidden = [f"'{printable(table.title)}'" for table in others]
    hidden += [f"the {plural(len(study.parameters), 'number')} that it rests on"] if study.parameters else []
    more = [Prose(text=f"--verbose has also {', and '.join(hidden)}.")] if hidden else []
    findings = (Prose(text=printable(finding)) for finding in study.findings)
    show([Heading(text=printable(study.title)), *findings, study_table(first), *more])


def show_study(study: "StudyRecord", form: str) -> None:
    """Print a study; as CSV its one table."""
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
