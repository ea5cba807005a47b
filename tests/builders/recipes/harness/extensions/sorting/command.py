"""`sorting-limit`: how many comparisons sorting takes at least; `ends`: a sweep of first and last values alone."""

from typing import Any

import click

from harness.cli.shared.experiments import start_and_show
from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, QUIET, configuration
from harness.cli.shared.output import form_option
from harness.cli.shared.requests import KINDS, read_request, request_options


@verb("dlrmbench sorting-limit 1000", "dlrmbench sorting-limit 65536")
@click.argument("number", type=click.IntRange(min=1, max=10**6))
def limit(number: int) -> None:
    """Say how many comparisons sort NUMBER values at least, whatever the method."""
    from math import lgamma, log

    click.echo(f"{lgamma(number + 1) / log(2):.0f} comparisons, computed")


@verb(
    "dlrmbench ends dlrm_tiny --axis runtime.threads=1,2,4",
    "dlrmbench ends dlrm_tiny --axis train.global_batch_size=512,1024,2048 -n 5",
)
@BENCHMARK
@configuration
@request_options("sweep", "axes", "runs", "output", "seed", KINDS)
@form_option("table", "json", text="Form of the final table.")
@QUIET
def ends(benchmark: str, form: str, **given: Any) -> None:
    """Run BENCHMARK, as `sweep` does, with the first and the last value of each axis alone."""
    start_and_show(read_request("ends", benchmark, given, like="sweep", relation="ends"), form=form)
