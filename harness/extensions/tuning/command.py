"""Define the command `tune`: search settings under constraints, each trial proposed from measurements of earlier
ones."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from harness.cli.shared.experiments import start_and_show
from harness.cli.shared.help import verb
from harness.cli.shared.options import (
    BENCHMARK,
    QUIET,
    completing,
    configuration,
)
from harness.cli.shared.output import VERBOSE, form_option, note
from harness.cli.shared.requests import KINDS, read_request, request_options
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.extensions.tuning.records import ConstraintRecord

_HELP = {
    "axes": "Configuration key to search, with its values or a range LOW..HIGH (LOW..HIGH:log on a log scale); "
    "repeatable.",
    "output": "Folder in which the search's folder is made.",
    "seed": "Base seed of all trials and of the sampler.  [default: drawn]",
}


def columns() -> Iterable[str]:
    """List the measured columns that a search can optimize or constrain, of all kinds of measurement."""
    from harness.extensions.tuning.trials import searched_kinds
    from rules.records.columns import columns_of

    return dict.fromkeys(name for kind in searched_kinds() for name in columns_of(kind))


def _read_constraint(text: str) -> "ConstraintRecord":
    from harness.extensions.tuning.asked import read_constraint

    return read_constraint(text)


@verb(
    "dlrmbench tune --axis train.global_batch_size=256..4096:log --maximize auc",
    "dlrmbench tune dlrm_tiny --axis runtime.threads=1..4 --maximize samples_per_s",
)
@BENCHMARK
@configuration
@request_options("sweep", "axes", help=_HELP)
@click.option(
    "--minimize",
    metavar="COLUMN",
    shell_complete=completing(columns),
    help="Column of the results to minimise, such as time_to_train_s or latency_s.",
)
@click.option(
    "--maximize",
    metavar="COLUMN",
    shell_complete=completing(columns),
    help="Column of the results to maximise, such as samples_per_s, auc, queries_per_s.",
)
@click.option(
    "--constraint",
    "constraints",
    type=_read_constraint,
    multiple=True,
    metavar="'COLUMN<=VALUE'",
    help="Bound (<= or >=) on a column of the results, which a trial must keep to be feasible; repeatable.",
)
@click.option(
    "--trials",
    type=click.IntRange(2, 10_000),
    default=20,
    show_default=True,
    help="Number of trials, including the trial of the default configuration.",
)
@click.option(
    "--sampler",
    type=click.Choice(["auto", "random"]),
    default="auto",
    show_default=True,
    help="How trials are chosen: at random, or (auto) from the results of earlier trials, by a Gaussian process for "
    "up to 200 trials and by TPE for more.",
)
@click.option(
    "--parallel-trials",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of trials that run at the same time, each on its own cores and GPUs; the best trial and the default "
    "configuration are measured again, with nothing beside them.",
)
@request_options(
    "sweep", "output", "seed", KINDS, "timeout_s", "strict_env", "prepare", "cleanup", "power_command", "log_to",
    help=_HELP,
)  # fmt: skip
@form_option("table", "json", *FORMS, text="Form of the final output; json is the stored study.")
@VERBOSE
@QUIET
def tune(
    benchmark: str,
    minimize: str | None,
    maximize: str | None,
    constraints: "tuple[ConstraintRecord, ...]",
    trials: int,
    sampler: Any,
    parallel_trials: int,
    form: str,
    **given: Any,
) -> None:
    """Search for the best settings of BENCHMARK under constraints; then measure the best trial and the default
    settings alternately.

    The first trial is the default configuration. Each later trial is proposed by optuna from all earlier
    measurements; every trial is one process, and all trials have equal seeds. A trial that fails, or misses a
    constraint, is infeasible. At the end of the search, the best feasible trial and the default configuration are
    measured in 5 pairs with seeds that no trial had, and compared: the default is kept unless the best trial is shown
    to be better. If the default configuration failed, the best trial is measured alone. If the best trial misses a
    constraint when it is measured again, the second best trial is measured, too. 'dlrmbench resume' completes an
    interrupted search, with the trials that the search would have made.

    COLUMN is one of the following: any column of a measurement's table; memory; energy_delay; or, for runs to the
    target, time_to_train_s. Without an option such as --throughput or --quality, each trial makes the first kind of
    measurement that has all COLUMNs of --minimize, --maximize and --constraint.

    With --parallel-trials several trials are measured at a time; these trials are proposed together, before any of
    them is measured. A trial that ends early repeats its work until all trials measured at the same time have ended,
    so that each trial runs beside equally many others; the repeated work is not recorded.
    """
    from harness.extensions.tuning.asked import with_kind
    from harness.extensions.tuning.records import SearchRecord
    from harness.foundation.optuna import quiet_optuna
    from reports.statistics.intervals import MIN_RUNS
    from rules.records.experiment import StopRecord

    objective = minimize or maximize
    if objective is None or (minimize and maximize):
        raise click.UsageError("give one of --minimize COLUMN and --maximize COLUMN.")
    direction: Any = "minimize" if minimize else "maximize"
    search = SearchRecord(
        objective=objective,
        direction=direction,
        constraints=constraints,
        sampler=sampler,
        parallel_trials=parallel_trials,
    )
    stop = StopRecord(rule="search", values={"trials": float(trials)}, asked=to_builtins(search))
    request = read_request("tune", benchmark, given, like="sweep", relation="search", asked=search, stop=stop)
    request = with_kind(request, search)
    if not request.quiet:
        at_a_time = f", {parallel_trials} at a time" if parallel_trials > 1 else ""
        note(
            f"up to {trials} trials of one process each{at_a_time}, then {MIN_RUNS} pairs of the best and the "
            "default: how long all of it takes is said when the first trial has ended"
        )
    with quiet_optuna():  # raises if optuna is not installed, before anything is written
        start_and_show(request, form=form)
