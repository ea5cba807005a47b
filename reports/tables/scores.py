"""What `score` and `run` write as JSON, member by member; `reports.views` makes and shows it.

A set is a row of `report --format json` with what only a score says after it; its runs are rows of that document.
"""

from typing import Annotated, Literal

from msgspec import Meta

from reports.tables.records import RunRow, SetRow
from rules.records.rows import Amount, Joules, Number, Row, Seconds, Share, SmoothedSamples, Text, Whole, meaning


class ScoreRecord(SetRow, kw_only=True, frozen=True):
    """One set's score in SI units; null is not known or does not exist."""

    path: Annotated[str, meaning("the directory of the logs")]
    verification: Annotated[
        Text, meaning("whether the benchmark is MLPerf's, and whether the result is verified")
    ] = None
    grown_to: Annotated[
        Amount, meaning("half width of the interval at which a set of --until ends, as a fraction")
    ] = None
    grown_after: Annotated[
        Whole, meaning("runs after which it was that narrow; null where it was not, or not asked")
    ] = None
    no_interval_reason: Annotated[Text, meaning("why a score has no interval")] = None
    samples_to_converge: Annotated[SmoothedSamples, meaning("geometric mean over the runs that converged")] = None
    samples_cv: Annotated[Amount, meaning("coefficient of variation of samples_to_converge")] = None
    samples_step: Annotated[
        Amount, meaning("samples between two evaluations, as a fraction of samples_to_converge")
    ] = None
    samples_to_converge_smoothed: Annotated[
        SmoothedSamples, meaning("where a line through the last evaluations meets the target; not scored")
    ] = None
    smoothed_cv: Annotated[Amount, meaning("coefficient of variation of samples_to_converge_smoothed")] = None
    speed_cv: Annotated[
        Amount, meaning("coefficient of variation of samples/s, with evaluations or without, whichever varies less")
    ] = None
    outlier: Annotated[Text, meaning("runs that were far slower or faster than all others, null where none was")] = (
        None
    )
    overhead_s: Annotated[Seconds, meaning("geometric mean over the runs that converged")] = None
    overhead_cv: Annotated[Amount, meaning("coefficient of variation of overhead_s")] = None
    overhead_ratio: Annotated[Amount, meaning("time to train over training time, geometric mean")] = None
    overhead_ratio_cv: Annotated[Amount, meaning("coefficient of variation of overhead_ratio")] = None
    open_final_quality: Annotated[
        Number, meaning("geometric mean of the final quality, which an Open result must report; null in Closed")
    ] = None
    rcp_reason: Annotated[Text, meaning("what the test against reference convergence points found")] = None
    energy_j: Annotated[
        Joules, meaning("measured: mean of the runs that converged; null unless all of them have it")
    ] = None
    energy_per_sample_j: Annotated[Joules, meaning("likewise, over the samples that they took")] = None
    energy_source: Annotated[Text, meaning("what measured it")] = None
    price_per_hour: Annotated[Amount, meaning("of the system, in any currency, as it was given")] = None
    cost_to_train: Annotated[Amount, meaning("Olympic mean at that price")] = None
    runs: tuple[RunRow, ...]


class ScoreDocument(Row, kw_only=True, frozen=True):
    """What `score --format json` prints: every set that was scored."""

    schema_version: Literal[2] = 2
    scores: tuple[ScoreRecord, ...]


class BesideRow(Row, kw_only=True, frozen=True):
    """A set held against a reference system that measured alike."""

    system: str
    machine: Annotated[str, meaning("processor or accelerator, cores and threads of the system")]
    told: Literal["faster", "slower", "about as fast", "not told"]
    ratio: Annotated[Amount, meaning("samples/s here over there; null unless faster or slower beyond the tolerance")]
    tolerance: Annotated[float, meaning("what drift may make between machines and hours, as a fraction")]
    notes: Annotated[tuple[str, ...], meaning("what differs besides")]


class RunDocument(ScoreRecord, kw_only=True, frozen=True):
    """What `run --format json` prints of a set that it has completed: where it is, and its score."""

    schema_version: Literal[2] = 2
    kind: Literal["training"] = "training"
    folder: str
    report: Annotated[str, meaning("the page")]
    beside: Annotated[tuple[BesideRow, ...], meaning("each known reference system that measured alike")] = ()


class MeasurementDocument(Row, kw_only=True, frozen=True):
    """What a verb prints of a measurement with `--format json`: where it is, and what every process found.

    The mean is geometric where ratios are compared.
    """

    schema_version: Literal[2] = 2
    kind: str
    folder: str
    file: str
    benchmark: Text
    system: Text
    options: Annotated[dict[str, int], meaning("what was asked, such as num_steps")]
    quantity: str
    unit: str
    values: Annotated[tuple[float, ...], Meta(min_length=1)]
    mean: Number
    low: Annotated[Number, meaning("lower end of the interval of the mean")]
    high: Annotated[Number, meaning("upper end of the interval of the mean")]
    confidence: Share
    smallest_apart: Annotated[
        Amount,
        meaning(
            "smallest true difference found in 80 % of cases in a later measurement, as a fraction, or in the unit "
            "where differences are compared; null for too few processes, or where none would be found"
        ),
    ]
    smallest_in_turns: Annotated[
        Amount, meaning("likewise, where the processes of both take turns with shared seeds, if this hour is usual")
    ]
    smallest_in_turns_low: Annotated[Amount, meaning("between this and the next it lies in 95 % of sets")] = None
    smallest_in_turns_high: Annotated[Amount, meaning("by how badly so few processes know their spread")] = None
    energy_j: Annotated[Joules, meaning("measured: mean of the processes; null unless all of them have it")] = None
