"""extra/serve.json: queries per second within a latency limit, judged by LoadGen; one entry per fresh process."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, PositiveAmount, PositiveCount, Record, Sha256, Share
from rules.records.measure import Column, DetailTable, Measure, ProcessMeasurement
from rules.records.rows import (
    Bytes,
    ItemsPerSecond,
    Number,
    QueriesPerSecond,
    Row,
    Seconds,
    Tally,
    Text,
    Whole,
    meaning,
)

ASKED_VALID = "asked, and VALID in most runs"
COMPLETED = "completed in a VALID run, the best of up to three"
COMPLETED_SHORT = "completed in a short VALID run"
"""What rates are: of this version, and of two earlier ones."""
Percentile = Annotated[float, Meta(ge=50, le=99.9)]
WIDEST_BRACKET = 1.05
"""Between a VALID rate and the lowest INVALID one, where the former may be called the bound."""
MAX_ENTRIES = 1000
"""Most entries of a list of one process."""
LongRunEnd = Literal["left_open", "invalid_below", "none_late"]
"""Why LoadGen's runs say nothing of the long run: no rate near the VALID one was INVALID, a run at a lower rate was,
or the VALID one had no late query where the virtual clock says that some are."""


class ServedRow(Row, kw_only=True, frozen=True):
    """One row per process that served. Rates and latencies are measured, `modelled_per_s` is simulated, `model_bytes`
    computed."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    benchmark: Annotated[Text, meaning("the benchmark's name")] = None
    system: Annotated[Text, meaning("the system's name")] = None
    process: Annotated[Whole, meaning("number of the process in its measurement, from 0")]
    seed: Annotated[Whole, meaning("the process's random seed")] = None
    scenario: Annotated[str, meaning("LoadGen's: server, offline or single_stream")]
    target_latency_s: Annotated[Seconds, meaning("the limit; missing where the scenario has none")] = None
    percentile: Annotated[Number, meaning("of the queries' latencies, by which the limit is judged")]
    queries: Annotated[str, meaning("how many items they have: deeprecsys, mlperf or fixed:N")]
    mean_items: Annotated[Number, meaning("items of a query, on average")]
    num_copies: Annotated[Tally, meaning("processes that served at the same time")]
    num_workers: Annotated[Tally, meaning("threads that answer, of each of them")]
    num_threads: Annotated[Tally, meaning("CPU threads of each of them")]
    batch_items: Annotated[Tally, meaning("items of one call at most; missing: every query is a call")] = None
    is_oversubscribed: Annotated[bool | None, meaning("whether processes times threads exceed the cores")]
    weights: Annotated[str, meaning("random, kept or trained")]
    precision: Annotated[str, meaning("of matrix products")]
    table_precision: Annotated[str, meaning("of embedding rows")]
    model_bytes: Annotated[Bytes, meaning("computed: of tables and products, in their precisions")]
    judged_as: Annotated[Text, meaning("what queries_per_s is; of other kinds in older files")] = None
    queries_per_s: Annotated[
        QueriesPerSecond, meaning("measured: VALID by LoadGen; of a server the highest rate that was asked and VALID")
    ]
    completed_per_s: Annotated[QueriesPerSecond, meaning("measured: completed in that run")] = None
    spread_low_per_s: Annotated[
        QueriesPerSecond, meaning("simulated: the least of such searches' truths, with 95 % confidence")
    ] = None
    spread_high_per_s: Annotated[QueriesPerSecond, meaning("simulated: the greatest, likewise")] = None
    long_run_per_s: Annotated[
        QueriesPerSecond, meaning("simulated: what the long run would allow, queries_per_s over loadgen_share")
    ] = None
    long_run_end: Annotated[
        Text, meaning("why LoadGen's runs do not say that: left_open, invalid_below or none_late")
    ] = None
    loadgen_share: Annotated[Number, meaning("simulated: VALID on LoadGen's arrivals, of the long run's rate")] = None
    invalid_per_s: Annotated[QueriesPerSecond, meaning("measured: the lowest rate of a process, not VALID")] = None
    items_per_s: Annotated[ItemsPerSecond, meaning("measured: ranked; queries_per_s times mean_items")]
    latency_s: Annotated[Seconds, meaning("measured: at the percentile, in that run")]
    modelled_per_s: Annotated[QueriesPerSecond, meaning("simulated: what the virtual clock said of the long run")] = (
        None
    )
    alone_per_s: Annotated[QueriesPerSecond, meaning("measured: of one process alone, beside none")] = None
    overhead_s: Annotated[Seconds, meaning("measured: what LoadGen adds to a query, the median")] = None
    auc: Annotated[Number, meaning("of the whole evaluation split; missing for random weights")] = None
    accuracy: Annotated[Number, meaning("likewise, where that is the benchmark's metric")] = None
    normalised_entropy: Annotated[Number, meaning("likewise; lower is better")] = None
    auc_ratio: Annotated[Number, meaning("auc over that of the same weights in fp32")] = None
    accuracy_ratio: Annotated[Number, meaning("likewise, of accuracy")] = None
    entropy_ratio: Annotated[Number, meaning("likewise, of normalised_entropy")] = None
    mlperf_class: Annotated[Text, meaning("share of fp32's AUC that DLRM keeps: 99.9 %, 99 % or below")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("most resident memory of the process")] = None
    path: Annotated[str, meaning("the measurement's file")]


SERVED = DetailTable(name="served", row=ServedRow, parts=("quality",))


class ServiceTime(Record, frozen=True, kw_only=True):
    """Calls of one size, measured before any queue was there."""

    items: PositiveAmount
    """Items of a call; the mean where queries of several sizes were merged."""
    num_queries: PositiveCount
    """How many queries were merged into one call; a part of one counts as one."""
    num_calls: PositiveCount
    mean_s: PositiveAmount
    percentile_s: PositiveAmount
    """At the percentile of the limit."""


class CurvePoint(Record, frozen=True, kw_only=True):
    """What the virtual clock says of one rate."""

    queries_per_s: PositiveAmount
    latency_s: PositiveAmount
    """At the percentile of the limit."""


class LoadGenRun(Record, frozen=True, kw_only=True):
    """One run of LoadGen; of processes beside each other, all of them together."""

    folder: str
    """Folder of LoadGen's own files, below the process's."""
    asked_per_s: PositiveAmount
    """Queries a second that were asked of each process."""
    completed_per_s: PositiveAmount
    """Queries a second of all processes."""
    num_queries: PositiveCount
    num_late: Count | None
    """Beyond the limit; None where there is none."""
    duration_s: PositiveAmount
    mean_s: PositiveAmount
    latency_s: PositiveAmount
    """At the percentile; of several processes the longest."""
    is_valid: bool
    """LoadGen's own verdict; of several processes, that of all."""
    reason: str | None
    """Why it is not VALID."""
    stall_s: Amount = 0.0
    """The longest time in which the service stood still, beyond what its calls take; 0 where it never did."""
    is_held_up: bool = False
    """Whether stalls made so many queries wait that they may have decided."""


class ServedQuality(Record, frozen=True, kw_only=True):
    """Quality on the whole evaluation split, and against the same weights in fp32."""

    auc: Share | None = None
    """Where the benchmark's metric is the ROC AUC."""
    accuracy: Share | None = None
    """Where it is the accuracy, the mean over tasks."""
    log_loss: Amount
    normalised_entropy: Amount
    auc_ratio: Amount | None = None
    accuracy_ratio: Amount | None = None
    entropy_ratio: Amount
    mlperf_class: Literal["99.9 %", "99 %", "below"] | None = None
    """MLPerf Inference asks for 99.9 % or 99 % of the AUC of fp32. None of another metric, and of
    models that the forward pass of training serves."""


class ServeProcess(Record, frozen=True, kw_only=True):
    """One fresh process, or several beside each other."""

    queries_per_s: PositiveAmount
    """VALID by LoadGen. Of a server, what was asked of all processes: the highest rate of which most runs are VALID,
    below every rate of which most are not. Of another scenario, and in files without `completed_per_s`, what the
    fastest VALID run completed."""
    completed_per_s: PositiveAmount | None = None
    """Completed in that run, of all processes: chance of its arrivals, and its end, move it. None in older files."""
    spread_low_per_s: PositiveAmount | None = None
    """Simulated, with `spread_high_per_s`: holds with 95 % confidence the rate at which half of all runs as long as
    these are VALID, whatever their arrivals and service times. None without a limit, where runs are too long to
    simulate searches of them, and in older files."""
    spread_high_per_s: PositiveAmount | None = None
    invalid_per_s: PositiveAmount | None = None
    """Asked of each process, at the lowest rate above it that was not VALID and not held up; None where there was
    none."""
    long_run_per_s: PositiveAmount | None = None
    """Simulated: what the long run would allow, the VALID rate over `loadgen_share`. None without a limit, where
    `long_run_end` says why not, and in the oldest files."""
    long_run_end: LongRunEnd | None = None
    loadgen_share: PositiveAmount | None = None
    """Simulated: the rate that LoadGen's rule calls VALID on its arrivals, of that which is within the limit in the
    long run; None without a limit, and in older files."""
    schedule_seed: str | None = None
    """LoadGen's seed for the moments at which it asked, in decimal; for several processes the first one's."""
    items_per_s: PositiveAmount
    """Ranked: queries a second times the mean items of a query."""
    latency_s: PositiveAmount
    """At the percentile, in that run."""
    modelled_per_s: PositiveAmount | None
    """What the virtual clock said of the long run, of all processes; None where it found no rate. In files without
    `loadgen_share`, what it said that LoadGen would find."""
    alone_per_s: PositiveAmount | None
    """What one of the processes did alone; None where there is only one."""
    overhead_s: Amount
    """What LoadGen and the queue add to a query, measured with a system that does nothing: the median."""
    loaded_factor: PositiveAmount | None = None
    """How many times as long calls take while LoadGen asks for more than can be answered, measured: the virtual clock
    has the times of `service` multiplied by it. None where that was not measured."""
    service: Annotated[tuple[ServiceTime, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    curve: Annotated[tuple[CurvePoint, ...], Meta(max_length=MAX_ENTRIES)]
    runs: Annotated[tuple[LoadGenRun, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    quality: ServedQuality | None
    peak_rss_bytes: PositiveCount | None
    started_utc: str
    ended_utc: str

    @property
    def valid_run(self) -> LoadGenRun:
        """Return the run whose rate is the process's answer."""
        completed_per_s = self.queries_per_s if self.completed_per_s is None else self.completed_per_s
        valid = [run for run in self.runs if run.is_valid]
        found = [run for run in valid if run.completed_per_s == completed_per_s]
        return (found or valid or list(self.runs))[-1]

    @property
    def judged_as(self) -> str | None:
        """Return what `queries_per_s` is, which older files have otherwise; None where no rate is asked."""
        if self.completed_per_s is not None:
            return ASKED_VALID if self.loadgen_share is not None else None
        return COMPLETED if self.loadgen_share is not None else COMPLETED_SHORT

    @property
    def is_repeated(self) -> bool:
        """Whether several runs say that the rate is VALID, or no rate was searched."""
        asked = [run for run in self.runs if run.asked_per_s == self.valid_run.asked_per_s]
        return self.judged_as != ASKED_VALID or len(asked) > 1

    @property
    def width(self) -> float | None:
        """How many times the VALID rate the lowest INVALID one is; None where none was, or none is looked for."""
        return None if self.invalid_per_s is None else self.invalid_per_s / self.valid_run.asked_per_s

    @property
    def resolution(self) -> float:
        """How much further than the rate the truth may be, as a fraction of it: the bracket that was left."""
        return 0.0 if self.width is None else max(0.0, self.width - 1)

    @property
    def is_resolved(self) -> bool:
        """Whether the rate is known: nothing was looked for but one rate, or the bracket around it is narrow."""
        return self.loadgen_share is None or (self.width is not None and self.width <= WIDEST_BRACKET)

    @property
    def auc(self) -> float | None:
        """Return the ROC AUC of what was served, where there are labels."""
        return None if self.quality is None else self.quality.auc

    @property
    def times_alone(self) -> float | None:
        """How many times the queries of one process; None where there is only one."""
        if self.alone_per_s is None:
            return None
        is_old = self.judged_as == COMPLETED and self.long_run_per_s is not None  # both are of the long run there
        return ((self.long_run_per_s if is_old else None) or self.queries_per_s) / self.alone_per_s


class ServeRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Latency-bounded throughput, or of another scenario the rate alone, measured in fresh processes."""

    MEASURE: ClassVar[Measure] = Measure(
        title="Serving",
        value="queries_per_s",
        unit="queries/s",
        scale="ratio",
        direction="higher",
        columns=(
            Column(member="queries_per_s", title="Queries/s", unit="queries/s"),
            Column(member="items_per_s", title="Items/s", unit="items/s"),
            Column(member="latency_s", title="Latency", unit="s"),
            Column(member="long_run_per_s", title="Long run queries/s", unit="queries/s", origin="simulated"),
            Column(member="modelled_per_s", title="Modelled queries/s", unit="queries/s", origin="simulated"),
            Column(member="times_alone", title="Times one process", unit=None),
            Column(member="auc", title="AUC", unit="auc"),
            Column(member="peak_rss_bytes", title="Peak memory", unit="B"),
        ),
    )
    ASKED: ClassVar[tuple[str, ...]] = (
        "scenario",
        "target_latency_s",
        "percentile",
        "queries",
        "library",
        "judged_as",
    )
    MUST_AGREE: ClassVar[Mapping[str, str]] = {
        "scenario": "different scenarios: {} and {}",
        "target_latency_s": "different latency limits: {} s and {} s",
        "percentile": "judged at different percentiles: {} and {}",
        "queries": "queries of different sizes: {} and {}",
        "library": "sample libraries of {} and {} queries",
        "judged_as": "rates of different kinds: {} and {}. Measure the older one again",
    }
    COMMAND: ClassVar[str | None] = "serve"
    DETAILS: ClassVar[DetailTable | None] = SERVED

    scenario: Literal["server", "offline", "single_stream"]
    target_latency_s: PositiveAmount | None
    """None where the scenario has no limit."""
    percentile: Percentile
    queries: str
    """How many items they have: deeprecsys, mlperf or fixed:N."""
    mean_items: PositiveAmount
    library_queries: PositiveCount | None = None
    """Queries of LoadGen's sample library, from which it draws; None in older files."""
    problem_sha256: Sha256
    """Digest of what is asked: scenario, limit, percentile and queries."""
    batch_items: PositiveCount | None = None
    """Most items of one call, to which queries are merged or split; None: every query is a call of its own."""
    split_items: PositiveCount | None = None
    """Items from which a query is split over all workers; None: only by `batch_items`."""
    batch_wait_s: Amount
    num_workers: PositiveCount
    """Threads that answer, in each process."""
    num_threads: PositiveCount
    """CPU threads of each process, shared out among the workers."""
    num_copies: PositiveCount
    """Processes that serve at the same time."""
    is_oversubscribed: bool
    """Whether processes times threads exceed the cores."""
    weights: Literal["random", "kept", "trained"]
    precision: str
    table_precision: str
    model_bytes: Count
    """Computed: of tables and products, in their precisions."""
    loadgen_version: str
    processes: Annotated[tuple[ServeProcess, ...], Meta(min_length=1)]

    @property
    def library(self) -> int:
        """Return the queries of the sample library; of older files, whose rounds of queries make 64 or more."""
        return self.library_queries or {"mlperf": 80}.get(self.queries, 64)

    @property
    def judged_as(self) -> str | None:
        """Return what its rates are, which older files have otherwise; None without a limit.

        A set that an earlier version began and this one went on with has both.
        """
        if self.target_latency_s is None:
            return None
        return " and ".join(sorted({process.judged_as or "" for process in self.processes}))
