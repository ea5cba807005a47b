"""`history`: past run sets and measurements of a directory, and what changed over time."""

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.help import verb
from harness.cli.shared.output import form_option, refuse_folder, show, show_json, write_output
from harness.foundation.errors import ExitCode, HarnessError
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.extensions.history.timelines import Timeline

_DEFAULT_PAGE = Path("history.html")


@verb("dlrmbench history", "dlrmbench history results --format html -o history.html")
@click.argument("folder", metavar="[DIR]", default="results", type=click.Path(path_type=Path))
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most so many, the newest."
)
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "never"]),
    default="never",
    show_default=True,
    help="regression: list what changed, and exit 5 for a change for the worse within the --last sets of its line, "
    "else 7 where a line that has sets since then cannot be judged.",
)
@click.option(
    "--last", type=click.IntRange(min=3), default=10, show_default=True, help="How many sets --fail-on looks back."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The page to write [html: history.html].")
@form_option("table", "json", "csv", *FORMS, "html")
def history(folder: Path, limit: int, fail_on: str, last: int, output: Path | None, form: str) -> int:
    """List past run sets and measurements below DIR, newest first.  [default: results]

    Each with its benchmark, configuration, system, verdict, score, throughput, and the code that made it. Sets that
    cannot be read are listed as broken. Nothing is kept elsewhere: the directory is the history.

    --format html makes a page of all sets: a chart per benchmark, configuration, system and quantity, and changes
    that are more than chance, each with the first set after it, both commits, its step and what else differs. 3 sets
    must follow it, of at least 8. A line that drifts, or rises or falls steadily, is not judged, which is said.
    """
    from reports.comparison.history import read_history
    from reports.comparison.records import PastSet
    from reports.document.blocks import Prose
    from reports.views.history import history_blocks

    if output is not None and form != "html":
        raise click.UsageError(f"--output is for --format html, and {form} is printed. Leave one of them out.")
    if form == "html":
        refuse_folder(output, _DEFAULT_PAGE)
    lines, num_left_out = None, 0
    if form == "html" or fail_on != "never":
        from harness.extensions.history.timelines import read_timelines
        from rules.judge.parallel import no_collections

        with no_collections():
            lines, num_left_out = read_timelines(folder)
    past, num_found = ((), 0) if form == "html" else read_history(folder, limit=limit)
    if form == "html":
        from harness.extensions.history.page import render_history

        typed = shlex.join(["dlrmbench", *sys.argv[1:]])
        page = render_history(lines or (), num_left_out, command=typed)
        click.echo(write_output(output, _DEFAULT_PAGE, page))
    elif form == "json":
        from harness.extensions.history.documents import HistoryDocument
        from harness.extensions.history.words import change_rows, why_not_judged

        changes = None if lines is None else change_rows(lines)
        left = None if lines is None else tuple(filter(None, map(why_not_judged, lines)))
        show_json(HistoryDocument(num_found=num_found, run_sets=past, changes=changes, not_judged=left))
    elif form == "csv":
        from reports.tables.frames import frame_csv, record_frame

        click.echo(frame_csv(record_frame(PastSet, past)), nl=False)
    else:
        blocks = [*history_blocks(past)]
        if past and len(past) < num_found:
            blocks.append(Prose(text=f"{len(past)} of {num_found} shown; --limit shows more."))
        if past and lines is not None:
            from harness.extensions.history.words import change_blocks

            blocks += change_blocks(lines)
        show(blocks, form)
    return ExitCode.DONE if fail_on == "never" else _judge_timelines(lines or (), last)


def _judge_timelines(lines: Sequence["Timeline"], last: int) -> int:
    """Name on standard error what became worse, and lines that cannot be judged. Raises HarnessError for them alone.

    A line that had no set since the last `last` sets of any line that is judged is over, and not asked for.
    """
    from harness.extensions.history.words import change_sentence, why_not_judged

    worse = [
        change_sentence(line, change)
        for line in lines
        for change in line.changes
        if change.is_worse and change.at >= len(line.points) - last
    ]
    for text in worse:
        click.echo(f"regression: {text}", err=True)
    judged = [line.points[-last:] for line in lines if not why_not_judged(line)]
    since_ms = min((points[0].time_ms for points in judged), default=-math.inf)
    reasons = [why for line in lines if line.points[-1].time_ms >= since_ms and (why := why_not_judged(line))]
    for text in reasons:
        click.echo(f"not judged: {text}", err=True)
    if not worse and not judged:
        raise HarnessError("no line of sets can show a regression.", ExitCode.INCONCLUSIVE)
    if not worse and reasons:
        what = "a line of sets" if len(reasons) == 1 else f"{len(reasons)} lines of sets"
        raise HarnessError(f"no regression is shown, but {what} cannot be judged.", ExitCode.INCONCLUSIVE)
    return ExitCode.REGRESSION if worse else ExitCode.DONE
