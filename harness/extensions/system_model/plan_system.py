"""`plan-system`: what training would take on systems by their rates."""

from pathlib import Path
from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import (
    BENCHMARK,
    close_systems_after,
    collect_overrides,
    completing_or_files,
    configuration,
    system_names,
)
from harness.cli.shared.output import VERBOSE, form_option, say
from harness.cli.shared.values import amount


@verb(
    "dlrmbench plan-system dlrm_small --system its.toml --price-per-hour 2.5",
    "dlrmbench plan-system dlrm_small --system this --system its.toml",
    name="plan-system",
)
@BENCHMARK
@configuration
@click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="FILE.toml|this",
    shell_complete=completing_or_files(lambda: ("this",)),
    help="Model the step on a system by its rates, of 'measure-system' or given; this measures here. Repeatable.",
)
@click.option(
    "--with",
    "references",
    multiple=True,
    metavar="NAME|FILE",
    shell_complete=completing_or_files(system_names),
    callback=close_systems_after,
    help="Likewise on a reference system by its rates: a name of 'list --systems', or a bundle. Repeatable.",
)
@click.option(
    "--price-per-hour",
    "prices",
    multiple=True,
    type=amount,
    metavar="PRICE",
    help="Of the system, for the cost to train; one for each --system, then each --with.",
)
@click.option("--measure/--no-measure", default=True, help="Time a few steps beside the model of `this`.")
@form_option("table", "json")
@VERBOSE
def plan_system(
    benchmark: str,
    systems: tuple[str, ...],
    references: tuple[str, ...],
    prices: tuple[float, ...],
    form: str,
    measure: bool,
    **given: Any,
) -> None:
    """Say what a step of BENCHMARK would take on each system by phase, and a run by reference convergence points.

    Modelled, from the rates in a system's file, each of which has its source. Beside `this`, a few steps are timed.
    """
    from harness.cli.shared.studies import show_answer
    from harness.config.run_config import resolve
    from harness.extensions.system_model.model import THIS, system_study
    from harness.extensions.system_model.rates import measure_here
    from harness.extensions.system_model.references import read_rates
    from harness.planning.hardware.system import read_system
    from harness.run_sets.environment import Environment

    if not systems and not references:
        raise click.UsageError("Missing option '--system FILE.toml|this' or '--with NAME|FILE'.")
    if len(set(systems)) < len(systems) or len(set(references)) < len(references):
        raise click.UsageError("--system or --with names the same one twice.")
    num_systems = len(systems) + len(references)
    if prices and len(prices) != num_systems:
        raise click.UsageError(
            f"--price-per-hour is given {len(prices)} times, --system and --with {num_systems} times."
        )
    config = resolve(benchmark, collect_overrides(given), given["name"])
    config.workload.implementation.require_installed()
    environment = Environment.check(given["data_root"]) if THIS in systems else None
    found = {
        name: measure_here(say, environment) if name == THIS and environment else read_system(Path(name))
        for name in systems
    }
    found |= read_rates(references)
    show_answer(system_study(config, found, prices, given["data_root"], environment, measure=measure), form)
