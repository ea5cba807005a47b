"""Define the command `codesign`: search an accelerator, and a benchmark's tilings on it, by an analytical model;
nothing is executed on hardware."""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, collect_overrides, completing_or_files, defining, output_option
from harness.cli.shared.output import VERBOSE, form_option
from harness.cli.shared.values import several
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.extensions.codesign.designs import Objective


def _spaces() -> Iterable[str]:
    from harness.extensions.codesign.accelerator import SPACES

    return SPACES


@verb(
    "dlrmbench codesign dlrm_tiny --mode joint --pareto energy",
    "dlrmbench codesign dlrm_tiny --space pe_array_fine --by gp,random --trials 40",
)
@BENCHMARK
@defining
@click.option(
    "--space",
    metavar="NAME|FILE.toml",
    shell_complete=completing_or_files(_spaces),
    default="pe_array",
    show_default=True,
    help="Design space of the accelerator, with the numbers that model it: pe_array, pe_array_fine, or your own "
    "file in the form of pe_array.",
)
@click.option(
    "--mode",
    "modes",
    type=several(click.Choice(["separate", "joint"])),
    metavar="MODE,…",
    help="Search the hardware first and then tilings for this hardware (separate), or both together (joint).  "
    "[default: separate,joint]",
)
@click.option(
    "--pareto",
    type=several(click.Choice(["latency", "energy"])),
    metavar="OBJECTIVE,…",
    help="Objectives to minimise; the tilings of each design are chosen to minimise the first objective.  [default: "
    "latency,energy]",
)
@click.option(
    "--trials",
    type=click.IntRange(2, 10_000),
    default=20,
    show_default=True,
    help="Number of valid designs that each search tries, where the design space has too many designs to try each "
    "of them.",
)
@click.option(
    "--by",
    "methods",
    type=several(click.Choice(["gp", "nsga2", "random"])),
    metavar="SEARCH,…",
    help="Compare searches of --trials designs each: gp (Gaussian process), nsga2 (NSGA-II), random. The first 10 "
    "designs that gp tries, and the first 20 that nsga2 tries, are random. If a design space has too many designs "
    "to try each of them, the first SEARCH given finds the study's best designs.  [default: no comparison of "
    "searches; in a large design space gp finds the best designs, or nsga2 if --trials is more than 200]",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of seeds with which each search method of --by is repeated; the first seed is --seed.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the searches.")
@output_option("Folder in which a new folder with the results is made.")
@form_option("table", "json", *FORMS)
@VERBOSE
def codesign(
    benchmark: str,
    space: str,
    modes: Any,
    pareto: Any,
    trials: int,
    methods: Any,
    seeds: int,
    seed: int,
    output: Path,
    form: str,
    **given: Any,
) -> None:
    """Search for the best designs of an accelerator, and for the best tilings of BENCHMARK's training step, by a cost
    model; nothing is run.

    The cost model gives latency and energy of the training step's matrix products and lookups on an array of
    processing elements. The numbers of the cost model are in the design-space file (--space); --verbose prints the
    numbers with their sources. The baseline is the hand-made design: the first value of each parameter in the
    design-space file. A design space whose designs can all be tried in about a minute is searched completely, which
    finds the optimum. Where a design space has too many designs to try each of them, --trials designs are tried, the
    hand-made design first. Designs that exceed the limit of area, or whose tiles do not fit the scratchpad, are never
    drawn. The results, in study.json, and their HTML page are kept in a new folder below -o.
    """
    from harness.cli.shared.studies import keep_study
    from harness.config.run_config import resolve
    from harness.extensions.codesign.accelerator import find_space
    from harness.extensions.codesign.study import space_study
    from harness.run_sets.output import refuse_output
    from rules.records.experiment import without_options

    refuse_output(output)
    array, config = find_space(space), resolve(benchmark, collect_overrides(given), given["name"])
    units: dict[str, Objective] = {"latency": "latency_s", "energy": "energy_j"}
    asked: Any = [mode for mode in ("separate", "joint") if not modes or mode in modes]
    small = [units[name] for name in pareto or units]
    words = without_options(["dlrmbench", *sys.argv[1:]], ("--trials", "--format"))
    study = space_study(config, array, asked, small, trials, seed, methods or (), seeds, shlex.join(words))
    keep_study(study, output, f"codesign-{config.benchmark.name}", form, inputs=[Path(space), Path(benchmark)])
