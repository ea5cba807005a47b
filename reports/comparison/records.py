"""What compare, diff and `run --beside` write as JSON and CSV, and rows of past sets, column by column."""

from dataclasses import replace
from typing import Annotated, Literal

from msgspec import Meta, field

from reports.statistics.intervals import Interval
from reports.statistics.ratios import Verdict
from reports.tables.scores import MeasurementDocument, RunDocument
from rules.checks.verdict import VerdictOutcome
from rules.records.codec import Count
from rules.records.rows import Amount, Number, Row, Share, Text, Whole, meaning

Positive = Annotated[float, Meta(gt=0)] | None
FactorName = Annotated[str, meaning("a factor of the time to train, or the kind of a measurement")]
Delta = Annotated[float, Meta(ge=-1, le=1)] | None
RunsNeeded = Annotated[int, Meta(ge=5, le=2**63 - 1)] | None


class FactorValues(Row, kw_only=True, frozen=True):
    """One factor of new against base. Values are geometric means in `unit`; on a scale of differences they are means.

    `p_value`, `permutation_p` and `cliffs_delta` are shown and decide nothing. None is not known.
    """

    name: FactorName = field(name="factor")
    unit: str
    num_base: Annotated[Count, meaning("runs of base that are compared")]
    num_new: Annotated[Count, meaning("runs of new that are compared")]
    base_value: Annotated[Positive, meaning("geometric mean of base, in the factor's unit")] = None
    new_value: Annotated[Positive, meaning("geometric mean of new, in the factor's unit")] = None
    ratio: Annotated[Positive, meaning("new over base")] = None
    difference: Annotated[
        float | None,
        meaning("new minus base, of what is compared by differences; the intervals are then the difference's"),
    ] = None
    p_value: Annotated[Share, meaning("Student's t")] = None
    permutation_p: Share = None
    cliffs_delta: Annotated[
        Delta, meaning("share of pairs of runs in which new is larger, less the share in which it is smaller")
    ] = None
    verdict: Verdict = "inconclusive"
    runs_needed: Annotated[
        RunsNeeded,
        meaning(
            "runs per side that settle an inconclusive verdict with 80 % probability; missing where none is promised"
        ),
    ] = None
    runs_needed_low: Annotated[
        RunsNeeded, meaning("as runs_needed, by the smallest spread that the runs allow for")
    ] = None
    runs_needed_high: Annotated[
        RunsNeeded, meaning("as runs_needed, by the largest such spread; missing where that is more than 1,000 runs")
    ] = None
    smallest_shown: Annotated[
        Amount, meaning("smallest true difference that 80 % of such comparisons show, as min_effect has it")
    ] = None
    band: Annotated[
        Amount,
        meaning(
            "how far drift may move the ratio between sets that were measured one after the other, as a fraction: a "
            "difference must exceed it; missing where runs took turns, and of what does not drift"
        ),
    ] = None
    is_identical: Annotated[bool, meaning("whether the qualities of every pair agree bit for bit")] = False
    reason: Annotated[Text, meaning("why there is no verdict, where more is wrong than a wide interval")] = None
    time_ratio: Annotated[
        Positive, meaning("the factor's effect on the time, above 1 is slower; their product is the time to train's")
    ] = None


class FactorComparison(FactorValues, kw_only=True, frozen=True):
    """A factor with its intervals: of the ratio, or of the difference."""

    interval: Interval | None = None
    adjusted_interval: Interval | None = None
    """The interval at Holm's level within the family; the verdict goes by it, and by the drift tolerance."""

    @property
    def shown_interval(self) -> Interval | None:
        """The interval that readers see: the one that decides, else the one that nothing is decided by."""
        return self.adjusted_interval or self.interval

    @property
    def time_interval(self) -> Interval | None:
        """`shown_interval` as a factor on the time."""
        shown = self.shown_interval
        if shown is None or self.name != "throughput":
            return shown
        return replace(shown, low=1.0 / shown.high, high=1.0 / shown.low)


class FactorRow(FactorValues, kw_only=True, frozen=True):
    """A factor in JSON, CSV and frames, with its intervals by their ends."""

    interval_low: Annotated[Number, meaning("of the ratio or difference, at the confidence asked for")] = None
    interval_high: Annotated[Number, meaning("likewise")] = None
    interval_confidence: Annotated[Share, meaning("that confidence")] = None
    interval_method: Annotated[Text, meaning("how it and the adjusted one are made")] = None
    adjusted_low: Annotated[
        Number, meaning("at Holm's level within the family; the verdict goes by it, and by the drift tolerance")
    ] = None
    adjusted_high: Annotated[Number, meaning("likewise")] = None
    adjusted_confidence: Annotated[Share, meaning("that level's confidence")] = None


class Change(Row, kw_only=True, frozen=True):
    """A setting or a piece of software that differs; null is not said by that side."""

    name: str
    base: Text
    new: Text


class ComparedSides(Row, kw_only=True, frozen=True):
    """New against base, as a whole. `refusal` says why they may not be compared; there are no factors then.

    `status` is base's; `num_shared_seeds` counts runs that have a partner.
    """

    base: str
    new: str
    refusal: Annotated[Text, meaning("why the two may not be compared; there are no factors then")]
    status: Literal["own", "official", "unknown"]
    min_effect: Annotated[
        float,
        Meta(ge=0),
        meaning("smallest effect of interest, as a fraction; in the factor's unit where that has no ratio"),
    ]
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    is_cross_system: bool
    is_paired: Annotated[bool, meaning("whether runs of equal seeds were compared two by two")] = False
    num_shared_seeds: Count = 0
    is_interleaved: Annotated[
        bool, meaning("whether the sides' runs took turns, so that drift of the system meets both alike")
    ] = False
    is_one_after_the_other: Annotated[
        bool,
        meaning(
            "whether they did not, and what is compared drifts: differences within the drift tolerance may be drift"
        ),
    ] = False
    band_sets: Annotated[
        tuple[str, ...],
        meaning("repeated sets that show how far the system drifts; none: 20 % is assumed, or runs took turns"),
    ] = ()
    num_base: Annotated[Count, meaning("all runs of base")] = field(name="num_base_runs")
    num_new: Annotated[Count, meaning("all runs of new")] = field(name="num_new_runs")
    num_base_converged: Count
    num_new_converged: Count
    converged_p: Annotated[
        Share, meaning("Fisher's exact test of the shares of runs that reached the target; null where all did")
    ] = None
    olympic_ratio: Positive = None
    score_ratio: Positive = None
    verdict: Annotated[
        Verdict,
        meaning(
            "of the time to train, or of what else was measured, unless significantly fewer runs reach the target on "
            "one side"
        ),
    ] = field(default="inconclusive", name="overall_verdict")
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    invalid_sides: Annotated[tuple[Literal["base", "new"], ...], meaning("sides that the rules reject")] = ()
    is_regression: Annotated[
        bool,
        meaning(
            "slower as a whole, or inconclusive as a whole with a slower factor while neither convergence nor "
            "throughput is faster"
        ),
    ] = False
    measure_better: Annotated[
        Text, meaning("the command that would measure the two in turns; missing where they are, or none does")
    ] = None


class Comparison(ComparedSides, kw_only=True, frozen=True):
    """New against base, with the factors of the difference; none where it is refused."""

    factors: tuple[FactorComparison, ...] = ()
    band_words: str = ""
    """How the drift tolerance is known, and of when the sets are that show it; empty where runs took turns."""
    drift: str = ""
    """How far drift may have moved the whole, and how that is known; empty where it has not."""
    disturbed_sides: tuple[Literal["base", "new"], ...] = ()
    """The sides that something disturbed while they were measured, as their records say."""
    is_regression_excluded: bool = False
    """Whether the whole is certainly not slower, or worse, by the smallest effect or more."""
    pairs_to_tell: tuple[int | None, ...] = ()
    """Where that is not shown, how many pairs in turns should tell; None where more than 1,000 are needed. Of a time
    that drifts the second is that of the throughput, which is enough where equal seeds converge alike."""

    def factor(self, name: str) -> FactorComparison | None:
        return next((factor for factor in self.factors if factor.name == name), None)

    @property
    def whole(self) -> FactorComparison | None:
        """The factor that is explained by the others: time to train, or the throughput where only that is known."""
        return self.factors[0] if self.factors else None


class ComparisonMember(ComparedSides, kw_only=True, frozen=True):
    """A comparison in the JSON export, with its sentence."""

    factors: tuple[FactorRow, ...]
    sentence: str


class ComparisonDocument(Row, kw_only=True, frozen=True):
    """What `compare --format json` prints: every comparison. An infinite ratio does not occur; null is not known."""

    schema_version: Literal[2] = 2
    comparisons: tuple[ComparisonMember, ...]


Side = Literal["a", "b"]
SettingSection = Literal["configuration", "software", "system", "logged", "rules"]


class Setting(Row, kw_only=True, frozen=True):
    """One value as text, and where it comes from."""

    value: str
    source: str


class SettingRow(Row, kw_only=True, frozen=True):
    """One name on both sides; null where a side does not say it."""

    section: SettingSection
    name: str
    a: Setting | None
    b: Setting | None

    @property
    def is_identical(self) -> bool:
        return self.a is not None and self.b is not None and self.a.value == self.b.value


class UnknownSection(Row, kw_only=True, frozen=True):
    """A section that a side says nothing of, and that is therefore not compared."""

    side: Side
    section: SettingSection


class DifferenceDocument(Row, kw_only=True, frozen=True):
    """What `diff --format json` prints: what two configurations have set or found differently."""

    schema_version: Literal[1] = 1
    a: str
    b: str
    differing: tuple[SettingRow, ...]
    identical: tuple[SettingRow, ...]
    untold: tuple[UnknownSection, ...]


class PastSet(Row, kw_only=True, frozen=True):
    """One run set. Null is not known; `problem` says what is wrong with a broken one, or why there is no score."""

    folder: str
    kind: Annotated[str, meaning("training, broken, or the kind of measurement, such as throughput")]
    created_utc: Text = None
    benchmark: Text = None
    name: Annotated[Text, meaning("what --name gave instead of the digest")] = None
    config_digest: Annotated[Text, meaning("of all resolved values, as in the folder's name")] = None
    system: Text = None
    outcome: Annotated[VerdictOutcome | None, meaning("the verdict; missing where nothing is judged")] = None
    num_runs: Whole = None
    num_done: Whole = None
    num_converged: Whole = None
    score_s: Positive = None
    throughput_samples_per_s: Annotated[
        Positive, meaning("geometric mean over runs that converged, or over the processes of a measurement")
    ] = None
    quantity: Annotated[Text, meaning("what a measurement's kind compares; missing for training")] = None
    unit: Annotated[Text, meaning("of `mean`")] = None
    mean: Annotated[Number, meaning("over the processes of a measurement; geometric where ratios are compared")] = (
        None
    )
    harness_version: Text = None
    commit: Annotated[
        Text, meaning("first 12 characters; a + says that files were changed; of several, how many runs each made")
    ] = None
    code: Annotated[Text, meaning("first 12 characters of the digest of the code that began the set")] = None
    problem: Text = None


class PairDocument(Row, kw_only=True, frozen=True):
    """What `run --beside --format json` prints of two sides: each by itself, and new against base."""

    schema_version: Literal[2] = 2
    kind: Literal["pair"] = "pair"
    folder: str
    report: Annotated[str, meaning("the page of both")]
    scores: Annotated[tuple[RunDocument, ...], meaning("base and new, where they are sets of runs")]
    measurements: Annotated[tuple[MeasurementDocument, ...], meaning("base and new, of another kind of measurement")]
    comparisons: tuple[ComparisonMember, ...]
