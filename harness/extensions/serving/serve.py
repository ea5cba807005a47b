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
    help="Time that all runs of LoadGen in one process should take together, such as 2min; longer runs are nearer to "
    "the steady state.  [default: 20s]",
)
@click.option(
    "--colocate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Answer queries in N processes at the same time and, for comparison, in one process alone.",
)
@answering
@click.option(
    "--mode",
    type=click.Choice(["performance", "accuracy"]),
    default="performance",
    help="accuracy: answer every sample of the evaluation split once, and compare the AUC from LoadGen's accuracy "
    "log with the AUC of the same weights in fp32.",
)
@request_options(
    "run",
    "runs",
    "output",
    "seed",
    "strict_env",
    help={
        "runs": "Number of fresh processes that measure, one after the other.  [default: 5]",
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
    """Find how many queries per second BENCHMARK's model answers if most of them must meet a latency limit.

    A query is a number of items to be ranked for one user. The model is built and timed in a fresh process. A
    simulation of the queue finds the rate near which the latency limit is met; MLPerf LoadGen then issues real
    queries at a few rates around that rate, with LoadGen's own seeds. The result is the highest rate of queries that
    LoadGen issued and judged VALID in most of the runs at that rate. Two simulated numbers go with the measured rate:
    how much the rate would change with other random arrivals of queries, and the rate in steady state. The rate in
    steady state is higher than the measured rate: in a short run, LoadGen's early-stopping rule allows a smaller
    share of late queries than --percentile does, so that only lower rates are VALID. LoadGen's files are kept.

    Queries are drawn from LoadGen's sample library: the evaluation split, cut to 1 GiB but to no fewer than 64
    queries. Measurements whose sample libraries have different numbers of queries are not compared.

    --mlperf applies MLPerf Inference's requirements for recommenders, and refuses weaker settings. With --mlperf,
    runs take 600 s and use the seeds of --round. For dlrm-v2, the scenario server needs a p99 latency within 60 ms,
    and the sample library has 204,800 queries; for dlrm-v3, the limit of the p99 latency is 80 ms, and the sample
    library has 349,823 queries. The number of samples and the least time that runs with --mlperf need are printed
    before the first run. Results with --mlperf belong to a benchmark of dlrmbench, and are not MLPerf results.

    In a file user.conf, target_qps is the first rate of the search. The key target_latency of user.conf is the
    latency limit in the scenario server, and the expected latency in single_stream; the key target_latency_percentile
    means the same as --percentile. The keys min_duration, min_query_count and performance_sample_count_override of
    user.conf hold for every run. A line of user.conf for this model and scenario (each by name or by *) is refused if
    dlrmbench does not read its key.

    With --mode accuracy every sample of the evaluation split is answered once, and LoadGen's accuracy log is kept.
    The AUC from LoadGen's accuracy log is compared with 99 % and 99.9 % of the AUC of the same weights in fp32, not
    with MLPerf's 80.31, which belongs to other weights and data. An AUC that misses one of MLPerf Inference's two
    accuracy targets, 99 % and 99.9 % of the AUC in fp32, is reported as a finding, not as an error.

    By default the latency limit and the queries are those of the definition's section [serve], where there is one;
    --set serve.KEY=VALUE sets any key of that section. With fewer than 5 processes (-n) the measured rate has no
    confidence interval, and 'compare' makes no verdict. The command needs MLPerf LoadGen, an optional dependency: run
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
