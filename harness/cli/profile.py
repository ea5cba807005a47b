"""Define the command `profile`: time of each phase of a training step, and its distance from this system's limits."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, QUIET, completing, configuration, trainable
from harness.cli.shared.output import form_option, note, show
from harness.cli.shared.requests import read_request, request_options
from harness.experiment.request import Request
from harness.foundation.errors import HarnessError
from reports.render.forms import FORMS

MAX_BATCH = 1 << 20
"""Largest batch of the forward pass that `profile --forward` takes, in samples."""


def count_list(text: str) -> tuple[int, ...]:
    """Return the numbers in a comma-separated list of whole numbers of at least 1. Raises BadParameter."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and 0 < int(word) <= MAX_BATCH for word in words):
        raise click.BadParameter(f"{text!r}: expected whole numbers of 1 to {MAX_BATCH:,}, such as 1,64,1024.")
    return tuple(map(int, words))


@verb("dlrmbench profile dlrm_small", "dlrmbench profile dlrm_tiny --forward --batch-sizes 1,64,1024")
@BENCHMARK
@configuration
@request_options("profile", "output")
@click.option(
    "--steps",
    "num_steps",
    type=click.IntRange(min=1),
    help="Number of training steps to time.  [default: as many as take about 12 s]",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a trace of the profiled steps for Perfetto or chrome://tracing; gzipped if FILE ends in .gz.",
)
@click.option(
    "--forward",
    is_flag=True,
    help="Profile the forward pass (answering batches) instead of training steps, in the precisions that "
    "runtime.precision and runtime.table_precision set.",
)
@click.option(
    "--batch-sizes",
    type=count_list,
    metavar="N,N…",
    help="Batch sizes that --forward profiles, in samples.  [default: 1,16,64,256,1024]",
)
@click.option(
    "--also",
    multiple=True,
    metavar="BENCHMARK",
    shell_complete=completing(trainable),
    help="Further benchmark for --forward to profile and show on the same page; repeatable.",
)
@form_option("table", "json", *FORMS)
@QUIET
def profile(
    benchmark: str,
    num_steps: int | None,
    trace: Path | None,
    forward: bool,
    batch_sizes: tuple[int, ...] | None,
    also: tuple[str, ...],
    form: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Measure this system's roofline ceilings and the phases of BENCHMARK's training step, and compare the two.

    A profile neither trains to the quality target nor has a score; --set may change any value. With --forward, the
    forward pass (answering batches) is profiled instead of training steps: the page shows the parts of this pass,
    their FLOP per byte and the roofline, for all benchmarks given.
    """
    if forward and (num_steps is not None or trace is not None):
        raise click.UsageError("--steps and --trace are of a training step; leave them out of --forward.")
    if not forward and (batch_sizes is not None or also):
        raise click.UsageError("--batch-sizes and --also are of --forward; give that too.")

    def say(doing: str) -> None:
        if not quiet:
            note(f"profile: {doing}")

    request = read_request("profile", benchmark, {**given, "quiet": quiet}, kinds={"profile": None})
    if forward:
        _profile_forward(request, tuple(dict.fromkeys((benchmark, *also))), batch_sizes, form, say)
        return
    from harness.experiment.attach import attach_profile, open_or_create
    from harness.foundation.files import read_record
    from harness.run_sets.environment import warn
    from harness.run_sets.folder import open_run_set
    from harness.system.preflight import run_checks
    from reports.views.measurement import profile_blocks
    from rules.records.profile import ProfileRecord

    if trace is not None and not trace.absolute().parent.is_dir():
        raise HarnessError(f"--trace {trace}: there is no such folder; make it first.")
    folder = open_or_create(request)
    warn(run_checks(Path(open_run_set(folder)[1].dataset.dir), given["output"]))
    path = attach_profile(folder, num_steps=num_steps, trace=trace, on_progress=say)
    if form == "json":
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    show(profile_blocks(read_record(path, ProfileRecord)), form)
    if form == "table":
        click.echo(f"\nfile   {path}" + (f"\ntrace  {trace}" if trace is not None else ""))


def _profile_forward(
    request: Request, benchmarks: Sequence[str], sizes: Sequence[int] | None, form: str, say: Callable[[str], None]
) -> None:
    """Profile forward passes, print their times, and write study.json and the page to a new folder."""
    from harness.cli.shared.studies import keep_study
    from harness.experiment.study import measure_study
    from harness.measure.profile.forward import BATCH_SIZES, KIND

    configs = [KIND.resolve(name, request.overrides, request.name) for name in benchmarks]
    for config in configs:
        other = [
            key
            for key in ("device", "precision", "table_precision", "threads")
            if getattr(config.workload.runtime, key) != getattr(configs[0].workload.runtime, key)
        ]
        if other:
            raise HarnessError(
                f"{config.benchmark.name} and {configs[0].benchmark.name} differ in runtime.{other[0]}, of which a "
                f"page has one. Give it with --set runtime.{other[0]}=VALUE."
            )
    study = measure_study(KIND, configs, request, lambda event: say(event["doing"]), batch_sizes=sizes or BATCH_SIZES)
    keep_study(study, request.output, "-".join(("forward", *(config.benchmark.name for config in configs))), form)
