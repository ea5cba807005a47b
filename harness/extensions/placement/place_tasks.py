"""Define the command `place-tasks`: compare searches of placement plans on many tasks, which are sets of embedding
tables that belong to no benchmark."""

import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import DATA
from harness.cli.shared.output import form_option
from harness.extensions.placement.options import (
    COUNT,
    DEVICES,
    HEADINGS,
    device_options,
    find_output,
    read_question,
    search_options,
)
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.extensions.placement.plans import Placement

_KEPT = ("--devices", *(option for option, *_ in DEVICES), "--cost")
"""Options of `place-tasks` that are repeated in the `place` command which its study suggests to run next."""


@verb(
    "dlrmbench place-tasks -n 10 --devices 4",
    "dlrmbench place-tasks --read tasks.txt tables.txt --devices 4 --by greedy",
    name="place-tasks",
    headings=HEADINGS,
)
@click.option(
    "-n",
    "--number",
    type=COUNT,
    metavar="TASKS",
    help="Number of placement tasks: generated tasks, or the first tasks of --read.  [default: 10, or all tasks of "
    "--read]",
)
@click.option(
    "--read",
    "files",
    type=(click.Path(path_type=Path), click.Path(path_type=Path)),
    metavar="TASKS TABLES",
    help="Read placement tasks from the file TASKS, with a line 'ids dims' for each task, and their tables from the "
    "file TABLES, both in NeuroShard's format.",
)
@DATA
@device_options(memory="4GiB", reserve="0%")
@search_options
@form_option("table", "json", *FORMS)
def place_tasks(number: int | None, files: tuple[Path, Path] | None, form: str, **given: Any) -> None:
    """Search plans for many tasks, each a set of tables to place on --devices N, and compare the plans' costs.

    Tasks are drawn as NeuroShard's generator draws them, or read from files. Costs of plans are computed as by
    'place'; trained nets and search policies are kept in the folder place/ below --data. The results, in study.json,
    and their HTML page are kept in a new folder of the results folder.
    """
    from msgspec import structs

    from harness.cli.shared.studies import keep_study
    from harness.extensions.placement.plans import make_tasks, search_plans

    kept_in = find_output()
    question = read_question(given)
    placement = search_plans(question, make_tasks(question, number, files), None)
    study, at = placement.study, len(placement.costs.findings) + 1  # below the answer's finding
    following = [*filter(None, [_say_next(placement)])]
    study = structs.replace(study, findings=(*study.findings[:at], *following, *study.findings[at:]))
    keep_study(study, kept_in, "place-tasks", form, inputs=files or ())


def _say_next(placement: "Placement") -> str:
    """Return a sentence with the command that places a benchmark's tables by the search whose plans are cheapest; ''
    if no search placed all tasks."""
    from harness.extensions.placement.shown import find_cheapest

    costs = {name: [each.cost_s for each in of if each.cost_s is not None] for name, of in placement.found.items()}
    whole = {name: sum(of) for name, of in costs.items() if len(of) == len(placement.tasks)}
    if not whole:
        return ""
    kept = [
        part
        for word, value in pairwise([*sys.argv[1:], ""])
        if word.partition("=")[0] in _KEPT
        for part in ((word,) if "=" in word else (word, value))
    ]
    search = find_cheapest(whole)[0]
    words = ["dlrmbench", "place", "dlrm_dcnv2", *kept, "--by", search]
    return (
        f"Next, to place a benchmark's tables by the search '{search}', whose plans are the cheapest of this study: "
        f"{shlex.join(words)}"
    )
