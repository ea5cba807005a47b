"""Define the commands `run`, `versus` and `resume`: train to the target, judge, score, report."""

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
@form_option("table", "json", text="Final output on stdout: a summary, or JSON and nothing else.")
@QUIET
def run(benchmark: str, form: str, **given: Any) -> None:
    """Train BENCHMARK to its quality target, as many times as its definition asks; then check, score and report.

    BENCHMARK is a name from 'dlrmbench list' or the path of a TOML definition; dlrm_small by default.

    --keep-weights writes the final weights of a run after the log's run_stop, outside the timed part; 'package
    --weights' adds the kept weights to a submission.

    --beside SET does the same as 'versus SET': -n pairs of runs alternate (A/B) between SET's configuration and a new
    configuration. With --beside, the new configuration is SET's with the options of this command line added; where
    BENCHMARK is given, too, the new configuration comes from this command line alone.
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
        "runs": "Number of pairs of runs; a verdict needs at least 5.  [default: the benchmark's number of runs]",
        "output": "Folder in which the folder of the two run sets is made.",
        "python": "Python interpreter that measures SET again, with the dlrmbench installed for that interpreter, "
        "such as OTHER/bin/python.  [default: this interpreter]",
    },
)  # fmt: skip
@form_option("table", "json", text="Final output on stdout: a comparison, or JSON and nothing else.")
@QUIET
def versus(form: str, **given: Any) -> None:
    """Measure SET's configuration and a change of it, alternately (A/B) and with equal seeds, and compare the two.

    SET is a run set or a measurement: its folder, its name, or 'latest'. The new configuration is SET's, changed by
    the options of this command line. --python measures SET's own configuration with the dlrmbench of another Python
    environment, to compare two versions of the code. Both configurations are measured by the same quantity as SET,
    such as time to train or throughput. Two sets that are measured one after the other also differ by changes of the
    system in between; sets measured alternately do not.

    If SET was measured with --prepare, --cleanup or --power-command, give these options again; an empty command, such
    as --prepare '', runs nothing.

    'compare FOLDER/base FOLDER/new --fail-on regression' turns the verdict on the two sets in FOLDER into an exit
    code.

    'run --beside SET' does the same as 'versus SET'.
    """
    start_and_show(read_request("run", None, given), form=form)


@verb("dlrmbench resume latest", "dlrmbench resume latest --runs 10")
@click.argument("folder", type=ResultPath())
@click.option(
    "--model",
    "models",
    multiple=True,
    help="Model with which the run set was begun; needed only if another package provides this model.",
)
@click.option(
    "--implementation",
    "implementations",
    multiple=True,
    help="Implementation with which the run set was begun; needed only if it is FILE.py:OBJECT or another package "
    "provides it.",
)
@click.option("-n", "--runs", "num_runs", type=RUNS, help="Total number of runs that each configuration is to have.")
@request_options("run", "python", "prepare", "cleanup", "power_command", "log_to")
@form_option("table", "json", text="Form of the final output on stdout, as for 'run' and 'sweep'.")
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
    """Complete the run set, sweep or pair of sets in FOLDER with its stored configuration; finished runs are kept.

    With --runs N, each configuration gets N runs in all; added runs have the next seeds that follow from the base
    seed. The score on a benchmark of your own uses only the first runs, as many as its definition asks; comparisons
    and intervals use all runs. A set made by 'run --until' and resumed with --runs N ends when it has N runs. A
    resumed set's environment is checked again; warnings are printed, and a set that was begun with --strict-env is
    not continued if there are warnings.
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
        note(f"warning: {printable(other)} The resumed set will hold runs of both.")
    warn(checks)
    complete_and_show(folder, context, num_runs=num_runs, form=form, quiet=quiet)
