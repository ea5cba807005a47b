"""Define the type of extra/serve.json: queries per second within a latency limit, judged by LoadGen, of each
process."""

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
"""Meanings of `queries_per_s`, the VALID rate in a record: in this version of the harness, and in two earlier
ones."""
Percentile = Annotated[float, Meta(ge=50, le=99.9)]
WIDEST_BRACKET = 1.05
"""Limit of the lowest INVALID rate divided by the highest VALID rate. Up to it, the highest VALID rate counts as
known."""
MAX_ENTRIES = 1000
"""Maximum number of entries of each list in the record of one process: timed calls, simulated rates, runs of
LoadGen."""
Contradiction = Literal["left_open", "invalid_below", "none_late"]
"""Ways in which LoadGen's runs contradict the simulated steady state. left_open: no rate near the VALID rate was
INVALID. invalid_below: a run was INVALID at a rate where it should have been VALID, for example below the VALID rate.
none_late: the VALID runs had no late query, though simulated runs at that rate have some."""


class ServedRow(Row, kw_only=True, frozen=True):
    """One row per process that served. Rates and latencies are measured, `modelled_per_s` is simulated, `model_bytes`
    computed."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    benchmark: Annotated[Text, meaning("the benchmark's name")] = None
    system: Annotated[Text, meaning("the system's name")] = None
    process: Annotated[Whole, meaning("number of the process in its measurement, from 0")]
    seed: Annotated[Whole, meaning("the process's random seed")] = None
    scenario: Annotated[str, meaning("LoadGen's scenario: server, offline or single_stream")]
    target_latency_s: Annotated[Seconds, meaning("latency limit; missing where the scenario has none")] = None
    percentile: Annotated[
        Number, meaning("percentile of the queries' latencies that must be within the latency limit")
    ]
    queries: Annotated[str, meaning("distribution of the items of a query: deeprecsys, mlperf or fixed:N")]
    mean_items: Annotated[Number, meaning("mean number of items of a query")]
    num_copies: Annotated[Tally, meaning("number of processes that served at the same time")]
    num_workers: Annotated[Tally, meaning("number of threads that answer queries in each process")]
    num_threads: Annotated[Tally, meaning("number of CPU threads of each process")]
    batch_items: Annotated[
        Tally, meaning("most items of one call of the model; missing where every query is a call")
    ] = None
    is_oversubscribed: Annotated[bool | None, meaning("whether processes times threads exceed the cores")]
    weights: Annotated[str, meaning("origin of the model's weights: random, kept or trained")]
    precision: Annotated[str, meaning("precision of matrix products")]
    table_precision: Annotated[str, meaning("precision of embedding rows")]
    model_bytes: Annotated[
        Bytes, meaning("computed: size of tables and of weights of matrix products, in their precisions")
    ]
    judged_as: Annotated[Text, meaning("meaning of queries_per_s, which differs in older files")] = None
    queries_per_s: Annotated[
        QueriesPerSecond,
        meaning("measured: rate that is VALID by LoadGen; for a server the highest rate asked and VALID"),
    ]
    completed_per_s: Annotated[
        QueriesPerSecond, meaning("measured: rate of completed queries in the run at queries_per_s")
    ] = None
    spread_low_per_s: Annotated[
        QueriesPerSecond,
        meaning("simulated: lower end, with 95 % confidence, of the rate at which half of all runs are VALID"),
    ] = None
    spread_high_per_s: Annotated[
        QueriesPerSecond, meaning("simulated: upper end, with 95 % confidence, of the same rate as spread_low_per_s")
    ] = None
    steady_state_per_s: Annotated[
        QueriesPerSecond, meaning("simulated: rate in steady state, queries_per_s over loadgen_share")
    ] = None
    steady_state_missing: Annotated[
        Text, meaning("reason why steady_state_per_s is missing: left_open, invalid_below or none_late")
    ] = None
    loadgen_share: Annotated[
        Number, meaning("simulated: rate that LoadGen's rule calls VALID over the rate in steady state")
    ] = None
    invalid_per_s: Annotated[QueriesPerSecond, meaning("measured: lowest rate of a process that was INVALID")] = None
    items_per_s: Annotated[ItemsPerSecond, meaning("measured: items ranked, queries_per_s times mean_items")]
    latency_s: Annotated[Seconds, meaning("measured: latency at the percentile, in the run at queries_per_s")]
    modelled_per_s: Annotated[
        QueriesPerSecond, meaning("simulated: rate in steady state, from service times alone")
    ] = None
    alone_per_s: Annotated[QueriesPerSecond, meaning("measured: rate of one process while no other serves")] = None
    overhead_s: Annotated[Seconds, meaning("measured: median latency that LoadGen adds to a query")] = None
    auc: Annotated[Number, meaning("AUC of the whole evaluation split; missing for random weights")] = None
    accuracy: Annotated[Number, meaning("accuracy of the whole evaluation split, where that is the metric")] = None
    normalised_entropy: Annotated[
        Number, meaning("normalised entropy of the whole evaluation split; lower is better")
    ] = None
    auc_ratio: Annotated[Number, meaning("auc over the auc of the same weights in fp32")] = None
    accuracy_ratio: Annotated[Number, meaning("accuracy over the accuracy of the same weights in fp32")] = None
    entropy_ratio: Annotated[
        Number, meaning("normalised_entropy over the normalised_entropy of the same weights in fp32")
    ] = None
    mlperf_class: Annotated[Text, meaning("share of fp32's AUC that DLRM keeps: 99.9 %, 99 % or below")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("most resident memory of the process")] = None
    path: Annotated[str, meaning("the measurement's file")]


SERVED = DetailTable(name="served", row=ServedRow, parts=("quality",))


class ServiceTime(Record, frozen=True, kw_only=True):
    """Times of calls of the model with one number of items (candidates to rank), measured while no query waits."""

    items: PositiveAmount
    """Number of items (candidates to rank) in a call of the model; the mean where queries of several sizes were
    merged."""
    num_queries: PositiveCount
    """Number of queries merged into one call of the model; a part of a query counts as one."""
    num_calls: PositiveCount
    mean_s: PositiveAmount
    percentile_s: PositiveAmount
    """Time of a call in seconds, at the percentile for which the latency limit holds."""


class CurvePoint(Record, frozen=True, kw_only=True):
    """Simulated latency at one rate of queries."""

    queries_per_s: PositiveAmount
    latency_s: PositiveAmount
    """Simulated latency of queries in seconds, at the percentile for which the latency limit holds."""


class LoadGenRun(Record, frozen=True, kw_only=True):
    """One run of LoadGen; with several processes, the simultaneous runs of all processes."""

    folder: str
    """Folder of LoadGen's log files of the run, below the folder of the measured process."""
    asked_per_s: PositiveAmount
    """Queries per second that LoadGen issued to each process."""
    completed_per_s: PositiveAmount
    """Queries per second that all processes together completed."""
    num_queries: PositiveCount
    num_late: Count | None
    """Number of queries answered later than the latency limit; None where the scenario has no limit."""
    duration_s: PositiveAmount
    mean_s: PositiveAmount
    latency_s: PositiveAmount
    """Latency of queries in seconds at the judged percentile; with several processes, the longest of theirs."""
    is_valid: bool
    """Whether LoadGen judged the run VALID; with several processes, whether the runs of all are."""
    reason: str | None
    """Reason why LoadGen judged the run INVALID; None where the run is VALID."""
    stall_s: Amount = 0.0
    """Longest time in seconds for which the service stood still in the run, beyond the time of its calls; 0 if it
    never did."""
    is_held_up: bool = False
    """Whether the service stood still for so many queries that this may have decided the verdict on the run."""


class ServedQuality(Record, frozen=True, kw_only=True):
    """Quality of a served model on the whole evaluation split, with its ratio to the quality of the same weights in
    fp32."""

    auc: Share | None = None
    """ROC AUC, where that is the benchmark's metric; else None."""
    accuracy: Share | None = None
    """Accuracy, the mean over tasks, where that is the benchmark's metric; else None."""
    log_loss: Amount
    normalised_entropy: Amount
    auc_ratio: Amount | None = None
    accuracy_ratio: Amount | None = None
    entropy_ratio: Amount
    mlperf_class: Literal["99.9 %", "99 %", "below"] | None = None
    """Accuracy class of MLPerf Inference that the served model reaches: 99.9 % or 99 % of the AUC in fp32. None for
    another metric, and for models that are served by the forward pass of training."""


class ServeProcess(Record, frozen=True, kw_only=True):
    """Measurement of the serving of one fresh process, or of several that served at the same time."""

    queries_per_s: PositiveAmount
    """Highest VALID rate by LoadGen, in queries per second. In the scenario server it is a rate at which queries were
    issued to all processes: most runs at it are VALID, and it is below every rate at which most runs are INVALID. In
    other scenarios, and in files without `completed_per_s`, it is the rate at which the fastest VALID run completed
    queries."""
    completed_per_s: PositiveAmount | None = None
    """Queries per second that all processes completed in the run at `queries_per_s`; chance in the arrivals, and the
    end of the run, affect this number. None in older files."""
    spread_low_per_s: PositiveAmount | None = None
    """Lower end of a simulated 95 % confidence interval for the true rate, in queries per second; `spread_high_per_s`
    is the upper end. At the true rate half of all runs of this length would be VALID. None without a latency limit,
    if runs are too long to simulate, if many simulated searches find no VALID rate, and in files of earlier
    versions."""
    spread_high_per_s: PositiveAmount | None = None
    invalid_per_s: PositiveAmount | None = None
    """Lowest INVALID rate above the VALID rate, in queries per second of each process. Rates at which a stall of the
    service may have decided the verdict do not count. None where no rate counts."""
    steady_state_per_s: PositiveAmount | None = None
    """Simulated queries per second in steady state: the VALID rate divided by `loadgen_share`. None without a latency
    limit, if it is not known (`steady_state_missing` has the reason), and in the oldest files."""
    steady_state_missing: Contradiction | None = None
    loadgen_share: PositiveAmount | None = None
    """Simulated ratio of two rates: the rate that LoadGen's rule calls VALID, over the rate in steady state. Both
    keep the latency limit. None without a latency limit, and in older files."""
    schedule_seed: str | None = None
    """LoadGen's seed of arrival times, in decimal; for several processes, the first one's."""
    items_per_s: PositiveAmount
    """Items ranked per second: queries per second times the mean number of items of a query."""
    latency_s: PositiveAmount
    """Latency of queries in seconds at the judged percentile, in the run at `queries_per_s`."""
    modelled_per_s: PositiveAmount | None
    """Simulated queries per second of all processes in steady state; None if no rate keeps the latency limit. In
    files without `loadgen_share` it is the rate at which LoadGen's search would end in a simulation."""
    alone_per_s: PositiveAmount | None
    """Queries per second of one process while no other serves; None where there is only one process."""
    overhead_s: Amount
    """Median seconds that LoadGen and the queue add to a query, measured with a system that does nothing."""
    loaded_factor: PositiveAmount | None = None
    """Measured factor by which calls of the model take longer while LoadGen issues more queries than can be answered.
    In simulations the times of `service` are multiplied by it. None if it was not measured."""
    service: Annotated[tuple[ServiceTime, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    curve: Annotated[tuple[CurvePoint, ...], Meta(max_length=MAX_ENTRIES)]
    runs: Annotated[tuple[LoadGenRun, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    quality: ServedQuality | None
    peak_rss_bytes: PositiveCount | None
    started_utc: str
    ended_utc: str

    @property
    def valid_run(self) -> LoadGenRun:
        """Return LoadGen's run at the VALID rate of the process."""
        completed_per_s = self.queries_per_s if self.completed_per_s is None else self.completed_per_s
        valid = [run for run in self.runs if run.is_valid]
        found = [run for run in valid if run.completed_per_s == completed_per_s]
        return (found or valid or list(self.runs))[-1]

    @property
    def judged_as(self) -> str | None:
        """Return the meaning of the VALID rate `queries_per_s`, which differs in files of earlier versions; None
        where LoadGen issues no rate."""
        if self.completed_per_s is not None:
            return ASKED_VALID if self.loadgen_share is not None else None
        return COMPLETED if self.loadgen_share is not None else COMPLETED_SHORT

    @property
    def is_repeated(self) -> bool:
        """Whether LoadGen ran more than once at the VALID rate. Also True in a scenario without a search for a
        rate."""
        asked = [run for run in self.runs if run.asked_per_s == self.valid_run.asked_per_s]
        return self.judged_as != ASKED_VALID or len(asked) > 1

    @property
    def width(self) -> float | None:
        """Return the ratio of the lowest INVALID rate to the VALID one; None where no rate was INVALID, or none was
        searched."""
        return None if self.invalid_per_s is None else self.invalid_per_s / self.valid_run.asked_per_s

    @property
    def resolution(self) -> float:
        """Return the gap between the VALID rate and the lowest INVALID one, as a fraction of the VALID rate; 0 where
        unknown."""
        return 0.0 if self.width is None else max(0.0, self.width - 1)

    @property
    def is_resolved(self) -> bool:
        """Whether an INVALID rate is known near the VALID one, so that no much higher rate can be VALID. Also True in
        a scenario without a search for a rate."""
        return self.loadgen_share is None or (self.width is not None and self.width <= WIDEST_BRACKET)

    @property
    def auc(self) -> float | None:
        """Return the ROC AUC of the served model; None where weights are random, and where the benchmark's metric is
        another."""
        return None if self.quality is None else self.quality.auc

    @property
    def times_alone(self) -> float | None:
        """Return the ratio of the queries per second of all processes together to the queries per second of one
        process alone. None where there is only one process."""
        if self.alone_per_s is None:
            return None
        is_old = self.judged_as == COMPLETED and self.steady_state_per_s is not None  # both are in steady state
        return ((self.steady_state_per_s if is_old else None) or self.queries_per_s) / self.alone_per_s


class ServeRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Latency-bounded throughput, or the rate of a scenario without a limit, measured in fresh processes."""

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
            Column(member="steady_state_per_s", title="Steady-state queries/s", unit="queries/s", origin="simulated"),
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
    """Latency limit in seconds; None where the scenario has none."""
    percentile: Percentile
    queries: str
    """Distribution of the number of items of a query, as serve.queries names it; a file is named by its content."""
    mean_items: PositiveAmount
    library_queries: PositiveCount | None = None
    """Number of queries of LoadGen's sample library, from which queries are drawn; None in older files."""
    problem_sha256: Sha256
    """SHA-256 of the serving problem: scenario, latency limit, percentile and queries."""
    batch_items: PositiveCount | None = None
    """Maximum number of items (candidates to rank) in one call of the model, to which queries are merged or split;
    None: every query is a call of its own."""
    split_items: PositiveCount | None = None
    """Number of items (candidates to rank) from which a query is split over all workers; None: queries are split only
    by `batch_items`."""
    batch_wait_s: Amount
    num_workers: PositiveCount
    """Number of threads that answer queries, in each process."""
    num_threads: PositiveCount
    """Number of CPU threads of each process, shared out among the threads that answer queries."""
    num_copies: PositiveCount
    """Number of processes that serve at the same time."""
    is_oversubscribed: bool
    """Whether the number of processes times their threads exceeds the CPU cores."""
    weights: Literal["random", "kept", "trained"]
    precision: str
    table_precision: str
    model_bytes: Count
    """Computed bytes of the embedding tables and of the weights of matrix products, in their precisions."""
    loadgen_version: str
    processes: Annotated[tuple[ServeProcess, ...], Meta(min_length=1)]

    @property
    def library(self) -> int:
        """Return the number of queries of LoadGen's sample library, also for files of earlier versions, which do not
        record it."""
        return self.library_queries or {"mlperf": 80}.get(self.queries, 64)

    @property
    def judged_as(self) -> str | None:
        """Return words on what the VALID rate `queries_per_s` means, since it has another meaning in files of earlier
        versions. None without a latency limit.

        Processes of one set may have been measured by an earlier and by this version. The words then state both
        meanings.
        """
        if self.target_latency_s is None:
            return None
        return " and ".join(sorted({process.judged_as or "" for process in self.processes}))
