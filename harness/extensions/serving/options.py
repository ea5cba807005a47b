"""Define the command-line options of `serve` and `simulate`, and the keys of [serve] that they set."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.shared.options import FiniteRange, configuration, duration
from harness.cli.shared.requests import request_options
from harness.extensions.serving.rounds import ROUNDS

if TYPE_CHECKING:
    from harness.config.run_config import Override
    from harness.experiment.request import Request
    from harness.measure.kinds import Kind

F = TypeVar("F", bound=Callable[..., Any])
MAX_WORKERS = 1024
"""Highest number of threads that answer queries: far more than systems have CPUs; all are started before the
first query."""
_KEYS = {
    "target_latency_ms": "--target-latency", "percentile": "--percentile", "queries": "--queries",
    "scenario": "--scenario", "batch": "--batch", "num_workers": "--workers",
    "duration_s": "--duration", "colocate": "--colocate", "train_samples": "--train", "mlperf": "--mlperf",
    "round": "--round",
    "user_conf": "--user-conf",
}  # fmt: skip
"""Command-line option of each key of [serve] that has an option; --workers sets serve.threads."""


def items_or_auto(text: str) -> int | str:
    """Parse the text of an option that takes a number of items, at least 1, or 'auto'. Raises BadParameter."""
    if text == "auto":
        return text
    if not re.fullmatch(r"(?a:0*[1-9]\d{0,8})", text):
        raise click.BadParameter(f"{text!r} is neither a number of items of at least 1 nor auto.")
    return int(text)


_ASKING = (
    click.option(
        "--target-latency", "target_latency_ms", type=duration, help="Latency limit of the queries, such as 25ms."
    ),
    click.option(
        "--percentile",
        type=FiniteRange(50, 99.9),
        help="Percent of the queries that must be answered within the latency limit.",
    ),
    click.option(
        "--queries",
        metavar="SIZES",
        help="Distribution of the number of items in a query: deeprecsys (mean 165), mlperf (dlrm-v2's, mean 270), "
        "dlrm-v3 (2,048), lognormal:MEDIAN:SIGMA, fixed:N, or file:PATH, a file with a line for each query: ITEMS "
        "or, for 'simulate', SECONDS,ITEMS.",
    ),
    click.option(
        "--scenario",
        type=click.Choice(["server", "offline", "single_stream"]),
        help="MLPerf scenario, in which queries arrive at random, all at once, or one after the other.",
    ),
    click.option(
        "--batch",
        type=items_or_auto,
        metavar="ITEMS|auto",
        help="Largest number of items in one call of the model: queries are merged up to this number, and larger "
        "queries are split. auto: search for the best such number, and for the best number of items from which a "
        "query is split over workers.  [default: one call for each query; in scenario offline, auto]",
    ),
    click.option(
        "--workers",
        "num_workers",
        type=click.IntRange(1, MAX_WORKERS),
        metavar="N",
        help="Number of threads that take queries; the CPU threads of --threads are shared out among the workers.  "
        "[default: workers and threads are both chosen by timing]",
    ),
)
_ANSWERING = (
    request_options(
        "sweep",
        "weights",
        help={
            "weights": "Weights of the model: a run's final weights, kept by 'run --keep-weights', or checkpoint N "
            "of a run, given as SET:RUN@N.  [default: random]"
        },
    ),
    click.option(
        "--train",
        "train_samples",
        type=click.IntRange(min=1),
        metavar="SAMPLES",
        help="Number of samples on which the model is trained before it answers queries.",
    ),
    click.option(
        "--mlperf",
        is_flag=True,
        default=None,
        help="Apply MLPerf Inference's requirements for recommenders: runs of 600 s, the seeds of the MLPerf round, "
        "and 204,800 queries of 100 to 700 items (dlrm-v2) or 349,823 queries of 2,048 items (dlrm-v3).",
    ),
    click.option(
        "--round",
        type=click.Choice(sorted(ROUNDS)),
        help="MLPerf Inference round that --mlperf applies: 5.0 and 5.1 have dlrm-v2, 6.0 and 6.1 dlrm-v3 (HSTU).  "
        "[default: the model's last round]",
    ),
    click.option(
        "--user-conf",
        metavar="FILE",
        help="File user.conf of LoadGen, whose lines set keys of the definition's section [serve]; a line with a "
        "key that dlrmbench does not read is refused.",
    ),
)


HEADINGS = {
    "Queries": ("queries", "scenario", "percentile", "mlperf", "user_conf"),
    "Answering": ("batch", "num_workers", "colocate", "weights", "train_samples"),
}
"""Parameters of the command-line options of serving, by the heading in --help that lists them."""
FLAGS = {"runs": ("-n", "--processes")}
"""Command-line flags of `serve` for options that `run` also has, but under another name; a dict from parameter to
flags."""
REQUEST_FLAGS = {"runs": "--processes", "kinds": ""}
"""Dict from fields of a request to the options that set them, for error messages: "runs" is set by --processes. No
option sets "kinds", since the command itself chooses the kind of measurement."""
SEED_HELP = "Base seed of the arrival times of queries and of random weights.  [default: drawn]"


def asking(command: F) -> F:
    """Add the options on the latency limit, queries, calls of the model and workers to a click command."""
    return configuration(command, _ASKING)


def answering(command: F) -> F:
    """Add the options on weights and on MLPerf's requirements to a click command."""
    return configuration(command, _ANSWERING)


def serving_overrides(given: Mapping[str, Any]) -> "list[Override]":
    """Return the values of [serve] that command-line options set, as overrides of the values in the benchmark
    definition."""
    from harness.config.run_config import Override
    from harness.extensions.serving.query_file import PREFIX

    values = {**given}
    if (values["queries"] or "").startswith(PREFIX):  # absolute, since processes may start in another folder
        values["queries"] = PREFIX + str(Path(values["queries"].removeprefix(PREFIX)).absolute())
    return [
        Override(key=f"serve.{'threads' if key == 'num_workers' else key}", value=value, source=f"option {option}")
        for key, option in _KEYS.items()
        if (value := values.get(key)) is not None
    ]


def keep_served_study(
    kind: "Kind", request: "Request", form: str, kept: Path | None = None, following: str = "", **asked: Any
) -> None:
    """Make a study of a served model in a fresh process, store it and print it.

    `kept` is a folder of files that are stored with the study; None for no files. `following` is a sentence that
    becomes the study's last finding; '' for none. `asked` has further fields of the job that the fresh process gets.
    """
    from msgspec import structs

    from harness.cli.shared.studies import keep_study
    from harness.experiment.expand import with_weights
    from harness.experiment.study import measure_study
    from rules.benchmarks.seeds import draw_base_seed

    request = with_weights(request, kind)
    config = kind.resolve(request.benchmark or "dlrm_small", request.overrides, request.name)
    seed = draw_base_seed() if request.seed is None else request.seed
    study = measure_study(kind, [config], request, seed=seed, **asked)
    name = f"{kind.name}-{config.label or config.benchmark.name}"
    study = structs.replace(study, findings=(*study.findings, *filter(None, [following])))
    keep_study(study, request.output, name, form, kept, inputs=[Path(request.benchmark_named)])
