"""Define the command `plan-system`: model the time and cost of training on systems by their rates."""

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
    help="System on which the training step is modelled: a file of rates, from 'measure-system' or your own, or "
    "`this` machine, measured now; repeatable.",
)
@click.option(
    "--with",
    "references",
    multiple=True,
    metavar="NAME|FILE",
    shell_complete=completing_or_files(system_names),
    callback=close_systems_after,
    help="Reference system on which the training step is modelled: a name in 'list --systems', or a bundle (.zip "
    "archive of 'measure-system --bundle'); repeatable.",
)
@click.option(
    "--price-per-hour",
    "prices",
    multiple=True,
    metavar="[NAME=]PRICE",
    help="Price of the system NAME per hour, from which its cost to train follows. Prices without "
    "NAME= are taken in order: one for each --system, then one for each --with.",
)
@click.option(
    "--rank",
    "folder",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    callback=close_systems_after,
    help="Also model all known reference systems, and those in DIR, and order all systems by the cost or time to "
    "train.",
)
@click.option(
    "--measure/--no-measure",
    default=True,
    help="With --system this: also time a few training steps on this machine, to compare with the modelled step "
    "time.",
)
@form_option("table", "json")
@VERBOSE
def plan_system(
    benchmark: str,
    systems: tuple[str, ...],
    references: tuple[str, ...],
    prices: tuple[str, ...],
    folder: str | None,
    form: str,
    measure: bool,
    **given: Any,
) -> None:
    """Model the time of BENCHMARK's training step on each system, by phase, and of a run to the target.

    Times are modelled from the rates in a system's file, which gives a source for each rate; the number of steps of a
    run follows from reference convergence points. On the system `this`, on which the command runs, a few steps are
    also timed. With --rank, systems are ordered by the cost or time to train. The error of the modelled step time is
    given for systems whose bundle (archive of results) has a measurement of the same configuration.
    """
    from harness.cli.shared.studies import show_answer
    from harness.config.run_config import resolve
    from harness.extensions.system_model.model import THIS, system_study
    from harness.extensions.system_model.ranking import read_known_steps
    from harness.extensions.system_model.rates import measure_here
    from harness.extensions.system_model.references import find_ranked, read_prices, read_rates
    from harness.planning.hardware.system import read_system
    from harness.run_sets.environment import Environment

    ranked = () if folder is None else find_ranked(references, Path(folder) if folder else None)
    references = (*references, *ranked)
    if not systems and not references:
        if folder is not None:
            raise click.UsageError("--rank: no reference system is known here. Give the folder of some bundles.")
        raise click.UsageError("Missing option '--system FILE.toml|this', '--with NAME|FILE' or '--rank'.")
    if len(set(systems)) < len(systems) or len(set(references)) < len(references):
        raise click.UsageError("--system or --with names the same one twice.")
    config = resolve(benchmark, collect_overrides(given), given["name"])
    config.workload.implementation.require_installed()
    files = {name: None if name == THIS else read_system(Path(name)) for name in systems}
    known = read_rates(references)
    cost_per_hour = read_prices(prices, [*files, *known])  # before anything is measured
    environment = Environment.check(given["data_root"]) if THIS in systems else None
    measured = {} if environment is None else {THIS: measure_here(say, environment)}
    found = {name: file or measured[name] for name, file in files.items()} | known
    study = system_study(
        config,
        found,
        cost_per_hour,
        given["data_root"],
        environment,
        measure=measure,
        known_s=read_known_steps(references, config),
        is_ranked=folder is not None,
    )
    show_answer(study, form)
