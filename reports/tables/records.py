"""What the tables and the JSON export hold, row by row: names, types, units and meanings, and what may be missing.

Names and meanings stay, and new ones go to the end: frames, CSV, Parquet, JSON and its schema are all made of these.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, defstruct

from rules.checks.rule import Severity
from rules.extensions import find_places, load_place
from rules.records.kinds import CORE_PLACES, find_record_type
from rules.records.measure import DetailTable
from rules.records.rows import (
    Amount,
    Bytes,
    Epoch,
    Epochs,
    Joules,
    Milliseconds,
    Moment,
    Number,
    Row,
    Samples,
    SamplesPerSecond,
    Seconds,
    Share,
    SmoothedSamples,
    Tally,
    Text,
    TrainedSamples,
    Whole,
    meaning,
)


class RunRow(Row, kw_only=True, frozen=True):
    """One run: with a log in its set, or an attempt that left no result."""

    benchmark: Annotated[Text, meaning("as the log names it")] = None
    benchmark_version: Annotated[Whole, meaning("of an own benchmark's definition")] = None
    division: Annotated[Text, meaning("closed or open")] = None
    run: Annotated[str, meaning("number of the run in its set, as in result_3.txt")]
    attempt: Annotated[Whole, meaning("number of the attempt whose record this is, from 0")] = None
    status: Annotated[
        Text, meaning("success, not_converged, interrupted, or what the record of an unfinished attempt says")
    ] = None
    counted: Annotated[
        Literal["yes", "dropped", "no", "no score"] | None,
        meaning("whether it counts in the score: dropped by Olympic scoring, no result, no score of the set"),
    ] = None
    reason: Annotated[Text, meaning("why it ended without reaching the target")] = None
    seed: Annotated[Whole, meaning("the run's random seed")] = None
    started_ms: Annotated[Milliseconds, meaning("moment of run_start")] = None
    time_to_train_s: Annotated[Seconds, meaning("run_start to run_stop, also of a run that missed the target")] = None
    train_s: Annotated[Seconds, meaning("time inside blocks of training")] = None
    eval_s: Annotated[Seconds, meaning("time inside evaluations")] = None
    overhead_s: Annotated[Seconds, meaning("time_to_train_s less train_s")] = None
    init_s: Annotated[Seconds, meaning("init_start to init_stop")] = None
    samples_to_converge: Annotated[TrainedSamples, meaning("trained until the last evaluation")] = None
    epochs_to_converge: Annotated[Epochs, meaning("the same, in passes over the training data")] = None
    throughput_samples_per_s: Annotated[SamplesPerSecond, meaning("samples_to_converge over train_s")] = None
    final_quality: Annotated[
        Number, meaning("of the last evaluation; the AUC, or what else the definition measures")
    ] = None
    quality_target: Annotated[Number, meaning("what final_quality must reach")] = None
    num_evaluations: Annotated[Tally, meaning("evaluations in the log")] = None
    global_batch_size: Annotated[Samples, meaning("samples per optimizer step, all ranks together")] = None
    learning_rate: Annotated[Number, meaning("opt_base_learning_rate")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("most resident memory of all processes together")] = None
    peak_device_bytes: Annotated[Bytes, meaning("most memory in use on the accelerator")] = None
    log_sha256: Annotated[Text, meaning("digest of the log's bytes")] = None
    path: Annotated[str, meaning("the log's file, or the folder of an attempt that left none")]
    organization: Annotated[Text, meaning("submission_org of the log")] = None
    platform: Annotated[Text, meaning("submission_platform of the log")] = None
    train_samples: Annotated[Samples, meaning("samples in the training data")] = None
    eval_samples: Annotated[Samples, meaning("samples in the evaluation data")] = None
    energy_j: Annotated[Joules, meaning("of the timed part, all ranks, as far as measured; once of rank 0 alone")] = (
        None
    )
    samples_to_converge_smoothed: Annotated[
        SmoothedSamples, meaning("where a line through the last evaluations meets the target; not scored")
    ] = None


class SetRow(Row, kw_only=True, frozen=True):
    """One configuration: a result set with its verdict, its score and the means of its runs."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    benchmark: Annotated[Text, meaning("as the logs name it")] = None
    benchmark_version: Annotated[Whole, meaning("of an own benchmark's definition")] = None
    status: Annotated[
        Literal["own", "official", "unknown"], meaning("whose definition the benchmark has; official is MLPerf's")
    ] = "unknown"
    division: Annotated[Text, meaning("closed or open")] = None
    system: Annotated[Text, meaning("the system's name")] = None
    outcome: Annotated[Literal["valid", "invalid", "incomplete"] | None, meaning("what the rules say of the set")] = (
        None
    )
    num_errors: Annotated[Tally, meaning("findings that make the set invalid")] = None
    num_warnings: Annotated[Tally, meaning("findings that do not")] = None
    num_runs: Annotated[Tally, meaning("runs with a result")] = None
    num_runs_required: Annotated[Tally, meaning("runs that a score takes")] = None
    num_converged: Annotated[Tally, meaning("runs that reached the target")] = None
    num_unfinished: Annotated[Tally, meaning("attempts that left no result")] = None
    score_s: Annotated[Seconds, meaning("Olympic mean, normalised by reference convergence points")] = None
    olympic_mean_s: Annotated[Seconds, meaning("mean time to train without the fastest and the slowest")] = None
    low_s: Annotated[Seconds, meaning("lower end of the interval of the geometric mean of all runs' times")] = None
    high_s: Annotated[Seconds, meaning("upper end of the interval of the geometric mean of all runs' times")] = None
    confidence: Annotated[Share, meaning("share of sets whose interval holds that mean, at least")] = None
    coverage: Annotated[Share, meaning("that share exactly; null where it depends on the times")] = None
    rcp_outcome: Annotated[Text, meaning("test against reference convergence points: passed, failed, missing")] = None
    rcp_factor: Annotated[Number, meaning("score_s over olympic_mean_s")] = None
    no_score_reason: Annotated[Text, meaning("why there is no score")] = None
    epochs_to_converge: Annotated[Epochs, meaning("geometric mean over the runs that converged")] = None
    epochs_cv: Annotated[Amount, meaning("coefficient of variation of epochs_to_converge")] = None
    throughput_samples_per_s: Annotated[SamplesPerSecond, meaning("geometric mean over the runs that converged")] = (
        None
    )
    throughput_cv: Annotated[Amount, meaning("coefficient of variation of throughput_samples_per_s")] = None
    quality_target: Annotated[Number, meaning("what a run's quality must reach")] = None
    final_quality: Annotated[Number, meaning("mean over the runs that converged")] = None
    global_batch_size: Annotated[Samples, meaning("of the first run")] = None
    learning_rate: Annotated[Number, meaning("of the first run")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("largest of all runs")] = None
    peak_device_bytes: Annotated[Bytes, meaning("largest of all runs")] = None
    definition_sha256: Annotated[Text, meaning("digest of the benchmark's definition")] = None
    dataset_sha256: Annotated[Text, meaning("digest of the data")] = None
    organization: Annotated[Text, meaning("who submitted it")] = None
    round: Annotated[Text, meaning("official round")] = None
    num_runs_dropped: Annotated[Tally, meaning("runs that Olympic scoring drops at each end")] = None
    convergence_share: Annotated[
        Number, meaning("of the variance of log time to train; below 0: works against it")
    ] = None
    speed_share: Annotated[Number, meaning("likewise")] = None
    overhead_share: Annotated[Number, meaning("likewise, of evaluation and overhead; the three add up to 1")] = None
    smallest_time_apart: Annotated[
        Amount,
        meaning("smallest true difference in time to train found in 80 % of cases in a later set, as a fraction"),
    ] = None
    smallest_time_in_turns: Annotated[
        Amount, meaning("likewise, where two sets' runs take turns with shared seeds, if this hour is usual")
    ] = None
    smallest_time_in_turns_low: Annotated[Amount, meaning("between this and the next it lies in 95 % of sets")] = None
    smallest_time_in_turns_high: Annotated[Amount, meaning("by how badly so few runs know their spread")] = None
    smallest_throughput_apart: Annotated[Amount, meaning("as smallest_time_apart, in throughput")] = None
    smallest_throughput_in_turns: Annotated[Amount, meaning("as smallest_time_in_turns, in throughput")] = None
    smallest_throughput_in_turns_low: Annotated[Amount, meaning("likewise")] = None
    smallest_throughput_in_turns_high: Annotated[Amount, meaning("likewise")] = None


class EvaluationRow(Row, kw_only=True, frozen=True):
    """One evaluation of one run."""

    run: Annotated[str, meaning("as in the table of runs")]
    evaluation: Annotated[Tally, meaning("number of the evaluation in its run, from 1")]
    epoch_num: Annotated[Epoch, meaning("passes over the training data, as logged")] = None
    samples_count: Annotated[Samples, meaning("samples trained, as logged")] = None
    elapsed_s: Annotated[Seconds, meaning("since run_start")] = None
    quality: Annotated[Number, meaning("eval_accuracy; the AUC, or what else the definition measures")] = None
    path: Annotated[str, meaning("the log's file")]


class FindingRow(Row, kw_only=True, frozen=True):
    """One broken rule at one place, of a set or of one of its logs."""

    code: Annotated[str, meaning("the rule's code, as `dlrmbench check --explain CODE` takes it")]
    title: Annotated[str, meaning("what the rule demands")]
    severity: Annotated[Severity, meaning("whether it makes the set invalid (error)")]
    message: Annotated[str, meaning("what is wrong")]
    path: Annotated[str, meaning("the file or folder that it concerns")]
    line_num: Annotated[Whole, meaning("line of the file, from 1; missing where it concerns the whole")] = None
    found: Annotated[Text, meaning("what is there")] = None
    expected: Annotated[Text, meaning("what should be there")] = None
    remedy: Annotated[str, meaning("what to do")]
    citation: Annotated[str, meaning("where the demand comes from")]


class MeasurementRow(Row, kw_only=True, frozen=True):
    """One process of a measurement, and the one quantity that its kind compares."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    kind: Annotated[str, meaning("throughput, profile, or another kind of measurement")]
    benchmark: Annotated[Text, meaning("the benchmark's name")] = None
    system: Annotated[Text, meaning("the system's name")] = None
    created_utc: Annotated[Moment, meaning("when the set began")] = None
    process: Annotated[Whole, meaning("number of the process in its measurement, from 0")]
    seed: Annotated[Whole, meaning("the process's random seed")] = None
    quantity: Annotated[str, meaning("what was measured")]
    value: Annotated[Number, meaning("how much of it, in `unit`")]
    unit: Annotated[str, meaning("of `value`")]
    scale: Annotated[Literal["ratio", "difference"], meaning("whether values are compared by ratio or by difference")]
    direction: Annotated[Literal["higher", "lower"], meaning("which is better")]
    energy_j: Annotated[Joules, meaning("of the timed part, all ranks, where it was measured")] = None
    path: Annotated[str, meaning("the measurement's file")]


class EvaluationLists(Row, kw_only=True, frozen=True):
    """The evaluations of a run, one list per quantity, all of one length."""

    epoch_num: tuple[Epoch, ...]
    samples_count: tuple[Samples, ...]
    elapsed_s: tuple[Seconds, ...]
    quality: tuple[Number, ...]


class RunMember(RunRow, kw_only=True, frozen=True):
    """A run in the JSON export, with its evaluations."""

    evaluations: EvaluationLists


_QUALITY_LIMITS = {
    "properties": {
        "final_quality": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "evaluations": {"properties": {"quality": {"items": {"minimum": 0, "maximum": 1}}}},
    }
}


class SetMember(SetRow, kw_only=True, frozen=True):
    """A configuration in the JSON export, with its runs: committed ones first, then attempts without a result."""

    runs: tuple[RunMember, ...]

    @property
    def is_defined(self) -> bool:
        """Whether its quality is known to be from 0 to 1: what a benchmark of unknown definition measures is not."""
        return self.status != "unknown"


class _ReportMembers(Row, kw_only=True, frozen=True):
    """What `report --format json` prints: configurations with runs and evaluations, and what was measured alone."""

    schema_version: Literal[1] = 1
    configurations: tuple[
        Annotated[
            SetMember,
            Meta(
                extra_json_schema={
                    "if": {"properties": {"status": {"enum": ["own", "official"]}}},
                    "then": {"allOf": [_QUALITY_LIMITS, {"properties": {"runs": {"items": _QUALITY_LIMITS}}}]},
                }
            ),
        ],
        ...,
    ]
    measurements: tuple[MeasurementRow, ...] = ()


DETAIL_TABLES: Mapping[str, DetailTable] = {
    **{table.name: table for kind in CORE_PLACES if (table := find_record_type(kind).DETAILS) is not None},
    **{name: load_place(place) for name, place in find_places("tables").items()},
}
"""The tables that kinds have of their own, by name: of what `measurements` says one quantity alone."""

if TYPE_CHECKING:
    ReportDocument = _ReportMembers
else:
    ReportDocument = defstruct(
        "ReportDocument",
        [(name, tuple[table.row, ...], ()) for name, table in DETAIL_TABLES.items()],
        bases=(_ReportMembers,),
        namespace={"__doc__": _ReportMembers.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def detail_rows(document: ReportDocument) -> Mapping[str, tuple[Row, ...]]:
    """Return the rows of the tables that kinds have of their own, by the table's name."""
    return {name: getattr(document, name) for name in DETAIL_TABLES}
