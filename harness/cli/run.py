"""`run`, `versus` and `resume`: train to the target, judge, score, report."""

from pathlib import Path
from typing import Any

import click

from harness.cli.shared.experiments import complete_and_show, start_and_show, usage_errors
from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, QUIET, RUNS, ResultPath, configuration
from harness.cli.shared.output import form_option, note
from harness.cli.shared.requests import KINDS, read_request, request_options


@verb("dlrmbench run dlrm_tiny -n 1", "dlrmbench run --throughput 100 --name speed")
@BENCHMARK
@configuration
@request_options(
    "run", "runs", "output", "seed", "timeout_s", "until", "max_runs", KINDS, "matmul", "keep_weights", "run_index",
    "beside", "python", "strict_env", "prepare", "cleanup", "power_command",
    "log_to",
)  # fmt: skip
@form_option("table", "json", text="What stdout says at the end: a summary, or the same as JSON and nothing else.")
@QUIET
def run(benchmark: str, form: str, **given: Any) -> None:
    """Train BENCHMARK to its quality target, as many times as it asks for; then check, score and report.

    BENCHMARK is a name from 'dlrmbench list' or the path of a TOML definition; dlrm_small by default.

    Weights of --keep-weights are written after run_stop, off the clock; 'package --weights' packages them.

    With --beside SET it does as 'versus SET': -n pairs of runs are made in turns, of SET's configuration again and of
    the new one, which is SET's with the options given here, or all that this command line says where it names a
    BENCHMARK.
    """
    start_and_show(read_request("run", benchmark, given), form=form)


@verb(
    "dlrmbench versus latest --implementation optimized",
    "dlrmbench versus base --set train.global_batch_size=2048 -n 10",
)
@click.argument("beside", metavar="SET", type=ResultPath())
@configuration
@request_options(
    "run", "runs", "output", "seed", "timeout_s", "python", "strict_env", "prepare", "cleanup", "power_command",
    "log_to",
    help={
        "runs": "Pairs of runs; 5 make a verdict.  [default: the benchmark's number]",
        "output": "Folder in which the pair's folder is made.",
        "python": "Interpreter whose dlrmbench measures SET again, such as OTHER/bin/python.  [default: this one]",
    },
)  # fmt: skip
@form_option("table", "json", text="What stdout says at the end: a comparison, or the same as JSON and nothing else.")
@QUIET
def versus(form: str, **given: Any) -> None:
    """Measure SET again beside a change of it, alternately and with equal seeds, and compare the two.

    SET is a run set or a measurement: its folder, its name, or 'latest'. The options given here are the change;
    --python OTHER measures SET in another environment, with the code there. What SET measured, both sides measure.
    Two sets that are measured one after the other differ by whatever the system did meanwhile; a pair does not.
    A command that ran around SET's runs is given again, or declined, as by --prepare ''.
    'compare PAIR/base PAIR/new --fail-on regression' makes its verdict an exit code. 'run --beside SET' is the same.
    """
    start_and_show(read_request("run", None, given), form=form)


@verb("dlrmbench resume latest", "dlrmbench resume latest --runs 10")
@click.argument("folder", type=ResultPath())
@click.option("--model", "models", multiple=True, help="A model of the set that another package provides.")
@click.option(
    "--implementation",
    "implementations",
    multiple=True,
    help="An implementation of the set, likewise or FILE.py:OBJECT.",
)
@click.option("-n", "--runs", "num_runs", type=RUNS, help="Runs that it then holds in all, no fewer.")
@request_options("run", "python", "prepare", "cleanup", "power_command", "log_to")
@form_option("table", "json", text="What stdout says at the end, as of 'run' and 'sweep'.")
@QUIET
def resume(
    folder: Path,
    models: tuple[str, ...],
    implementations: tuple[str, ...],
    num_runs: int | None,
    python: Path | None,
    prepare: str | None,
    cleanup: str | None,
    power_command: str | None,
    log_to: Path | None,
    form: str,
    quiet: bool,
) -> None:
    """Complete the run set, the sweep or the pair in FOLDER with its stored configuration; finished runs are kept.

    With --runs it grows: to so many runs of each configuration in all, each with the next seed of its base seed. The
    score of a benchmark of your own stays that of its first runs; comparisons and intervals use all. A set of 'run
    --until' then ends there. The environment is checked again: it warns, or refuses a set of --strict-env.
    """
    from harness.experiment.context import Context
    from harness.experiment.loop import look_again
    from harness.run_sets.environment import warn
    from harness.run_sets.hooks import Hooks
    from reports.text.formatting import printable

    hooks = Hooks(prepare=prepare, cleanup=cleanup, power_command=power_command)
    context = Context(python=python, models=models, implementations=implementations, hooks=hooks, log_to=log_to)
    with usage_errors():
        checks, other = look_again(folder, context)
    if other is not None:
        note(f"warning: {printable(other)} What is resumed will hold runs of both.")
    warn(checks)
    complete_and_show(folder, context, num_runs=num_runs, form=form, quiet=quiet)
