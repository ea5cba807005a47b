"""Define the command `usage`: serve several models with rates and deadlines, and score how they meet them."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import DATA, QUIET, RUNS, completing_or_files, output_option
from harness.cli.shared.output import VERBOSE, form_option
from reports.render.forms import FORMS


def _usages() -> Iterable[str]:
    from harness.extensions.usage.definition import shipped_usages

    return shipped_usages()


@verb("dlrmbench usage feed", "dlrmbench usage feed --axis retrieval.graph=small_world,power_law")
@click.argument("usage", metavar="NAME|FILE.toml", shell_complete=completing_or_files(_usages))
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="MODEL.KEY=VALUE",
    help="Set one value of a model or of the application (usage.KEY); repeatable.",
)
@click.option(
    "--axis",
    metavar="MODEL.KEY=V1,V2",
    help="Key of a model, or of the application (usage.KEY), to vary, with the values to compare.",
)
@click.option(
    "--simulated",
    "is_simulated",
    is_flag=True,
    help="Schedule requests in simulated time, with service times measured now.",
)
@click.option(
    "--workers",
    "num_workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of worker processes.  [default: the number in the application's definition]",
)
@click.option(
    "-n",
    "--processes",
    "num_processes",
    type=RUNS,
    default=5,
    show_default=True,
    help="Number of measurements, each by newly started workers and with other arrival times of requests.",
)
@click.option(
    "--threads",
    "num_threads",
    type=click.IntRange(min=1),
    help="Number of CPU threads.  [default: the number of cores]",
)
@click.option(
    "--score",
    "counting",
    type=click.Choice(["released", "once"]),
    default="released",
    show_default=True,
    help="How XRBench's score counts dropped requests: twice, as in XRBench's released code, or once.",
)
@click.option(
    "--train",
    "num_trained",
    type=click.IntRange(min=1),
    metavar="SAMPLES",
    help="Train the filtering and the ranking model on SAMPLES samples, and judge their ranked lists end to end.",
)
@DATA
@output_option("Folder in which a new folder with the results is made.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Base seed of the requests' arrivals and the models' weights.  [default: drawn]",
)
@form_option("table", "json", *FORMS)
@VERBOSE
@QUIET
def usage(
    usage: str, assignments: tuple[str, ...], axis: str | None, num_workers: int | None, num_threads: int | None,
    counting: Literal["released", "once"], data_root: Path | None, output: Path, seed: int | None, form: str,
    **how: Any,
) -> None:  # fmt: skip
    """Serve the models that one application (feed, vr_gaming, … or FILE.toml) requests, each with a rate and a
    deadline.

    Requests to the models are scheduled by earliest deadline first. Each worker is a process of its own; with
    --simulated the requests are scheduled in simulated time. A request that has not begun by its deadline is dropped.
    The score is measured several times, by newly started workers, and has a 95 % confidence interval (Student's t)
    over these measurements. The applications named after XRBench's scenarios have small MLPs in place of XRBench's
    models. --set takes a key of a model, MODEL.KEY, or of the application, usage.KEY. Where no rate meets all
    deadlines, the exit code is 7.
    """
    from harness.cli.shared.studies import keep_study
    from harness.config.axes import split_values
    from harness.extensions.usage.definition import read_usage, with_value
    from harness.extensions.usage.points import study_usage
    from harness.foundation.errors import ExitCode, HarnessError
    from rules.benchmarks.seeds import draw_base_seed

    path, tables = read_usage(usage)
    for text in assignments:
        tables = with_value(tables, text)
    if num_workers is not None:
        tables = with_value(tables, f"usage.workers={num_workers}", "--workers")
    key, equals, values = (axis or "").partition("=")
    texts = split_values(values) if axis is not None else []
    points = [(text, with_value(tables, f"{key}{equals}{text}", "--axis")) for text in texts] or [("", tables)]
    given = [part for text in assignments for part in ("--set", text)]
    given += [] if num_workers is None else ["--workers", str(num_workers)]
    given += [] if num_threads is None else ["--threads", str(num_threads)]
    given += ["--simulated"] if how["is_simulated"] else []
    study, why_hopeless = study_usage(
        path, points, None if axis is None else key, data=data_root, output=output, num_threads=num_threads,
        seed=draw_base_seed() if seed is None else seed, counting=counting,
        again=shlex.join(["dlrmbench", "usage", usage, *given]), **how,
    )  # fmt: skip
    keep_study(study, output, f"usage-{Path(usage).stem}", form, inputs=[Path(usage)], table=int(axis is None))
    if why_hopeless:
        raise HarnessError(why_hopeless, ExitCode.INCONCLUSIVE)
