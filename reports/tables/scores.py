"""Defines the JSON documents of the commands `score` and `run`; the package `reports.views` makes and shows them.

A result set has the fields of a row of `report --format json`, followed by fields that only a score has; each of its
runs is a row as in the table of runs.
"""

from typing import Annotated, Literal

from msgspec import Meta

from reports.tables.records import RunRow, SetRow
from rules.records.rows import Amount, Joules, Number, Row, Seconds, Share, SmoothedSamples, Text, Whole, meaning


class ScoreRecord(SetRow, kw_only=True, frozen=True):
    """Score of one result set in SI units; null means unknown or absent."""

    path: Annotated[str, meaning("directory of the logs")]
    verification: Annotated[
        Text, meaning("whether the benchmark is MLPerf's, and whether the result is verified")
    ] = None
    grown_to: Annotated[
        Amount, meaning("half width of the interval at which a set with --until ends, as a fraction")
    ] = None
    grown_after: Annotated[
        Whole, meaning("number of runs after which the interval was as narrow as grown_to; null where it was not")
    ] = None
    no_interval_reason: Annotated[Text, meaning("reason why a score has no interval")] = None
    samples_to_converge: Annotated[
        SmoothedSamples, meaning("geometric mean of samples to converge over the runs that converged")
    ] = None
    samples_cv: Annotated[Amount, meaning("coefficient of variation of samples_to_converge")] = None
    samples_step: Annotated[
        Amount, meaning("samples between two evaluations, as a fraction of samples_to_converge")
    ] = None
    samples_to_converge_smoothed: Annotated[
        SmoothedSamples,
        meaning("samples to converge, interpolated by a line through the last evaluations; not scored"),
    ] = None
    smoothed_cv: Annotated[Amount, meaning("coefficient of variation of samples_to_converge_smoothed")] = None
    speed_cv: Annotated[
        Amount, meaning("coefficient of variation of samples/s, with evaluations or without, whichever varies less")
    ] = None
    outlier: Annotated[Text, meaning("runs that were far slower or faster than all others, null where none was")] = (
        None
    )
    overhead_s: Annotated[Seconds, meaning("geometric mean of overhead over the runs that converged")] = None
    overhead_cv: Annotated[Amount, meaning("coefficient of variation of overhead_s")] = None
    overhead_ratio: Annotated[Amount, meaning("geometric mean of time to train over training time")] = None
    overhead_ratio_cv: Annotated[Amount, meaning("coefficient of variation of overhead_ratio")] = None
    open_final_quality: Annotated[
        Number, meaning("geometric mean of the final quality, which an Open result must report; null in Closed")
    ] = None
    rcp_reason: Annotated[Text, meaning("finding of the test against reference convergence points")] = None
    energy_j: Annotated[
        Joules, meaning("mean measured energy of the runs that converged; null unless all of them have it")
    ] = None
    energy_per_sample_j: Annotated[
        Joules, meaning("mean measured energy over mean samples of the runs that converged")
    ] = None
    energy_source: Annotated[Text, meaning("counter or command that measured the energy")] = None
    price_per_hour: Annotated[Amount, meaning("price of the system per hour, as given, in any currency")] = None
    cost_to_train: Annotated[Amount, meaning("cost of the Olympic mean time at price_per_hour")] = None
    runs: tuple[RunRow, ...]


class ScoreDocument(Row, kw_only=True, frozen=True):
    """Document that `score --format json` prints: the score of every result set."""

    schema_version: Literal[1] = 1
    scores: tuple[ScoreRecord, ...]


class BesideRow(Row, kw_only=True, frozen=True):
    """Comparison of a result set's speed with a reference system that measured the same configuration."""

    system: str
    machine: Annotated[str, meaning("processor or accelerator, cores and threads of the system")]
    told: Literal["faster", "slower", "about as fast", "not told"]
    ratio: Annotated[Amount, meaning("samples/s of the set over samples/s of the system; null within the tolerance")]
    tolerance: Annotated[float, meaning("allowance for drift between machines and hours, as a fraction")]
    notes: Annotated[tuple[str, ...], meaning("further differences")]


class RunDocument(ScoreRecord, kw_only=True, frozen=True):
    """Document that `run --format json` prints for a completed result set: its folder and its score."""

    schema_version: Literal[1] = 1
    kind: Literal["training"] = "training"
    folder: str
    report: Annotated[str, meaning("file of the page")]
    beside: Annotated[
        tuple[BesideRow, ...], meaning("comparison with each known reference system that measured the same")
    ] = ()


class MeasurementDocument(Row, kw_only=True, frozen=True):
    """Document that a command prints for a measurement with `--format json`: its files, and the value of every
    process.

    The mean over processes is geometric where ratios are compared.
    """

    schema_version: Literal[1] = 1
    kind: str
    folder: str
    file: str
    benchmark: Text
    system: Text
    options: Annotated[dict[str, int], meaning("options of the measurement, such as num_steps")]
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
            "least difference from a later measurement that is detected with 80 % power, as a fraction, or in the "
            "unit where differences are compared; null for too few processes, or where no difference would be found"
        ),
    ]
    smallest_in_turns: Annotated[
        Amount,
        meaning(
            "least difference between two measurements, whose processes ran alternately with shared seeds, that is "
            "detected with 80 % power, if the system is usually as noisy as in this hour"
        ),
    ]
    smallest_in_turns_low: Annotated[
        Amount,
        meaning(
            "lower end of the 95 % interval of smallest_in_turns, since few processes show their spread inexactly"
        ),
    ] = None
    smallest_in_turns_high: Annotated[
        Amount,
        meaning(
            "upper end of the 95 % interval of smallest_in_turns, since few processes show their spread inexactly"
        ),
    ] = None
    energy_j: Annotated[Joules, meaning("mean measured energy of the processes; null unless all of them have it")] = (
        None
    )
