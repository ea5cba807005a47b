"""Define the command `calibrate`: measure where a benchmark's target quality should lie, and make its reference
convergence points."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.cli.shared.help import verb
from harness.cli.shared.options import DATA, MAX_RUNS, MODEL, FiniteRange, completing, trainable
from harness.cli.shared.output import note, show
from harness.foundation.errors import ExitCode, HarnessError

if TYPE_CHECKING:
    from harness.config.catalog import Entry
    from harness.extensions.calibration.calibrate import CalibrationPlan
    from harness.extensions.calibration.runs import CalibrationResult

_OF_GRID = ("num_runs", "num_confirming_runs", "batch_sizes", "learning_rates", "num_tuning_runs")


@verb("dlrmbench calibrate ./mine.toml --quick", "dlrmbench calibrate ./mine.toml --plan")
@click.argument("benchmark", shell_complete=completing(trainable))
@DATA
@MODEL
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder of the calibration's results.  [default: results/<benchmark>-calibration]",
)
@click.option(
    "-n",
    "--runs",
    "num_runs",
    default=20,
    show_default=True,
    type=click.IntRange(min=2, max=MAX_RUNS),
    help="Number of runs, each with its own seed, per batch size.",
)
@click.option(
    "--confirm-runs",
    "num_confirming_runs",
    default=60,
    show_default=True,
    type=click.IntRange(min=2),
    help="Number of runs, each with its own seed, at the definition's own batch size.",
)
@click.option(
    "--seed",
    "base_seed",
    type=click.IntRange(min=0),
    help="Base seed of all runs except those that tune learning rates.  [default: 20000]",
)
@click.option(
    "--batch-size",
    "batch_sizes",
    multiple=True,
    type=click.IntRange(min=1),
    help="Batch size to calibrate besides the definition's own; repeatable.",
)
@click.option(
    "--learning-rate",
    "learning_rates",
    multiple=True,
    type=FiniteRange(min=0, min_open=True),
    help="Learning rate to try; repeatable. Each batch size gets the best of the learning rates tried, except the "
    "definition's own batch size, which keeps the definition's learning rate.",
)
@click.option(
    "--tuning-runs",
    "num_tuning_runs",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of runs with each learning rate that is tried.",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "bf16"]),
    help="Precision of matrix products; where it differs from the definition's, the names of the files written say "
    "so (NAME.bf16).",
)
@click.option(
    "--workers",
    "num_workers",
    type=click.IntRange(min=1),
    help="Number of runs at a time, one thread each.  [default: the number of cores]",
)
@click.option(
    "--quick",
    "is_quick",
    is_flag=True,
    help="Make only 3 runs, at the definition's own batch size, for a first look. The results are marked as "
    "uncalibrated and are not a reference.",
)
@click.option(
    "--plan",
    "is_planned",
    is_flag=True,
    help="Only list the runs, and estimate their time from a few steps; no result is kept.",
)
def calibrate(
    benchmark: str, data_root: Path | None, model: str | None, output: Path | None, is_planned: bool, **asked: Any
) -> None:
    """Measure which target quality BENCHMARK should have.

    The command trains BENCHMARK's model for full epochs, by the reference implementation, at several batch sizes. The
    command also trains simpler models; the quality of simpler models must stay below the target. The definition's own
    batch size keeps the definition's learning rate; each other batch size gets the best of several learning rates.
    The command writes calibration.md, BENCHMARK.calibration.json and BENCHMARK.rcps.json. Finished runs stay in
    runs.jsonl, so that the same command completes an interrupted calibration, and a changed target quality needs no
    new runs. To confirm a target quality with new runs, give another --seed. By default the batch sizes are 0.5, 1
    and 2 times the definition's, and the learning rates are 0.5, 0.7, 1, 1.4 and 2 times the definition's.
    """
    from harness.config.catalog import load_entry
    from harness.extensions.calibration.calibrate import plan_calibration, refuse_to_replace
    from harness.extensions.calibration.runs import in_precision
    from harness.run_sets.folder import LOCK_FILE, hold_alone
    from harness.run_sets.output import refuse_output

    _refuse_grid(click.get_current_context())
    entry = in_precision(load_entry(benchmark, model), asked.pop("precision"))
    plan = plan_calibration(entry, **asked)
    is_named = output is not None
    output = output or Path("results") / f"{entry.benchmark.name}-calibration"
    for place in () if is_named else (output.parent, output):
        if place.is_symlink():
            raise HarnessError(
                f"{place} is a link, which nobody named. Remove it, or give the folder of the results with --output.",
                ExitCode.INPUT,
            )
    refuse_output(output)
    refuse_to_replace(output, entry, plan)
    if is_planned:
        from harness.extensions.calibration.outlook import look_ahead, outlook_blocks
        from harness.run_sets.environment import Environment

        Environment.check(data_root, output)  # steps are timed, though nothing is kept
        show(outlook_blocks(entry, plan, look_ahead(entry, plan, data_root)))
        return
    output.mkdir(parents=True, exist_ok=True)
    with hold_alone(output / LOCK_FILE, f"{output}: another process is writing this calibration."):
        _complete(entry, plan, output, data_root)


def _complete(entry: "Entry", plan: "CalibrationPlan", output: Path, data_root: Path | None) -> None:
    """Train the runs of a calibration that folder `output` lacks, write the calibration's files, and show the
    result."""
    from harness.extensions.calibration.calibrate import calibrate as run_calibration
    from harness.extensions.calibration.calibrate import count_runs, write_calibration
    from harness.extensions.calibration.runs import RunStore, problem_digest
    from harness.extensions.calibration.table import calibration_blocks
    from harness.run_sets.dataset import ensure_dataset
    from harness.run_sets.environment import Environment
    from harness.run_sets.progress import generation_progress
    from reports.text.formatting import rough_duration

    store = RunStore(output, problem_digest(entry))
    with generation_progress(entry.workload.data) as on_progress:
        folder = ensure_dataset(entry.workload.data, data_root, num_threads=plan.num_workers, on_progress=on_progress)
    environment = Environment.check(folder, output)
    note(f"at most {count_runs(entry, plan)} epochs to train, {plan.num_workers} at a time")
    started_s, num_done = time.monotonic(), 0

    def show_result(part: str, result: "CalibrationResult", left: int) -> None:
        nonlocal num_done
        num_done += 1
        left_s = (time.monotonic() - started_s) / num_done * left
        about = f", about {rough_duration(left_s)}" if left else ""
        run = result.run
        note(
            f"{part}: {run.model}, batch size {run.global_batch_size}, learning rate "
            f"{run.opt_base_learning_rate:g}, seed {run.seed}: {entry.benchmark.metric.label} "
            f"{result.final_quality:.4f} after {result.train_s + result.eval_s:.1f} s; at most {left} left{about}"
        )

    try:
        with environment.measuring() as watch:

            def on_result(part: str, result: "CalibrationResult", left: int) -> None:
                watch.look()
                show_result(part, result, left)

            calibration = run_calibration(entry, folder, plan, store, on_result=on_result)
    except BaseException:
        command = shlex.join(["dlrmbench", *sys.argv[1:]])
        note(f"Finished epochs are kept in {store.path}. Go on with the same command: {command}")
        raise
    calibration = environment.put_on(calibration)
    write_calibration(output, entry, calibration)
    show(calibration_blocks(calibration))
    note(f"written to {output}{'' if calibration.is_calibrated else ', uncalibrated'}")


def _refuse_grid(context: click.Context) -> None:
    """Raise UsageError for --quick together with an option that --quick sets itself."""
    if not context.params["is_quick"]:
        return
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in _OF_GRID and is_given:
            raise click.UsageError(f"--quick decides {option.opts[-1]} itself; leave it out.")
