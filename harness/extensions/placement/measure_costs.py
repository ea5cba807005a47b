"""Define the command `measure-costs`: it measures how long each of a benchmark's embedding tables takes on this
machine. It writes the times to a file, from which placement plans can be made on another machine."""

from pathlib import Path
from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import completing, defining, trainable
from harness.cli.shared.output import say
from harness.extensions.placement.options import BATCH_SIZE


@verb(
    "dlrmbench measure-costs dlrm_small -o costs.json",
    "dlrmbench measure-costs tables.csv --batch-size 4096 --sets 500 -o costs.json",
    name="measure-costs",
)
@click.argument("benchmark", shell_complete=completing(trainable))
@defining
@BATCH_SIZE
@click.option(
    "--sets",
    "num_sets",
    type=click.IntRange(100, 10_000),
    metavar="SETS",
    help="Also time this number of randomly drawn sets of tables, each set as one device would run it; 'place --cost "
    "net' trains its neural net on these times.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of all random draws."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to which the measured times of tables are written, for 'place --costs'.",
)
def measure_costs(benchmark: str, num_sets: int | None, seed: int, output: Path, **given: Any) -> None:
    """Measure the time that each embedding table of BENCHMARK, or of a file, takes alone on one thread of this CPU.

    Lookups, backward pass and update for a global batch are timed for each table, and for the parts that plans may
    make of a table by halving its width, once or repeatedly. Each time is the median of eight rounds; in each round,
    a table and its parts are timed one after the other. The file that -o names also holds how far the eight measured
    times differ, and the machine's load. 'place --costs FILE', on this machine or on another, takes the sum of the
    tables' times in FILE as the time of a device's tables.

    With --sets, random sets of 1 to 15 tables or parts of tables are also timed, each set as one lookup, backward
    pass and update of all its tables. With --sets, each round of measurements covers every table, every part of a
    table and every set. 'place --costs FILE --cost net' tells whether the measured times of sets of tables differ
    from sums of the tables' times by more than the noise. The time of a set of tables is predicted by a neural net,
    instead of by the sum of its tables' times, only where the net is shown to predict better.
    """
    from harness.extensions.placement.kept_costs import measure_costs as measure
    from harness.extensions.placement.plans import UNBOUNDED
    from harness.extensions.placement.reading import read_task
    from harness.foundation.files import write_record
    from harness.run_sets.environment import Environment

    _, task, _ = read_task(benchmark, UNBOUNDED, {**given, "trace": None, "kept": (), "today": None})
    environment = Environment.check(given["data_root"])
    sets = f", and {num_sets} sets of them" if num_sets else ""
    say(f"measuring {len(task.tables)} tables and their halves{sets}")
    write_record(output, measure(task, environment, seed, num_sets or 0))
    click.echo(f"wrote {output}", err=True)
