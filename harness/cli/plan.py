"""Define the command `plan`: time, resources and rule violations of a run, before it is started."""

from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, RUNS, collect_overrides, configuration
from harness.cli.shared.output import VERBOSE, form_option, is_verbose, show_as


@verb("dlrmbench plan dlrm_small", "dlrmbench plan ./mine.toml --no-measure")
@BENCHMARK
@configuration
@click.option(
    "-n",
    "--runs",
    "num_runs",
    type=RUNS,
    help="Number of runs in the run set.  [default: the benchmark's number of runs]",
)
@form_option("table", "json")
@VERBOSE
@click.option(
    "--measure/--no-measure", default=True, help="Time a few steps and an evaluation to estimate the time of a run."
)
def plan(
    benchmark: str,
    num_runs: int | None,
    form: str,
    measure: bool,
    **given: Any,
) -> None:
    """Show BENCHMARK's configuration, the time and memory that its runs need, and the rules that they would break.

    A few steps and one evaluation are timed to estimate how long a run takes (not with --no-measure); no result is
    kept. The exit code is 2 where the runs could not start on this machine. The exit code is 8 where a dataset that
    is already in its default folder, or the dataset that --data names, cannot be used. A dataset that must still be
    prepared is listed as a problem and leaves the exit code 0.
    """
    from harness.config.run_config import default_division, resolve
    from harness.planning.plan import make_plan, plan_as_json, plan_blocks

    config = resolve(benchmark, collect_overrides(given), given["name"])
    config.workload.implementation.require_installed()
    runs = config.benchmark.score.num_runs if num_runs is None else num_runs
    made = make_plan(
        config,
        given["data_root"],
        num_runs=runs,
        division=given["division"] or default_division(config.benchmark),
        measure=measure,
    )
    show_as(form, plan_as_json(made), plan_blocks(made, runs, is_brief=not is_verbose()))
    click.get_current_context().exit(int(made.exit_code))
