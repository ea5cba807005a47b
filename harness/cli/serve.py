"""`serve`: queries per second within a latency limit, judged by MLPerf LoadGen."""

import re
import sys
from pathlib import Path
from typing import Any, TypedDict, Unpack

import click

from harness.cli.shared.measuring import measure_and_show
from harness.cli.shared.options import (
    QUIET,
    STRICT_ENV,
    Configured,
    benchmarks,
    collect_overrides,
    completing,
    configuration,
    output_option,
    warn_of_system,
)
from harness.cli.shared.output import form_option
from harness.cli.shared.serving import weights_override

_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(us|ms|s)")
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


class Milliseconds(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A duration as people write it: 25ms, 0.1s. A number alone is refused."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a duration with a unit above 0. Write it like 25ms or 0.1s.", param, ctx)
        milliseconds = float(match[1]) * _MILLISECONDS[match[2]]
        if milliseconds <= 0:
            self.fail(f"{value!r} must be more than nothing.", param, ctx)
        return milliseconds


class ServeOptions(Configured):
    """What the options of `serve` that it shares hand to it."""


class Asked(TypedDict):
    """What the options hand to `serve` that are keys of [serve]."""

    target_latency_ms: float | None
    percentile: float | None
    queries: str | None
    scenario: str | None
    batch: int | None
    colocate: int | None
    train_samples: int | None


_ASKED = {
    "target_latency_ms": "--target-latency", "percentile": "--percentile", "queries": "--queries",
    "scenario": "--scenario", "batch": "--batch", "colocate": "--colocate", "train_samples": "--train",
}  # fmt: skip
"""Keys of [serve] that have an option."""


class AllOptions(ServeOptions, Asked):
    """All that is handed to `serve` under its own names."""

    weights: str | None


@click.command()
@click.argument("benchmark", default="dlrm_small", shell_complete=completing(benchmarks))
@configuration
@click.option("--target-latency", "target_latency_ms", type=Milliseconds(), help="The limit, such as 25ms.")
@click.option(
    "--percentile", type=click.FloatRange(50, 99.9), help="Of the queries that stay within the limit, in percent."
)
@click.option(
    "--queries", metavar="SIZES", help="Items of a query: deeprecsys (mean 165), mlperf (mean 270), or fixed:N."
)
@click.option(
    "--scenario",
    type=click.Choice(["server", "offline", "single_stream"]),
    help="Queries arrive at random, are all there at once, or come one after the other.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), metavar="ITEMS",
    help="Items of a call at most: queries are merged up to it, larger ones split.  [default: a call for each query]",
)  # fmt: skip
@click.option(
    "--colocate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Serve in N processes at once, and in one alone.",
)
@click.option("--weights", metavar="SET[:RUN]", help="Weights that 'run --keep-weights' kept.  [default: random]")
@click.option(
    "--train", "train_samples", type=click.IntRange(min=1), metavar="SAMPLES", help="Train so many samples first."
)
@click.option(
    "-n", "--processes", "num_runs", type=click.IntRange(min=1),
    help="Fresh processes that measure one after the other.  [default: 5]",
)  # fmt: skip
@click.option(
    "--simulate", "is_simulated", is_flag=True,
    help="Say what the virtual clock says of service times measured now, without LoadGen: a study, no result.",
)  # fmt: skip
@output_option("Folder in which the measurement's own folder is made.")
@click.option("--seed", type=click.IntRange(min=0), help="Base seed of arrivals and weights.  [default: drawn]")
@STRICT_ENV
@form_option("table", "json", text="What stdout says at the end: a summary, or the same as JSON and nothing else.")
@QUIET
def serve(
    benchmark: str,
    num_runs: int | None,
    is_simulated: bool,
    output: Path,
    seed: int | None,
    strict_env: bool,
    form: str,
    quiet: bool,
    **given: Unpack[AllOptions],
) -> None:
    """Find how many queries a second BENCHMARK's model answers with most of them within a latency limit.

    A query is a number of items to be ranked for one user. In a fresh process the model is built and timed; a virtual
    clock, on which queries queue without a model, says near which rate the limit is met; MLPerf LoadGen then issues
    queries at a few real rates around it, and the highest that it judges VALID is the answer. Its own files are kept.

    The limit and the queries are those of the definition's [serve], where it has one; --set serve.KEY=VALUE gives any
    key. With fewer than 5 processes (-n) there is no interval, and 'compare' makes no verdict. Needs the extra
    dlrmbench[serve].
    """
    from harness.cli.shared.studies import keep_study
    from harness.config.run_config import Override
    from harness.config.seeds import draw_base_seed
    from harness.measure.serving.job import KIND
    from harness.measure.serving.loadgen import require_loadgen
    from harness.planning.queue import simulate_service
    from harness.run_sets.folder import open_run_set
    from harness.run_sets.names import link_latest
    from harness.run_sets.prepare import (
        num_runs_of,
        prepare,
        refuse_disturbed_environment,
        refuse_impossible,
        refuse_output,
        resolve_for,
    )
    from harness.run_sets.runner import RunRequest, start_set
    from reference_models.serving.servable import explain_emulation

    if is_simulated and (num_runs is not None or given["colocate"] is not None):
        raise click.UsageError("--simulate is of one process, timed here; leave -n and --colocate out.")
    if not is_simulated:
        require_loadgen()
    overrides = collect_overrides(given)
    overrides += [
        Override(key=f"serve.{key}", value=value, source=f"option {option}")
        for key, option in _ASKED.items()
        if (value := given[key]) is not None  # type: ignore[literal-required]
    ]
    overrides += weights_override(given["weights"])
    config = resolve_for(KIND, benchmark, overrides, given["name"])
    runs = num_runs_of(KIND, config, num_runs)
    refuse_impossible(config.workload, is_served=True)
    refuse_output(output)
    if strict_env:
        refuse_disturbed_environment(given["data_root"], output)
    prepared = prepare(config, given["data_root"], quiet=quiet)
    if is_simulated:
        base_seed = draw_base_seed() if seed is None else seed
        study = simulate_service(config, prepared.data_dir, base_seed)
        keep_study(study, output, f"queue-{config.label or config.benchmark.name}", form)
        return
    request = RunRequest(
        num_runs=runs,
        base_seed=seed,
        division=given["division"],
        timeout_s=None,
        kind=KIND.name,
        output=output,
        command=["dlrmbench", *sys.argv[1:]],
        quiet=quiet,
    )
    run_set = start_set(config, prepared, request)
    if not quiet:
        warn_of_system(open_run_set(run_set.folder)[1].preflight)
        if emulated := explain_emulation(config.workload.runtime):
            click.echo(f"warning: {emulated}", err=True)
    link_latest(run_set.folder)
    measure_and_show(run_set.folder, form=form, quiet=quiet)
