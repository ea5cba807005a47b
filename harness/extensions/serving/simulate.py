"""Define the command `simulate`: simulate the queue of a served model from service times that are measured now."""

import shlex
import sys
from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import QUIET, benchmarks, completing, configuration
from harness.cli.shared.output import VERBOSE, form_option
from harness.cli.shared.requests import read_request, request_options
from harness.extensions.serving.options import (
    HEADINGS,
    REQUEST_FLAGS,
    SEED_HELP,
    answering,
    asking,
    keep_served_study,
    serving_overrides,
)
from reports.render.forms import FORMS


@verb(
    "dlrmbench simulate dlrm_tiny --target-latency 25ms",
    "dlrmbench simulate rm1_deeprecsys --batch auto",
    headings=HEADINGS,
)
@click.argument("benchmark", default="dlrm_small", shell_complete=completing(benchmarks))
@configuration
@asking
@answering
@request_options(
    "run",
    "output",
    "seed",
    "strict_env",
    help={"output": "Folder in which a new folder with the results is made.", "seed": SEED_HELP},
)
@form_option("table", "json", *FORMS)
@VERBOSE
@QUIET
def simulate(benchmark: str, form: str, **given: Any) -> None:
    """Simulate how long queries of BENCHMARK's model wait at each rate of queries; the output is not a benchmark
    result.

    In a fresh process the model is built, and forward passes of several sizes are timed. From the measured times of
    the forward passes, a queue of queries is simulated, at query rates up to the model's capacity. The simulation
    runs neither the model nor LoadGen. No package besides dlrmbench's own requirements is needed. The latency limit
    and the queries are given by the same options as for 'serve'.
    """
    from harness.extensions.serving.queue_job import KIND
    from rules.records.experiment import without_options

    request = read_request(
        "serve", benchmark, given, kinds={"serve": None}, flags=REQUEST_FLAGS, overrides=serving_overrides(given)
    )
    words = without_options(sys.argv[1:], ("--format",), ("-q", "--quiet", "-v", "--verbose"))
    served = ["dlrmbench", "serve", *words[words.index("simulate") + 1 :]] if "simulate" in words else []
    following = f"Next, to let LoadGen judge the rate with real queries: {shlex.join(served)}" if served else ""
    keep_served_study(KIND, request, form, following=following)
