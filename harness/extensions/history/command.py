"""Define the command `history`: past run sets and measurements of a folder, and what changed over time."""

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.help import verb
from harness.cli.shared.output import form_option, refuse_folder, show, show_json, write_output
from harness.foundation.errors import ExitCode, HarnessError
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.extensions.history.series import SetSeries

_DEFAULT_PAGE = Path("history.html")


@verb("dlrmbench history", "dlrmbench history results --format html -o history.html")
@click.argument("folder", metavar="[DIR]", default="results", type=click.Path(path_type=Path))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Largest number of sets to show, the newest first.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "never"]),
    default="never",
    show_default=True,
    help="regression: list what changed, and exit with 5 if a series got worse within its newest sets (--last "
    "says how many). Exit with 7 if no series got worse but a series cannot be judged. A series that cannot be "
    "judged is ignored if its newest set is older than the --last newest sets of every judged series. never: changes "
    "do not affect the exit code.",
)
@click.option(
    "--last",
    type=click.IntRange(min=3),
    default=10,
    show_default=True,
    help="Number of newest sets of each series in which --fail-on looks for regressions.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="HTML file to write with --format html.  [default: history.html]",
)
@form_option("table", "json", "csv", *FORMS, "html")
def history(folder: Path, limit: int, fail_on: str, last: int, output: Path | None, form: str) -> int:
    """List past run sets and measurements below DIR, newest first.  [default: results]

    Each set is listed with its benchmark, configuration, system, verdict, score, throughput, and the version of the
    code that made it. Sets that cannot be read are listed as broken. The directory DIR is the whole history: no data
    is kept elsewhere.

    A series is one quantity of one benchmark, configuration and system over time. --format html makes a page of all
    series: a chart of each, and the changes that are more than chance. Each change is shown with its size, the first
    set after the change, the commits before and after, and the settings that differ. Changes are found in series of
    at least 8 sets, with at least 3 sets after the change. A series that drifts, rises or falls steadily is not
    judged, and the page says so.
    """
    from reports.comparison.history import read_history
    from reports.comparison.records import PastSet
    from reports.document.blocks import Prose
    from reports.views.history import history_blocks

    if output is not None and form != "html":
        raise click.UsageError(f"--output is for --format html, and {form} is printed. Leave one of them out.")
    if form == "html":
        refuse_folder(output, _DEFAULT_PAGE)
    every: tuple[SetSeries, ...] | None = None
    left_out: Mapping[str, int] = {}
    if form == "html" or fail_on != "never":
        from harness.extensions.history.series import read_series
        from rules.judge.parallel import no_collections

        with no_collections():
            every, left_out = read_series(folder)
    past, num_found = ((), 0) if form == "html" else read_history(folder, limit=limit)
    if form == "html":
        from harness.extensions.history.page import render_history

        typed = shlex.join(["dlrmbench", *sys.argv[1:]])
        page = render_history(every or (), left_out, command=typed)
        click.echo(write_output(output, _DEFAULT_PAGE, page))
    elif form == "json":
        from harness.extensions.history.documents import HistoryDocument
        from harness.extensions.history.words import change_rows, why_not_judged

        changes = None if every is None else change_rows(every)
        unjudged = None if every is None else tuple(filter(None, map(why_not_judged, every)))
        show_json(HistoryDocument(num_found=num_found, run_sets=past, changes=changes, not_judged=unjudged))
    elif form == "csv":
        from reports.tables.frames import frame_csv, record_frame

        click.echo(frame_csv(record_frame(PastSet, past)), nl=False)
    else:
        blocks = [*history_blocks(past)]
        if past and len(past) < num_found:
            blocks.append(Prose(text=f"{len(past)} of {num_found} shown; --limit shows more."))
        if past and every is not None:
            from harness.extensions.history.words import change_blocks

            blocks += change_blocks(every)
        show(blocks, form)
    return ExitCode.DONE if fail_on == "never" else _judge_series(every or (), last)


def _judge_series(every: Sequence["SetSeries"], last: int) -> int:
    """Print on standard error the regressions, and the series (results over time) that cannot be judged; return the
    exit code.

    A series that cannot be judged is ignored if it has ended: its newest run set is older than all of the `last`
    newest run sets of each series that can be judged. Without a regression, raises HarnessError (exit 7) if no series
    can be judged, or if a series that has not ended cannot be judged.
    """
    from harness.extensions.history.words import change_sentence, why_not_judged

    worse = [
        change_sentence(series, change)
        for series in every
        for change in series.changes
        if change.is_worse and change.at >= len(series.points) - last
    ]
    for text in worse:
        click.echo(f"regression: {text}", err=True)
    judged = [series.points[-last:] for series in every if not why_not_judged(series)]
    since_ms = min((points[0].time_ms for points in judged), default=-math.inf)
    reasons = [why for series in every if series.points[-1].time_ms >= since_ms and (why := why_not_judged(series))]
    for text in reasons:
        click.echo(f"not judged: {text}", err=True)
    if not worse and not judged:
        raise HarnessError("no series of sets can show a regression.", ExitCode.INCONCLUSIVE)
    if not worse and reasons:
        what = f"no regression is shown, but {len(reasons)} series cannot be judged."
        raise HarnessError(what, ExitCode.INCONCLUSIVE)
    return ExitCode.REGRESSION if worse else ExitCode.DONE
