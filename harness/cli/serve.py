"""`serve`: queries per second within a latency limit, judged by MLPerf LoadGen."""

import re
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from harness.cli.shared.experiments import start_and_show
from harness.cli.shared.options import QUIET, benchmarks, completing, configuration, duration, seconds
from harness.cli.shared.output import form_option
from harness.cli.shared.requests import read_request, request_options
from reports.render.forms import FORMS
from rules.temporary_folder import temporary_folder


def items_or_auto(text: str) -> int | str:
    """Read a number of items, or auto. Raises BadParameter."""
    if text == "auto":
        return text
    if not re.fullmatch(r"(?a:0*[1-9]\d{0,8})", text):
        raise click.BadParameter(f"{text!r} is no number of items of at least 1, nor auto.")
    return int(text)


_ASKED = {
    "target_latency_ms": "--target-latency", "percentile": "--percentile", "queries": "--queries",
    "scenario": "--scenario", "batch": "--batch", "threads": "--workers",
    "duration_s": "--duration", "colocate": "--colocate", "train_samples": "--train", "mlperf": "--mlperf",
    "user_conf": "--user-conf",
}  # fmt: skip
"""Keys of [serve] that have an option."""


@click.command()
@click.argument("benchmark", default="dlrm_small", shell_complete=completing(benchmarks))
@configuration
@click.option("--target-latency", "target_latency_ms", type=duration, help="The limit, such as 25ms.")
@click.option(
    "--percentile", type=click.FloatRange(50, 99.9), help="Of the queries that stay within the limit, in percent."
)
@click.option(
    "--queries",
    metavar="SIZES",
    help="Items of a query: deeprecsys (mean 165), mlperf (mean 270), lognormal:MEDIAN:SIGMA, fixed:N, or file:PATH "
    "with a line for each: ITEMS, or SECONDS,ITEMS for --simulate.",
)
@click.option(
    "--scenario",
    type=click.Choice(["server", "offline", "single_stream"]),
    help="Queries arrive at random, are all there at once, or come one after the other.",
)
@click.option(
    "--batch", type=items_or_auto, metavar="ITEMS|auto",
    help="Items of a call at most: queries are merged up to it, larger ones split; auto: searched, and the size from "
    "which queries are split over the workers.  [default: a call for each query; offline, auto]",
)  # fmt: skip
@click.option(
    "--workers", "num_workers", type=click.IntRange(min=1), metavar="N",
    help="Threads that take queries; --threads are shared out among them.  [default: both chosen by timing]",
)  # fmt: skip
@click.option(
    "--duration", "duration_s", type=seconds, metavar="TIME",
    help="That LoadGen's runs of a process should take, such as 2min; longer ones are nearer to the long run.  "
    "[default: 20s]",
)  # fmt: skip
@click.option(
    "--colocate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Serve in N processes at once, and in one alone.",
)
@request_options("serve", "weights")
@click.option(
    "--train", "train_samples", type=click.IntRange(min=1), metavar="SAMPLES", help="Train so many samples first."
)
@click.option(
    "--mlperf",
    is_flag=True,
    default=None,
    help="Ask what MLPerf Inference v5.1 asks of dlrm-v2: runs of 600 s, 204,800 queries of 100 to 700 items, "
    "its seeds.",
)
@click.option(
    "--user-conf",
    metavar="FILE",
    help="A user.conf of LoadGen: its lines are keys of [serve], honoured or refused.",
)
@click.option(
    "--mode", type=click.Choice(["performance", "accuracy"]), default="performance",
    help="accuracy: answer every sample of the evaluation split once, and judge the AUC of LoadGen's accuracy log.",
)  # fmt: skip
@request_options("serve", "runs")
@click.option(
    "--simulate", "is_simulated", is_flag=True,
    help="Say what the virtual clock says of service times measured now, without LoadGen: a study, no result.",
)  # fmt: skip
@click.option(
    "--usage", metavar="NAME|FILE.toml",
    help="Serve several models, each with a rate and a deadline, in place of BENCHMARK: feed, vr_gaming, …; a study.",
)  # fmt: skip
@click.option("--axis", metavar="MODEL.KEY=V1,V2", help="Of --usage: a study of several values of one key.")
@click.option(
    "--score", type=click.Choice(["released", "once"]), default="released", show_default=True,
    help="Of --usage: XRBench's score as its released code has it, which counts dropped frames twice; or once.",
)  # fmt: skip
@request_options("serve", "output", "seed", "strict_env")
@form_option(
    "table", "json", *FORMS,
    text="What stdout says at the end: a summary, or the same as JSON and nothing else; the others are of studies.",
)  # fmt: skip
@QUIET
def serve(benchmark: str, is_simulated: bool, mode: str, form: str, usage: str | None, **given: Any) -> None:
    """Find how many queries a second BENCHMARK's model answers with most of them within a latency limit.

    A query is a number of items to be ranked for one user. In a fresh process the model is built and timed; a virtual
    clock, on which queries queue without a model, says near which rate the limit is met; MLPerf LoadGen then issues
    queries at a few real rates around it, with its own seeds. In short runs its rule allows less than the long run
    does: the answer is the highest rate that it judges VALID, over what the clock says is left of the long run, and
    both are shown. Its own files are kept.

    Queries are drawn from a sample library: the evaluation split, within 1 GiB, at least 64 queries. Sets whose
    libraries differ in size are not compared.

    --mlperf asks what MLPerf Inference v5.1 asks of dlrm-v2, and refuses less: p99 within 60 ms of a server, runs of
    600 s, 204,800 queries in the library, the seeds of that round. Of a user.conf, target_qps is where the search
    begins, target_latency the limit; min_duration, min_query_count and performance_sample_count_override hold for
    every run; any other key of dlrm-v2 (or *) and the scenario is refused. What is found is of a benchmark of ours,
    and no MLPerf result.

    --mode accuracy makes a study: every sample of the evaluation split is answered once, LoadGen's accuracy log is
    kept, and its AUC held against 99 % and 99.9 % of that of the same weights in fp32: not of MLPerf's 80.31, which
    is of other weights and data. To be below is a finding, and no error.

    --usage schedules frames of several models, the earliest deadline first, in one process for each worker, or with
    --simulate on the virtual clock with service times measured now. A frame that has not begun at its deadline is
    dropped. The usages of XRBench's scenarios have stand-ins for its models. --set is of MODEL.KEY, or usage.KEY.

    The limit and the queries are those of the definition's [serve], where it has one; --set serve.KEY=VALUE gives any
    key. With fewer than 5 processes (-n) there is no interval, and 'compare' makes no verdict. Needs the extra
    serve: pip install '.[serve]' in a checkout.
    """
    from harness.config.query_file import PREFIX
    from harness.config.run_config import Override

    axis, score = given.pop("axis"), given.pop("score")
    if usage is not None:
        _serve_usage(usage, axis, form, is_simulated=is_simulated, counting=score, given=given)
        return
    if axis is not None:
        raise click.UsageError("--axis is of --usage; give that, or vary keys of a benchmark by 'sweep --serve'.")
    if (given["queries"] or "").startswith(PREFIX):  # whole, since processes may begin elsewhere
        given["queries"] = PREFIX + str(Path(given["queries"].removeprefix(PREFIX)).absolute())
    asked_of = {**given, "threads": given["num_workers"]}
    overrides = [
        Override(key=f"serve.{key}", value=value, source=f"option {option}")
        for key, option in _ASKED.items()
        if (value := asked_of[key]) is not None
    ]
    request = read_request("serve", benchmark, given, kinds={"serve": None}, overrides=overrides)
    is_accuracy = mode == "accuracy"
    if not is_simulated and not is_accuracy:
        if form in FORMS:
            raise click.UsageError(f"--format {form} is of studies: --simulate, --mode accuracy and --usage.")
        start_and_show(request, form=form)
        return
    option = "--mode accuracy" if is_accuracy else "--simulate"
    if is_simulated and is_accuracy:
        raise click.UsageError("--simulate and --mode accuracy are two studies; give one of them.")
    if request.runs is not None or given["colocate"] is not None:
        raise click.UsageError(f"{option} is of one process; leave -n and --colocate out.")
    from harness.cli.shared.studies import keep_study
    from harness.experiment.expand import with_weights
    from harness.experiment.study import measure_study
    from harness.measure.serving import accuracy, simulate
    from rules.benchmarks.seeds import draw_base_seed

    request = with_weights(request)
    kind = accuracy.KIND if is_accuracy else simulate.KIND
    config = kind.resolve(request.benchmark or "dlrm_small", request.overrides, request.name)
    seed = draw_base_seed() if request.seed is None else request.seed
    with temporary_folder("logs") as folder:
        asked: dict[str, Any] = {"logs": str(folder)} if is_accuracy else {}
        study = measure_study(kind, [config], request, seed=seed, **asked)
        name = f"{kind.name}-{config.label or config.benchmark.name}"
        keep_study(study, request.output, name, form, folder if is_accuracy else None)


_OF_USAGE = {"usage", "axis", "score", "is_simulated", "assignments", "threads", "num_workers", "data_root", "seed",
             "output", "form", "quiet"}  # fmt: skip


def _serve_usage(
    name: str, axis: str | None, form: str, *, is_simulated: bool, counting: Any, given: dict[str, Any]
) -> None:
    """Make the study of a usage, at each value of an axis where there is one."""
    from harness.cli.shared.studies import keep_study
    from harness.config.axes import split_values
    from harness.config.usages.usage import read_usage, with_value
    from harness.experiment.usage import study_usage
    from rules.benchmarks.seeds import draw_base_seed

    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if is_given and option.name not in _OF_USAGE:
            raise click.UsageError(f"--usage says what is served; leave {option.opts[-1]} out.")
    path, tables = read_usage(name)
    for text in given["assignments"]:
        tables = with_value(tables, text)
    if given["num_workers"] is not None:
        tables = with_value(tables, f"usage.workers={given['num_workers']}", "--workers")
    key, equals, values = (axis or "").partition("=")
    texts = split_values(values) if axis is not None else []
    points = [(text, with_value(tables, f"{key}{equals}{text}", "--axis")) for text in texts] or [("", tables)]
    study = study_usage(
        path, points, data=given["data_root"], output=given["output"],
        num_threads=given["threads"], quiet=given["quiet"],
        seed=draw_base_seed() if given["seed"] is None else given["seed"],
        axis=None if axis is None else key, is_simulated=is_simulated, counting=counting,
    )  # fmt: skip
    keep_study(study, given["output"], f"usage-{Path(name).stem}", form)
