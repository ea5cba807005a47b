"""What `score` and `run` write as JSON, member by member; `reports.views` makes and shows it."""

from typing import Annotated, Literal

from msgspec import Meta

from reports.tables.records import Amount, Number, Row, Seconds, Share, Tally, Text, Whole, meaning
from rules.checks.verdict import VerdictOutcome


class FactorMean(Row, kw_only=True, frozen=True):
    """A factor over the runs that converged."""

    geometric_mean: float
    coefficient_of_variation: Amount


class ScoredRun(Row, kw_only=True, frozen=True):
    """One run of a set."""

    file: str
    converged: bool
    time_to_train_s: Number
    seed: Whole


class SmallestDifference(Row, kw_only=True, frozen=True):
    """The smallest true difference that two sets like this one show in 80 % of cases, as a fraction; null if none."""

    later_set: Annotated[Amount, meaning("of sets measured one after the other, drift of the system included")]
    in_turns: Annotated[Amount, meaning("of pairs of runs that take turns with shared seeds and need equal samples")]


class SpreadShares(Row, kw_only=True, frozen=True):
    """What the variance of log time to train is made of; the shares add up to 1, and one may be negative."""

    convergence: float
    speed: float
    overhead: float


class NoiseRecord(Row, kw_only=True, frozen=True):
    """What the runs that converged can show; null where they are too few, or where no difference would be found."""

    num_runs: Annotated[int, Meta(ge=0)]
    shares: SpreadShares | None
    time_to_train: SmallestDifference | None
    throughput: SmallestDifference | None


class ScoreRecord(Row, kw_only=True, frozen=True):
    """One set's score in SI units; null is not known or does not exist."""

    path: Annotated[str, meaning("the directory of the logs")]
    benchmark: Text
    round: Text
    standing: Annotated[Text, meaning("whether the benchmark is MLPerf's, and what is known of the verification")]
    verdict: VerdictOutcome | None
    num_errors: Tally
    num_runs: Tally
    num_runs_required: Tally
    num_converged: Tally
    score_s: Annotated[Seconds, meaning("Olympic mean, normalised by reference convergence points")]
    olympic_mean_s: Seconds
    interval_low_s: Annotated[Number, meaning("of the geometric mean of all runs")]
    interval_high_s: Number
    interval_confidence: Annotated[Share, meaning("share of sets whose interval holds that mean, at least")]
    interval_coverage: Annotated[Share, meaning("that share exactly; null where it depends on the times")]
    grown_to: Annotated[Amount, meaning("half width of the interval at which a set of --until ends, as a fraction")]
    grown_after: Annotated[Whole, meaning("runs after which it was that narrow; null where it was not, or not asked")]
    no_interval_reason: Text
    dropped: tuple[str, ...]
    samples_to_converge: FactorMean | None
    samples_to_converge_smoothed: Annotated[
        FactorMean | None, meaning("where a line through the last evaluations meets the target; not scored")
    ]
    throughput_samples_per_s: FactorMean | None
    overhead_s: FactorMean | None
    overhead_ratio: Annotated[FactorMean | None, meaning("time to train over training time")]
    rcp_outcome: Text
    rcp_reason: Text
    rcp_factor: Number
    no_score_reason: Text
    price_per_hour: Amount
    cost_to_train: Annotated[Amount, meaning("Olympic mean at that price")]
    runs: tuple[ScoredRun, ...]
    noise: NoiseRecord


class ScoreDocument(Row, kw_only=True, frozen=True):
    """What `score --format json` prints: every set that was scored."""

    schema_version: Literal[1] = 1
    scores: tuple[ScoreRecord, ...]


class RunDocument(ScoreRecord, kw_only=True, frozen=True):
    """What `run --format json` prints of a set that it has completed: where it is, and its score."""

    schema_version: Literal[1] = 1
    kind: Literal["runs"] = "runs"
    folder: str
    report: Annotated[str, meaning("the page")]
    system: str


class MeasurementDocument(Row, kw_only=True, frozen=True):
    """What `run` and `serve --format json` print of a measurement: where it is, and what every process found.

    The mean is geometric where ratios are compared.
    """

    schema_version: Literal[1] = 1
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
    interval_low: Number
    interval_high: Number
    interval_confidence: Share
    smallest_difference: Annotated[
        SmallestDifference | None, meaning("in the unit where differences are compared; null for too few processes")
    ]
