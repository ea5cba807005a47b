"""Options of the verbs that ask a served model queries, and the values of [serve] that they give."""

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
"""Threads that take queries: far more than any system has CPUs for; each is started before the first query."""
_KEYS = {
    "target_latency_ms": "--target-latency", "percentile": "--percentile", "queries": "--queries",
    "scenario": "--scenario", "batch": "--batch", "num_workers": "--workers",
    "duration_s": "--duration", "colocate": "--colocate", "train_samples": "--train", "mlperf": "--mlperf",
    "round": "--round",
    "user_conf": "--user-conf",
}  # fmt: skip
"""Keys of [serve] that have an option; threads of it are --workers."""


def items_or_auto(text: str) -> int | str:
    """Read a number of items, or auto. Raises BadParameter."""
    if text == "auto":
        return text
    if not re.fullmatch(r"(?a:0*[1-9]\d{0,8})", text):
        raise click.BadParameter(f"{text!r} is no number of items of at least 1, nor auto.")
    return int(text)


_ASKING = (
    click.option("--target-latency", "target_latency_ms", type=duration, help="The limit, such as 25ms."),
    click.option(
        "--percentile", type=FiniteRange(50, 99.9), help="Of the queries that stay within the limit, in percent."
    ),
    click.option(
        "--queries",
        metavar="SIZES",
        help="Items of a query: deeprecsys (mean 165), mlperf (dlrm-v2's, mean 270), dlrm-v3 (2,048), "
        "lognormal:MEDIAN:SIGMA, fixed:N, or file:PATH with a line for each: ITEMS, or SECONDS,ITEMS for 'simulate'.",
    ),
    click.option(
        "--scenario",
        type=click.Choice(["server", "offline", "single_stream"]),
        help="Queries arrive at random, are all there at once, or come one after the other.",
    ),
    click.option(
        "--batch",
        type=items_or_auto,
        metavar="ITEMS|auto",
        help="Items of a call at most: queries are merged up to it, larger ones split; auto: searched, and the size "
        "from which queries are split over the workers.  [default: a call for each query; offline, auto]",
    ),
    click.option(
        "--workers",
        "num_workers",
        type=click.IntRange(1, MAX_WORKERS),
        metavar="N",
        help="Threads that take queries; --threads are shared out among them.  [default: both chosen by timing]",
    ),
)
_ANSWERING = (
    request_options(
        "sweep",
        "weights",
        help={
            "weights": "Weights that 'run --keep-weights' kept, or a run's checkpoint: SET:RUN@N.  [default: random]"
        },
    ),
    click.option(
        "--train", "train_samples", type=click.IntRange(min=1), metavar="SAMPLES", help="Train so many samples first."
    ),
    click.option(
        "--mlperf",
        is_flag=True,
        default=None,
        help="Ask what MLPerf Inference asks of a recommender: runs of 600 s, 204,800 queries of dlrm-v2 (100 to 700 "
        "items) or 349,823 of dlrm-v3 (2,048 items), the round's seeds.",
    ),
    click.option(
        "--round",
        type=click.Choice(sorted(ROUNDS)),
        help="The round of --mlperf: 5.0 and 5.1 have dlrm-v2, 6.0 and 6.1 dlrm-v3 (HSTU).  [default: the model's "
        "last]",
    ),
    click.option(
        "--user-conf",
        metavar="FILE",
        help="A user.conf of LoadGen: its lines are keys of [serve], honoured or refused.",
    ),
)


HEADINGS = {
    "Queries": ("queries", "scenario", "percentile", "mlperf", "user_conf"),
    "Answering": ("batch", "num_workers", "colocate", "weights", "train_samples"),
}
"""Headings of --help for options of serving alone, by parameter."""
FLAGS = {"runs": ("-n", "--processes")}
"""How the options of a request are written, where it is not as `run` writes them."""
REQUEST_FLAGS = {"runs": "--processes", "kinds": ""}
"""The same for the request; the kind is the verb's own."""
SEED_HELP = "Base seed of arrivals and weights.  [default: drawn]"


def asking(command: F) -> F:
    """Add the options that say what is asked, and by how many threads it is taken."""
    return configuration(command, _ASKING)


def answering(command: F) -> F:
    """Add the options that say which weights answer, and by whose rules it is asked."""
    return configuration(command, _ANSWERING)


def serving_overrides(given: Mapping[str, Any]) -> "list[Override]":
    """Collect the values of [serve] that options give."""
    from harness.config.run_config import Override
    from harness.extensions.serving.query_file import PREFIX

    values = {**given}
    if (values["queries"] or "").startswith(PREFIX):  # whole, since processes may begin elsewhere
        values["queries"] = PREFIX + str(Path(values["queries"].removeprefix(PREFIX)).absolute())
    return [
        Override(key=f"serve.{'threads' if key == 'num_workers' else key}", value=value, source=f"option {option}")
        for key, option in _KEYS.items()
        if (value := values.get(key)) is not None
    ]


def keep_served_study(kind: "Kind", request: "Request", form: str, kept: Path | None = None, **asked: Any) -> None:
    """Make a study of a served model in a process of its own, keep it with what is in `kept`, print it.

    `kept` is a folder, where there is one; `asked` is what the job is asked besides.
    """
    from harness.cli.shared.studies import keep_study
    from harness.experiment.expand import with_weights
    from harness.experiment.study import measure_study
    from rules.benchmarks.seeds import draw_base_seed

    request = with_weights(request, kind)
    config = kind.resolve(request.benchmark or "dlrm_small", request.overrides, request.name)
    seed = draw_base_seed() if request.seed is None else request.seed
    study = measure_study(kind, [config], request, seed=seed, **asked)
    name = f"{kind.name}-{config.label or config.benchmark.name}"
    keep_study(study, request.output, name, form, kept, inputs=[Path(request.benchmark_named)])
