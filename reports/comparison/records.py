"""Fields of the documents of `compare`, `diff` and `versus` (JSON and CSV), and of the list of past run sets."""

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
FactorName = Annotated[str, meaning("name of a factor of the time to train, or kind of a measurement")]
Delta = Annotated[float, Meta(ge=-1, le=1)] | None
RunsNeeded = Annotated[int, Meta(ge=5, le=2**63 - 1)] | None


class FactorValues(Row, kw_only=True, frozen=True):
    """Comparison of a new result with the baseline in one quantity: the time to train, one of its factors (such as
    throughput), or the quantity of a measurement. Both results' values are means, in `unit`: geometric means where
    ratios are compared, and arithmetic means where differences are compared.

    `p_value`, `permutation_p` and `cliffs_delta` are shown, but verdicts do not use them. None means unknown.
    """

    name: FactorName = field(name="factor")
    unit: str
    num_base: Annotated[Count, meaning("number of runs of base that are compared")]
    num_new: Annotated[Count, meaning("number of runs of new that are compared")]
    base_value: Annotated[Positive, meaning("geometric mean of base, in the factor's unit")] = None
    new_value: Annotated[Positive, meaning("geometric mean of new, in the factor's unit")] = None
    ratio: Annotated[Positive, meaning("value of new over value of base")] = None
    difference: Annotated[
        float | None,
        meaning("value of new minus value of base, where differences are compared; intervals are then of it"),
    ] = None
    p_value: Annotated[Share, meaning("two-sided p-value of no difference, by Student's t")] = None
    permutation_p: Annotated[Share, meaning("two-sided p-value of no difference, by a permutation test")] = None
    cliffs_delta: Annotated[
        Delta, meaning("share of pairs of runs in which new is larger, minus the share in which it is smaller")
    ] = None
    verdict: Verdict = "inconclusive"
    runs_needed: Annotated[
        RunsNeeded,
        meaning("runs per side that decide an inconclusive verdict with 80 % power; missing where no number does"),
    ] = None
    runs_needed_low: Annotated[
        RunsNeeded, meaning("as runs_needed, for the smallest spread that the runs allow for")
    ] = None
    runs_needed_high: Annotated[
        RunsNeeded, meaning("as runs_needed, for the largest spread that runs allow for; missing above 1,000 runs")
    ] = None
    smallest_shown: Annotated[
        Amount, meaning("detectable difference (80 % power) of such a comparison, in the unit of min_effect")
    ] = None
    drift_tolerance: Annotated[
        Amount,
        meaning(
            "allowance for drift of the ratio between sets measured one after the other, as a fraction: a difference "
            "must exceed it; missing where runs were made alternately, and for what does not drift"
        ),
    ] = None
    is_identical: Annotated[bool, meaning("whether the qualities of every pair agree bit for bit")] = False
    reason: Annotated[Text, meaning("reason why there is no verdict, other than a wide interval")] = None
    time_ratio: Annotated[
        Positive,
        meaning("effect of the factor on the time to train, as a ratio above 1 where slower; factors multiply"),
    ] = None


class FactorComparison(FactorValues, kw_only=True, frozen=True):
    """Comparison of two results in one quantity (such as time to train or throughput), with confidence intervals of
    the ratio or of the difference."""

    interval: Interval | None = None
    adjusted_interval: Interval | None = None
    """Interval of the ratio (or difference) at the significance level that Holm's method sets. This interval and the
    drift tolerance decide the verdict."""

    @property
    def shown_interval(self) -> Interval | None:
        """Interval of the ratio (or difference) to print: the adjusted interval, which decides the verdict, if there
        is one; else the unadjusted one."""
        return self.adjusted_interval or self.interval

    @property
    def time_interval(self) -> Interval | None:
        """Printed confidence interval, as a ratio of times. The interval of a throughput is inverted for this, since
        it is a ratio of speeds."""
        shown = self.shown_interval
        if shown is None or self.name != "throughput":
            return shown
        return replace(shown, low=1.0 / shown.high, high=1.0 / shown.low)


class FactorRow(FactorValues, kw_only=True, frozen=True):
    """Comparison of two results in one quantity (such as time to train or throughput) as a row of JSON, CSV and data
    frames, with the ends of its intervals."""

    interval_low: Annotated[
        Number, meaning("lower end of the interval of the ratio or difference, at the confidence asked for")
    ] = None
    interval_high: Annotated[
        Number, meaning("upper end of the interval of the ratio or difference, at the confidence asked for")
    ] = None
    interval_confidence: Annotated[Share, meaning("confidence of interval_low and interval_high")] = None
    interval_method: Annotated[Text, meaning("method of the interval and of the adjusted interval")] = None
    adjusted_low: Annotated[
        Number,
        meaning(
            "lower end of the interval at Holm's level within the family of tests, which decides the verdict "
            "together with the allowance for drift"
        ),
    ] = None
    adjusted_high: Annotated[
        Number, meaning("upper end of the interval at Holm's level within the family of tests")
    ] = None
    adjusted_confidence: Annotated[Share, meaning("confidence of adjusted_low and adjusted_high")] = None


class Change(Row, kw_only=True, frozen=True):
    """Setting or piece of software that differs between two results; its value is null for a result that lacks it."""

    name: str
    base: Text
    new: Text


class ComparedSides(Row, kw_only=True, frozen=True):
    """Comparison of a new result with the baseline as a whole. `refusal` is the reason why the two may not be
    compared; a refused comparison has no factors.

    `status` says who owns the baseline's benchmark: MLPerf, dlrmbench, the user, or unknown. `num_shared_seeds`
    counts the runs of one result that have a partner of equal seed in the other result.
    """

    base: str
    new: str
    refusal: Annotated[Text, meaning("reason why the sides may not be compared; there are no factors then")]
    status: Literal["own", "official", "unknown"]
    min_effect: Annotated[
        float,
        Meta(ge=0),
        meaning(
            "smallest effect of interest (equivalence margin), as a fraction; in the factor's unit where differences "
            "are compared"
        ),
    ]
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    is_cross_system: bool
    is_paired: Annotated[bool, meaning("whether runs of equal seeds were compared two by two")] = False
    num_shared_seeds: Count = 0
    is_interleaved: Annotated[
        bool, meaning("whether the sides' runs were made alternately, so that drift affects both alike")
    ] = False
    is_one_after_the_other: Annotated[
        bool,
        meaning(
            "whether the sides were measured one after the other and the quantity drifts: differences within the "
            "allowance for drift may be drift"
        ),
    ] = False
    repeated_sets: Annotated[
        tuple[str, ...],
        meaning(
            "repeated sets that show how far the system drifts; without any, 20 % is assumed, or runs were made "
            "alternately"
        ),
    ] = ()
    num_base: Annotated[Count, meaning("number of all runs of base")] = field(name="num_base_runs")
    num_new: Annotated[Count, meaning("number of all runs of new")] = field(name="num_new_runs")
    num_base_converged: Count
    num_new_converged: Count
    converged_p: Annotated[
        Share, meaning("p-value of Fisher's exact test of the shares of converged runs; null where all converged")
    ] = None
    olympic_ratio: Positive = None
    score_ratio: Positive = None
    verdict: Annotated[
        Verdict,
        meaning(
            "verdict on the time to train, or on another measured quantity; where significantly fewer runs of one "
            "side reach the target, that decides"
        ),
    ] = field(default="inconclusive", name="overall_verdict")
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    invalid_sides: Annotated[tuple[Literal["base", "new"], ...], meaning("sides that the rules reject")] = ()
    is_regression: Annotated[
        bool,
        meaning(
            "whether new is slower as a whole, or inconclusive as a whole with a slower factor while neither "
            "convergence nor throughput is faster; a slower overhead alone does not count where higher throughput "
            "saves more time"
        ),
    ] = False
    measure_better: Annotated[
        Text, meaning("command that measures the sides alternately; missing where they were, or no command does")
    ] = None


class Comparison(ComparedSides, kw_only=True, frozen=True):
    """Comparison of a new result with the baseline. `factors` are the comparisons in each quantity (time to train and
    its factors, or the quantity of a measurement); it is empty if the comparison is refused."""

    factors: tuple[FactorComparison, ...] = ()
    drift_source: str = ""
    """Source of the drift tolerance, and the times of the repeated result sets that show drift. Empty where the runs
    of the compared results were made alternately."""
    drift: str = ""
    """Drift tolerance of the time to train (or of the measured quantity) with its source, in words; empty where no
    drift tolerance applies."""
    disturbed_sides: tuple[Literal["base", "new"], ...] = ()
    """Which of the two compared results, base and new, were measured on a noisy machine, as their records show."""
    is_regression_excluded: bool = False
    """Whether the new result is shown not to be slower, or worse, by as much as the smallest effect of interest
    (non-inferiority test)."""
    pairs_to_tell: tuple[int | None, ...] = ()
    """Numbers of pairs of runs, made alternately, that should suffice to exclude a regression that is not excluded
    yet; None for more than 1,000 pairs. There is one number if the results were measured alternately, and two
    otherwise: for the time to train, and for the throughput alone, which is enough if runs of equal seed converge
    alike."""

    def factor(self, name: str) -> FactorComparison | None:
        return next((factor for factor in self.factors if factor.name == name), None)

    @property
    def whole(self) -> FactorComparison | None:
        """Comparison in the time to train, of which the other compared quantities are factors. For a measurement,
        comparison in its only quantity. None for a refused comparison."""
        return self.factors[0] if self.factors else None


class ComparisonMember(ComparedSides, kw_only=True, frozen=True):
    """Comparison of two results in the JSON export, with the sentence that sums it up."""

    factors: tuple[FactorRow, ...]
    sentence: str


class ComparisonDocument(Row, kw_only=True, frozen=True):
    """Document that `compare --format json` prints: every comparison of two results. Ratios are finite; null means
    unknown."""

    schema_version: Literal[1] = 1
    comparisons: tuple[ComparisonMember, ...]


Side = Literal["a", "b"]
SettingSection = Literal["configuration", "software", "system", "logged", "rules"]


class Setting(Row, kw_only=True, frozen=True):
    """Value of a configuration's setting as text, and the source of the value (default, file, option …)."""

    value: str
    source: str


class SettingRow(Row, kw_only=True, frozen=True):
    """Setting of a configuration, with its value in both of two compared results; null for a result that lacks it."""

    section: SettingSection
    name: str
    a: Setting | None
    b: Setting | None

    @property
    def is_identical(self) -> bool:
        return self.a is not None and self.b is not None and self.a.value == self.b.value


class UnknownSection(Row, kw_only=True, frozen=True):
    """Section of settings that only one of two compared results has; the section is therefore not compared."""

    side: Side
    section: SettingSection


class DifferenceDocument(Row, kw_only=True, frozen=True):
    """Document that `diff --format json` prints: settings, software and system of two configurations, differing and
    equal."""

    schema_version: Literal[1] = 1
    a: str
    b: str
    differing: tuple[SettingRow, ...]
    identical: tuple[SettingRow, ...]
    missing: tuple[UnknownSection, ...]


class PastSet(Row, kw_only=True, frozen=True):
    """Run set made in the past. Null means unknown; `problem` says what is wrong with a broken set, or why it has no
    score."""

    folder: str
    kind: Annotated[str, meaning("training, broken, or the kind of measurement, such as throughput")]
    created_utc: Text = None
    benchmark: Text = None
    name: Annotated[Text, meaning("name that --name gave in place of the digest")] = None
    config_digest: Annotated[Text, meaning("digest of all resolved values, as in the folder's name")] = None
    system: Text = None
    outcome: Annotated[VerdictOutcome | None, meaning("verdict of the rules; missing where nothing is judged")] = None
    num_runs: Whole = None
    num_done: Whole = None
    num_converged: Whole = None
    score_s: Positive = None
    throughput_samples_per_s: Annotated[
        Positive, meaning("geometric mean over runs that converged, or over the processes of a measurement")
    ] = None
    quantity: Annotated[Text, meaning("quantity that a measurement compares; missing for training")] = None
    unit: Annotated[Text, meaning("unit of `mean`")] = None
    mean: Annotated[
        Number, meaning("mean over the processes of a measurement; geometric where ratios are compared")
    ] = None
    harness_version: Text = None
    commit: Annotated[
        Text,
        meaning("commit, first 12 characters, with + where files changed; of several, with their numbers of runs"),
    ] = None
    code: Annotated[Text, meaning("first 12 characters of the digest of the code that began the set")] = None
    problem: Text = None


class PairDocument(Row, kw_only=True, frozen=True):
    """Document that `versus --format json` prints: the baseline and the new result, each by itself, and their
    comparison."""

    schema_version: Literal[1] = 1
    kind: Literal["pair"] = "pair"
    folder: str
    report: Annotated[str, meaning("file of the page of both sides")]
    scores: Annotated[tuple[RunDocument, ...], meaning("base and new, where they are sets of runs")]
    measurements: Annotated[
        tuple[MeasurementDocument, ...], meaning("base and new, where they are another kind of measurement")
    ]
    comparisons: tuple[ComparisonMember, ...]
