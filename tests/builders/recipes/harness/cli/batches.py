"""`batches`: how many steps an epoch has, by batch size."""

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK
from harness.cli.shared.output import form_option
from harness.cli.shared.studies import show_study


@verb("dlrmbench batches dlrm_tiny --size 512", "dlrmbench batches dlrm_small --size 512 --size 1024")
@BENCHMARK
@click.option(
    "--size", "sizes", multiple=True, type=click.IntRange(min=1), required=True, help="A batch; repeatable."
)
@form_option("table", "json")
def batches(benchmark: str, sizes: tuple[int, ...], form: str) -> None:
    """Say how many steps an epoch of BENCHMARK has at each batch size."""
    from harness.config.run_config import resolve
    from harness.planning.batches import batches_study

    show_study(batches_study(resolve(benchmark, []), sizes), form)
