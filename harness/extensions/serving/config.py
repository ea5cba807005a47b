"""Read [serve] of a benchmark definition: latency limit, queries and setup of serving, which are no part of the
training problem."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Literal

from msgspec import Meta

from harness.extensions.serving.query_file import MAX_ITEMS, PREFIX, QueryFile, read_query_file
from harness.extensions.serving.rounds import EARLIEST, FORMS, NUM_CANDIDATES, ROUNDS
from reference_models.config.records import PositiveCount, read_section
from reference_models.process.errors import ConfigError
from rules.benchmarks.loader import canonical_sha256

SERVE = "serve"
PERCENTILES = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)
_DEEPRECSYS = NormalDist(165, 16)
"""Distribution of the number of items of a query in DeepRecSys (run_DeepRecSys.sh)."""
_NUM_DEEPRECSYS = 64
_MLPERF = (100, 100, *[200] * 12, 300, 300, 400, 500, 600, 700)
"""Twenty quantiles of the number of items of a query in MLPerf Inference, mean 270 (mlcommons/inference, dlrm,
dist_quantile.txt)."""
_NUM_LOGNORMAL = 256
"""Number of quantiles that represent a log-normal distribution of the number of items in a query."""
_MOST_OF_FILE = 1024
"""Maximum number of queries that represent a file of queries."""
LIBRARY_BYTES = 1 << 30
"""Maximum bytes of LoadGen's sample library where its number of queries is not given."""
MIN_LIBRARY = 64
_FEWEST_RUNS = 4
"""Smallest number of LoadGen's runs in which a process can find the highest VALID rate: two VALID and two INVALID
runs."""
_PROBLEM = ("scenario", "target_latency_ms", "percentile", "queries")
"""Keys of [serve] in a benchmark definition that say which queries to answer within which limit; the other keys
define the setup that answers the queries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeConfig:
    """Settings of `dlrmbench serve`: queries, latency limit, and setup. They are no part of the training problem, so
    that the digest of the benchmark definition does not depend on them."""

    scenario: Literal["server", "offline", "single_stream"] = "server"
    """MLPerf's scenario: queries arrive at random, are all there from the start, or come one after the other."""
    target_latency_ms: Annotated[float, Meta(ge=0.001)] | None = None
    """Latency limit in ms within which `percentile` of the queries must be answered; only in the scenario server."""
    percentile: Annotated[float, Meta(ge=50, le=99.9)] = 95.0
    """Percentile of the queries' latencies that must be within the latency limit: one that LoadGen reports."""
    queries: str = "deeprecsys"
    """Distribution of the number of items (candidates to rank) in a query. `deeprecsys`: normal, mean 165. `mlperf`:
    as in MLPerf's dlrm-v2, 100 to 700, mean 270. `dlrm-v3`: always 2,048. `lognormal:MEDIAN:SIGMA`: with a heavy
    tail. `fixed:N`: always N. `file:PATH`: read from a file with a line for each query, either ITEMS or
    SECONDS,ITEMS."""
    batch: PositiveCount | Literal["auto"] | None = None
    """Maximum number of items in one call of the model. Smaller queries are merged up to this number; larger queries
    are split among `threads`. If the value is `auto`, this number and `split_from` are searched by simulation. If it
    is left out, every query is a call of its own, except in the scenario offline, where leaving it out means
    `auto`."""
    split_from: PositiveCount | None = None
    """Number of items from which a query is split over all `threads`; smaller queries are split only by `batch`,
    which must be set, too."""
    batch_wait_ms: Annotated[float, Meta(ge=0)] = 0.0
    """Time in ms for which the first query of a call that is not full waits for further queries."""
    threads: PositiveCount | None = None
    """Number of threads that answer queries; they share the CPU threads `runtime.threads`. If `threads` or
    `runtime.threads` is left out, its value is chosen by timing."""
    duration_s: Annotated[float, Meta(gt=0)] = 20.0
    """Seconds that LoadGen's runs of one process should take together. This is planned for four runs, which are
    enough where the first rate is near the highest VALID rate. Longer runs are nearer to the steady state."""
    target_qps: Annotated[float, Meta(gt=0)] | None = None
    """Queries per second of LoadGen's first run; where it is left out, the rate that the simulation finds."""
    min_duration_s: Annotated[float, Meta(gt=0)] | None = None
    """Minimum seconds of every run of LoadGen, regardless of `duration_s`."""
    min_queries: PositiveCount | None = None
    """Minimum number of queries of every run of LoadGen."""
    library: PositiveCount | None = None
    """Number of queries in LoadGen's sample library, which repeats the list of query sizes in `queries`. If left out,
    as many queries as the evaluation split can fill without exceeding 1 GiB, but at least 64; samples of a smaller
    split are used more than once."""
    mlperf: bool | None = None
    """Whether MLPerf Inference's requirements for a recommender must hold: latency limit, query sizes, duration,
    library, seeds."""
    round: Literal["5.0", "5.1", "6.0", "6.1"] | None = None
    """Round of MLPerf Inference whose requirements `mlperf` applies; if left out, the model's last round."""
    user_conf: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    """A user.conf of LoadGen, given by its path: its lines become keys of [serve]. Recorded as the file's SHA-256."""
    colocate: PositiveCount = 1
    """Number of processes that serve at the same time, each with its own queries; each process has `runtime.threads`
    threads."""
    weights: str | None = None
    """Folder of weights that a training run has kept. Left out, the model is trained on `train_samples`, or its
    weights are random."""
    train_samples: PositiveCount | None = None
    """Number of samples on which the model is trained before it serves, in place of kept weights."""

    @property
    def num_workers(self) -> int:
        """Return the number of threads that answer queries; 1 before timing has chosen a number."""
        return self.threads or 1

    @property
    def max_items(self) -> int | None:
        """Return the maximum number of items (candidates to rank) in one call of the model; None where every query is
        a call of its own, or before a number was chosen."""
        return None if self.batch == "auto" else self.batch

    @property
    def mlperf_round(self) -> str | None:
        """Return the round of MLPerf Inference whose requirements apply; None without `mlperf`."""
        return (self.round or EARLIEST) if self.mlperf else None

    @property
    def is_batch_searched(self) -> bool:
        return self.batch == "auto" or (self.batch is None and self.scenario == "offline")

    @property
    def share(self) -> float:
        """Return the share of queries that must be answered within the latency limit: the percentile as a
        fraction."""
        return self.percentile / 100

    @property
    def limit_s(self) -> float | None:
        """Return the latency limit in seconds; None where the scenario has none."""
        if self.scenario != "server" or self.target_latency_ms is None:
            return None
        return self.target_latency_ms / 1e3

    @property
    def problem_sha256(self) -> str:
        """Return the digest of the serving problem, without its setup: different problems are not compared."""
        return canonical_sha256({key: getattr(self, key) for key in _PROBLEM} | {"queries": self.queries_label})

    @property
    def query_file(self) -> QueryFile | None:
        """Read the file of queries; None where `queries` names no file. Raises the errors of `read_query_file`."""
        path = self.queries.removeprefix(PREFIX)
        return None if path == self.queries else read_query_file(Path(path))

    @property
    def queries_label(self) -> str:
        """Return the name by which results call the distribution of queries, equal for equal queries: a file is named
        by its content, not its path."""
        return self.queries if self.query_file is None else self.query_file.label


def read_serve(tables: Mapping[str, Mapping[str, Any]]) -> ServeConfig:
    """Read [serve] from the tables of a benchmark definition, which may lack it. Raises ConfigError for wrong or
    missing keys."""
    return parse_serve(tables.get(SERVE, {}))


def parse_serve(table: Mapping[str, Any]) -> ServeConfig:
    """Parse and check the table [serve] of a benchmark definition. Raises ConfigError."""
    serve = read_section("serve", table, ServeConfig)
    list_sizes(serve.queries)
    if serve.percentile not in PERCENTILES:
        known = ", ".join(f"{number:g}" for number in PERCENTILES)
        raise ConfigError(f"serve.percentile is {serve.percentile:g}, expected one that LoadGen reports: {known}.")
    if serve.scenario == "server" and serve.target_latency_ms is None:
        raise ConfigError("serve.target_latency_ms is missing. Give --target-latency, such as 25ms.")
    if serve.split_from is not None and serve.batch in (None, "auto"):
        raise ConfigError(
            "serve.split_from splits queries into calls of serve.batch. Give serve.batch a number of items, too."
        )
    if serve.weights is not None and serve.train_samples is not None:
        raise ConfigError("serve.weights and serve.train_samples both name the weights. Give one of them.")
    if serve.round is not None and not serve.mlperf:
        raise ConfigError(
            f"serve.round is {serve.round!r}, which needs --mlperf. Give --mlperf, too, or leave --round out."
        )
    if serve.mlperf:
        _refuse_other_form(serve)
    return serve


def _refuse_other_form(serve: ServeConfig) -> None:
    """Raise ConfigError for a value of [serve] that MLPerf Inference's requirements do not allow."""
    forms = FORMS[ROUNDS[serve.mlperf_round or EARLIEST].model]
    form = forms.get(serve.scenario)
    if form is None:
        raise ConfigError(
            f"serve.scenario is {serve.scenario!r}, but MLPerf Inference's scenarios for recommenders are "
            f"{' and '.join(forms)}. Give one of these, or leave --mlperf out."
        )
    for key, asked in {**form, "colocate": 1}.items():
        found = getattr(serve, key)
        at_most, exact = key == "target_latency_ms", key in ("percentile", "queries", "colocate")
        if found is None or (found != asked if exact else found > asked if at_most else found < asked):
            bound = "" if exact else " at most" if at_most else " at least"
            raise ConfigError(
                f"serve.{key} is {'missing' if found is None else found}, but --mlperf asks for {asked}{bound}. "
                f"Leave serve.{key} or --mlperf out."
            )


def list_sizes(queries: str) -> tuple[int, ...]:
    """Return the number of items of each query of a pool with the distribution that `queries` names. Raises
    ConfigError."""
    kind, _, number = queries.partition(":")
    if queries == "deeprecsys":
        levels = ((index + 0.5) / _NUM_DEEPRECSYS for index in range(_NUM_DEEPRECSYS))
        return tuple(min(max(round(_DEEPRECSYS.inv_cdf(level)), 1), MAX_ITEMS) for level in levels)
    if queries == "mlperf":
        return _MLPERF
    if queries == "dlrm-v3":
        return (NUM_CANDIDATES,)
    if queries.startswith(PREFIX):
        items = sorted(read_query_file(Path(queries.removeprefix(PREFIX))).items)
        count = min(len(items), _MOST_OF_FILE)
        return tuple(items[(2 * index + 1) * len(items) // (2 * count)] for index in range(count))
    tail = re.fullmatch(r"(?a:(\d{1,4}):(\d(?:\.\d{1,3})?))", number)
    if kind == "lognormal" and tail and 1 <= int(tail[1]) <= MAX_ITEMS and float(tail[2]) > 0:
        normal = NormalDist(math.log(int(tail[1])), float(tail[2]))
        levels = ((index + 0.5) / _NUM_LOGNORMAL for index in range(_NUM_LOGNORMAL))
        return tuple(round(min(max(math.exp(normal.inv_cdf(level)), 1), MAX_ITEMS)) for level in levels)
    if kind == "fixed" and re.fullmatch(r"(?a:\d{1,4})", number) and 1 <= int(number) <= MAX_ITEMS:
        return (int(number),)
    meant = f" Of a file: {PREFIX}{queries[:80]}." if re.search(r"[./]", queries) else ""
    raise ConfigError(
        f"serve.queries is {queries[:80]!r}, expected deeprecsys, mlperf, dlrm-v3, fixed:N with N from 1 to "
        f"{MAX_ITEMS} items, lognormal:MEDIAN:SIGMA such as lognormal:100:0.8, or file:PATH.{meant}"
    )


def explain_needs(serve: ServeConfig) -> str:
    """Return a sentence on what a measurement by MLPerf Inference's requirements takes: the numbers of queries and of
    samples, and a lower bound of the time in seconds."""
    name = serve.mlperf_round or EARLIEST
    sizes = list_sizes(serve.queries)
    num_samples = (serve.library or 0) * sum(sizes) // len(sizes)
    run_s = serve.min_duration_s or 0.0
    if serve.scenario == "server":
        fewest = f"at least {math.ceil(math.log(0.01) / math.log(serve.share)):,} queries"
        runs = f"at least {_FEWEST_RUNS} runs a process, two VALID and two INVALID: "
        runs += f"{_FEWEST_RUNS * run_s:,.0f} s"
    else:
        fewest, runs = f"at least {serve.min_queries:,} queries", f"one run a process: {run_s:,.0f} s"
    return (
        f"MLPerf Inference v{name} asks {ROUNDS[name].model} from a library of {serve.library:,} queries, "
        f"{num_samples:,} samples of the evaluation split; every run takes at least {run_s:,.0f} s and has {fewest}; "
        f"{runs}"
    )


def library_sizes(serve: ServeConfig, num_samples: int, sample_bytes: int) -> tuple[int, ...]:
    """Return the number of items of each query of LoadGen's sample library, for an evaluation split of `num_samples`.

    Raises ConfigError where `serve.library` asks for more than the split holds.
    """
    round_of = list_sizes(serve.queries)
    if serve.library is None:
        rounds = min(num_samples, LIBRARY_BYTES // sample_bytes) // sum(round_of)
        return round_of * max(rounds, -(-MIN_LIBRARY // len(round_of)))
    sizes = (round_of * -(-serve.library // len(round_of)))[: serve.library]
    if sum(sizes) > num_samples:
        raise ConfigError(
            f"serve.library is {serve.library:,} queries, which take {sum(sizes):,} samples, but the evaluation "
            f"split holds {num_samples:,}: {num_samples * len(round_of) // sum(round_of):,} queries. Serve a "
            "benchmark with a larger split, or give fewer queries" + (", without --mlperf." if serve.mlperf else ".")
        )
    return sizes


def whole_split(queries: str, num_samples: int) -> tuple[int, ...]:
    """Return the size (number of items) of each query, for queries that together have every sample of the evaluation
    split once. The last query has what is left."""
    round_of = list_sizes(queries)
    rounds, left = divmod(num_samples, sum(round_of))
    rest = []
    for items in round_of:
        if left <= 0:
            break
        rest.append(min(items, left))
        left -= items
    return round_of * rounds + tuple(rest)
