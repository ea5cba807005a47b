"""Define the command `serve`: measure the queries per second within a latency limit, judged by MLPerf LoadGen."""

from typing import Any

import click

from harness.cli.shared.experiments import start_and_show
from harness.cli.shared.help import verb
from harness.cli.shared.options import QUIET, benchmarks, completing, configuration, seconds
from harness.cli.shared.output import form_option
from harness.cli.shared.requests import read_request, request_options
from harness.extensions.serving.options import (
    FLAGS,
    HEADINGS,
    REQUEST_FLAGS,
    SEED_HELP,
    answering,
    asking,
    keep_served_study,
    serving_overrides,
)
from reports.render.forms import FORMS
from rules.temporary_folder import temporary_folder


@verb(
    "dlrmbench serve dlrm_tiny --target-latency 25ms",
    "dlrmbench serve dlrm_tiny --target-latency 25ms --weights latest -n 5",
    headings=HEADINGS,
)
@click.argument("benchmark", default="dlrm_small", shell_complete=completing(benchmarks))
@configuration
@asking
@click.option(
    "--duration",
    "duration_s",
    type=seconds,
    metavar="TIME",
    help="Time that LoadGen's runs of a process should take together, such as 2min; longer runs are nearer to the "
    "steady state.  [default: 20s]",
)
@click.option(
    "--colocate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Serve in N processes at the same time, and in one process alone.",
)
@answering
@click.option(
    "--mode",
    type=click.Choice(["performance", "accuracy"]),
    default="performance",
    help="accuracy: answer every sample of the evaluation split once, and compare the AUC of LoadGen's accuracy log "
    "with fp32's.",
)
@request_options(
    "run",
    "runs",
    "output",
    "seed",
    "strict_env",
    help={
        "runs": "Fresh processes that measure one after the other.  [default: 5]",
        "output": "Folder in which the measurement's own folder is made.",
        "seed": SEED_HELP,
    },
    flags=FLAGS,
)
@form_option(
    "table",
    "json",
    *FORMS,
    text="Output at the end: a summary, or the same as JSON and nothing else; other forms are for --mode accuracy.",
)
@QUIET
def serve(benchmark: str, mode: str, form: str, **given: Any) -> None:
    """Find how many queries per second BENCHMARK's model answers with most of them within a latency limit.

    A query is a number of items to be ranked for one user. In a fresh process the model is built and timed. A
    simulation of the queue finds the rate near which the limit is met; MLPerf LoadGen then issues queries at a few
    real rates around it, with its own seeds. The answer is the highest rate that LoadGen issued and judged VALID in
    most of the runs at that rate. Two simulated numbers go with the answer: how far other arrivals would move it, and
    the rate in steady state, which is higher, since LoadGen's rule allows less in short runs. LoadGen's files are
    kept.

    Queries are drawn from a sample library: the evaluation split, within 1 GiB, at least 64 queries. Sets whose
    libraries differ in size are not compared.

    --mlperf applies MLPerf Inference's requirements for recommenders, and refuses weaker settings: runs of 600 s and
    the seeds of --round; for dlrm-v2, p99 within 60 ms in the scenario server and 204,800 queries in the library;
    for dlrm-v3, 80 ms and 349,823 queries. The samples and the least time that this needs are printed before anything
    starts. In a user.conf, target_qps is the first rate of the search, target_latency the limit; min_duration,
    min_query_count and performance_sample_count_override hold for every run; any other key of the model (or *) and
    the scenario is refused. The results belong to a benchmark of ours, and are no MLPerf results.

    --mode accuracy makes a study: every sample of the evaluation split is answered once, LoadGen's accuracy log is
    kept, and its AUC compared with 99 % and 99.9 % of the AUC of the same weights in fp32, not with MLPerf's 80.31,
    which belongs to other weights and data. An AUC below these is a finding, and no error.

    The limit and the queries are those of the definition's [serve], where it has one; --set serve.KEY=VALUE sets any
    key. With fewer than 5 processes (-n) there is no interval, and 'compare' makes no verdict. Needs the extra serve:
    pip install '.[serve]' in a checkout.
    """
    request = read_request(
        "serve", benchmark, given, kinds={"serve": None}, flags=REQUEST_FLAGS, overrides=serving_overrides(given)
    )
    if mode != "accuracy":
        if form in FORMS:
            raise click.UsageError(f"--format {form} is for studies. Give --mode accuracy, or another --format.")
        start_and_show(request, form=form)
        return
    if request.runs is not None or given["colocate"] is not None:
        raise click.UsageError("--mode accuracy takes one process. Leave -n and --colocate out.")
    from harness.extensions.serving.accuracy import KIND

    with temporary_folder("logs") as folder:
        keep_served_study(KIND, request, form, folder, logs=str(folder))
