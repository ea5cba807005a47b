"""extra/serve.json: queries per second within a latency limit, judged by LoadGen; one entry per fresh process."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, PositiveAmount, PositiveCount, Record, Sha256, Share
from rules.records.measure import Column, DetailTable, Measure, ProcessMeasurement
from rules.records.measured.served import ServedRow

Percentile = Annotated[float, Meta(ge=50, le=99.9)]
MAX_ENTRIES = 1000
"""Most entries of a list of one process."""


class ServiceTime(Record, frozen=True, kw_only=True):
    """Calls of one size, measured before any queue was there."""

    items: PositiveAmount
    """Items of a call; the mean where queries of several sizes were merged."""
    num_queries: PositiveCount
    """That were merged into one call; a part of one counts as one."""
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


class ServedQuality(Record, frozen=True, kw_only=True):
    """Quality on the whole evaluation split, and against the same weights in fp32."""

    auc: Share
    log_loss: Amount
    normalised_entropy: Amount
    auc_ratio: Amount
    entropy_ratio: Amount
    mlperf_class: Literal["99.9 %", "99 %", "below"]
    """MLPerf Inference asks for 99.9 % or 99 % of the quality of fp32."""


class ServeProcess(Record, frozen=True, kw_only=True):
    """One fresh process, or several beside each other."""

    queries_per_s: PositiveAmount
    """Completed by the fastest run that is VALID."""
    items_per_s: PositiveAmount
    """Ranked: queries a second times the mean items of a query."""
    latency_s: PositiveAmount
    """At the percentile, in that run."""
    modelled_per_s: PositiveAmount | None
    """What the virtual clock said that LoadGen would find, of all processes; None where it found no rate."""
    alone_per_s: PositiveAmount | None
    """What one of the processes did alone; None where there is only one."""
    overhead_s: Amount
    """What LoadGen and the queue add to a query, measured with a system that does nothing: the median."""
    service: Annotated[tuple[ServiceTime, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    curve: Annotated[tuple[CurvePoint, ...], Meta(max_length=MAX_ENTRIES)]
    runs: Annotated[tuple[LoadGenRun, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    quality: ServedQuality | None
    peak_rss_bytes: PositiveCount | None
    started_utc: str
    ended_utc: str

    @property
    def auc(self) -> float | None:
        """Return the ROC AUC of what was served, where there are labels."""
        return None if self.quality is None else self.quality.auc

    @property
    def times_alone(self) -> float | None:
        """How many times the queries of one process; None where there is only one."""
        return None if self.alone_per_s is None else self.queries_per_s / self.alone_per_s


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
            Column(member="modelled_per_s", title="Modelled queries/s", unit="queries/s", origin="simulated"),
            Column(member="times_alone", title="Times one process", unit=None),
            Column(member="auc", title="AUC", unit="auc"),
            Column(member="peak_rss_bytes", title="Peak memory", unit="B"),
        ),
    )
    ASKED: ClassVar[tuple[str, ...]] = ("scenario", "target_latency_s", "percentile", "queries")
    MUST_AGREE: ClassVar[Mapping[str, str]] = {
        "scenario": "different scenarios: {} and {}",
        "target_latency_s": "different latency limits: {} s and {} s",
        "percentile": "judged at different percentiles: {} and {}",
        "queries": "queries of different sizes: {} and {}",
    }
    COMMAND: ClassVar[str | None] = "serve"
    DETAILS: ClassVar[DetailTable | None] = DetailTable(name="served", row=ServedRow, parts=("quality",))

    scenario: Literal["server", "offline", "single_stream"]
    target_latency_s: PositiveAmount | None
    """None where the scenario has no limit."""
    percentile: Percentile
    queries: str
    """How many items they have: deeprecsys, mlperf or fixed:N."""
    mean_items: PositiveAmount
    problem_sha256: Sha256
    """Digest of what is asked: scenario, limit, percentile and queries."""
    batch_items: PositiveCount | None = None
    """Most items of one call, to which queries are merged or split; None: every query is a call of its own."""
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
