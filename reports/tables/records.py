"""Defines the rows of the tables and of the JSON export: the name, type, unit and meaning of each field, and whether
it may be missing.

Data frames, CSV, Parquet, JSON and its schema are made from these types. A change of a field would change all of
these, so names and meanings of fields stay as they are, and new fields are added at the end.
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
    """Table row of one run: one that left a log in its set, or an attempt that left no result."""

    benchmark: Annotated[Text, meaning("name of the benchmark, as the log has it")] = None
    benchmark_version: Annotated[Whole, meaning("version of an own benchmark's definition")] = None
    division: Annotated[Text, meaning("division, closed or open")] = None
    run: Annotated[str, meaning("number of the run in its set, as in result_3.txt")]
    attempt: Annotated[Whole, meaning("number of the run's recorded attempt, from 0")] = None
    status: Annotated[
        Text, meaning("success, not_converged, interrupted, or the recorded status of an unfinished attempt")
    ] = None
    counted: Annotated[
        Literal["yes", "dropped", "no", "no score"] | None,
        meaning(
            "whether the run counts in the score: yes, dropped by Olympic scoring, no result, or no score of the set"
        ),
    ] = None
    reason: Annotated[Text, meaning("reason why the run ended without reaching the target")] = None
    seed: Annotated[Whole, meaning("random seed of the run")] = None
    started_ms: Annotated[Milliseconds, meaning("time of run_start")] = None
    time_to_train_s: Annotated[
        Seconds, meaning("time from run_start to run_stop, also of a run that missed the target")
    ] = None
    train_s: Annotated[Seconds, meaning("time inside blocks of training")] = None
    eval_s: Annotated[Seconds, meaning("time inside evaluations")] = None
    overhead_s: Annotated[Seconds, meaning("time_to_train_s minus train_s")] = None
    init_s: Annotated[Seconds, meaning("time from init_start to init_stop")] = None
    samples_to_converge: Annotated[TrainedSamples, meaning("samples trained until the last evaluation")] = None
    epochs_to_converge: Annotated[Epochs, meaning("samples_to_converge as passes over the training data")] = None
    throughput_samples_per_s: Annotated[SamplesPerSecond, meaning("samples_to_converge over train_s")] = None
    final_quality: Annotated[
        Number, meaning("quality at the last evaluation: the AUC, or the definition's other metric")
    ] = None
    quality_target: Annotated[Number, meaning("quality target, which final_quality must meet")] = None
    num_evaluations: Annotated[Tally, meaning("number of evaluations in the log")] = None
    global_batch_size: Annotated[Samples, meaning("samples per optimizer step, all ranks together")] = None
    learning_rate: Annotated[Number, meaning("opt_base_learning_rate")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("peak resident memory of all processes together")] = None
    peak_device_bytes: Annotated[Bytes, meaning("peak memory in use on the accelerator")] = None
    log_sha256: Annotated[Text, meaning("SHA-256 digest of the log's bytes")] = None
    path: Annotated[str, meaning("file of the log, or folder of an attempt without a log")]
    organization: Annotated[Text, meaning("submission_org of the log")] = None
    platform: Annotated[Text, meaning("submission_platform of the log")] = None
    train_samples: Annotated[Samples, meaning("samples in the training data")] = None
    eval_samples: Annotated[Samples, meaning("samples in the evaluation data")] = None
    energy_j: Annotated[
        Joules,
        meaning("energy of the timed part, all ranks, as far as measured; of rank 0 alone by earlier versions"),
    ] = None
    samples_to_converge_smoothed: Annotated[
        SmoothedSamples,
        meaning("samples to converge, interpolated by a line through the last evaluations; not scored"),
    ] = None


class SetRow(Row, kw_only=True, frozen=True):
    """Table row of one configuration: a result set with its verdict, its score and the means of its runs."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    benchmark: Annotated[Text, meaning("name of the benchmark, as the logs have it")] = None
    benchmark_version: Annotated[Whole, meaning("version of an own benchmark's definition")] = None
    status: Annotated[
        Literal["own", "official", "unknown"],
        meaning("owner of the benchmark: the user (own), MLPerf (official), or unknown"),
    ] = "unknown"
    division: Annotated[Text, meaning("division, closed or open")] = None
    system: Annotated[Text, meaning("name of the system")] = None
    outcome: Annotated[
        Literal["valid", "invalid", "incomplete"] | None, meaning("verdict of the rules on the set")
    ] = None
    num_errors: Annotated[Tally, meaning("number of findings that make the set invalid")] = None
    num_warnings: Annotated[Tally, meaning("number of findings that do not make the set invalid")] = None
    num_runs: Annotated[Tally, meaning("number of runs with a result")] = None
    num_runs_required: Annotated[Tally, meaning("number of runs that a score needs")] = None
    num_converged: Annotated[Tally, meaning("number of runs that reached the target")] = None
    num_unfinished: Annotated[Tally, meaning("number of attempts that left no result")] = None
    score_s: Annotated[
        Seconds, meaning("score: Olympic mean of times to train, normalised by reference convergence points")
    ] = None
    olympic_mean_s: Annotated[
        Seconds, meaning("mean time to train over all runs but the fastest and the slowest")
    ] = None
    low_s: Annotated[Seconds, meaning("lower end of the interval of the geometric mean of all runs' times")] = None
    high_s: Annotated[Seconds, meaning("upper end of the interval of the geometric mean of all runs' times")] = None
    confidence: Annotated[Share, meaning("confidence of the interval low_s to high_s, its least coverage")] = None
    coverage: Annotated[
        Share, meaning("exact coverage of the interval; null where it depends on the distribution of times")
    ] = None
    rcp_outcome: Annotated[Text, meaning("test against reference convergence points: passed, failed, missing")] = None
    rcp_factor: Annotated[Number, meaning("score_s over olympic_mean_s")] = None
    no_score_reason: Annotated[Text, meaning("reason why the set has no score")] = None
    epochs_to_converge: Annotated[
        Epochs, meaning("geometric mean of epochs to converge over the runs that converged")
    ] = None
    epochs_cv: Annotated[Amount, meaning("coefficient of variation of epochs_to_converge")] = None
    throughput_samples_per_s: Annotated[
        SamplesPerSecond, meaning("geometric mean of throughput over the runs that converged")
    ] = None
    throughput_cv: Annotated[Amount, meaning("coefficient of variation of throughput_samples_per_s")] = None
    quality_target: Annotated[Number, meaning("quality target of a run")] = None
    final_quality: Annotated[Number, meaning("mean quality at the last evaluation, over the runs that converged")] = (
        None
    )
    global_batch_size: Annotated[Samples, meaning("global batch size of the first run")] = None
    learning_rate: Annotated[Number, meaning("learning rate of the first run")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("largest peak resident memory of all runs")] = None
    peak_device_bytes: Annotated[Bytes, meaning("largest peak memory on the accelerator of all runs")] = None
    definition_sha256: Annotated[Text, meaning("digest of the benchmark's definition")] = None
    dataset_sha256: Annotated[Text, meaning("digest of the dataset")] = None
    organization: Annotated[Text, meaning("organization that submitted the set")] = None
    round: Annotated[Text, meaning("official round of the submission")] = None
    num_runs_dropped: Annotated[Tally, meaning("number of runs that Olympic scoring drops at each end")] = None
    convergence_share: Annotated[
        Number, meaning("share of convergence in the variance of log time to train; below 0 where it offsets others")
    ] = None
    speed_share: Annotated[
        Number, meaning("share of speed in the variance of log time to train; below 0 where it offsets others")
    ] = None
    overhead_share: Annotated[
        Number,
        meaning("share of overhead (and evaluation) in the variance of log time to train; the 3 shares add up to 1"),
    ] = None
    smallest_time_apart: Annotated[
        Amount,
        meaning("least difference in time to train from a later set that is detected with 80 % power, as a fraction"),
    ] = None
    smallest_time_in_turns: Annotated[
        Amount,
        meaning(
            "least difference in time to train between two sets, measured alternately with shared seeds, that is "
            "detected with 80 % power, as a fraction, if the system is usually as noisy as in this hour"
        ),
    ] = None
    smallest_time_in_turns_low: Annotated[
        Amount,
        meaning(
            "lower end of the 95 % interval of smallest_time_in_turns, since few runs show their spread inexactly"
        ),
    ] = None
    smallest_time_in_turns_high: Annotated[
        Amount,
        meaning(
            "upper end of the 95 % interval of smallest_time_in_turns, since few runs show their spread inexactly"
        ),
    ] = None
    smallest_throughput_apart: Annotated[Amount, meaning("as smallest_time_apart, in throughput")] = None
    smallest_throughput_in_turns: Annotated[Amount, meaning("as smallest_time_in_turns, in throughput")] = None
    smallest_throughput_in_turns_low: Annotated[Amount, meaning("as smallest_time_in_turns_low, in throughput")] = (
        None
    )
    smallest_throughput_in_turns_high: Annotated[Amount, meaning("as smallest_time_in_turns_high, in throughput")] = (
        None
    )


class EvaluationRow(Row, kw_only=True, frozen=True):
    """Table row of one evaluation of model quality in one run."""

    run: Annotated[str, meaning("number of the run, as in the table of runs")]
    evaluation: Annotated[Tally, meaning("number of the evaluation in its run, from 1")]
    epoch_num: Annotated[Epoch, meaning("passes over the training data, as logged")] = None
    samples_count: Annotated[Samples, meaning("samples trained, as logged")] = None
    elapsed_s: Annotated[Seconds, meaning("time since run_start")] = None
    quality: Annotated[Number, meaning("eval_accuracy of the log: the AUC, or the definition's other metric")] = None
    path: Annotated[str, meaning("file of the log")]


class FindingRow(Row, kw_only=True, frozen=True):
    """Table row of one finding: a rule that a result set or one of its logs breaks at one place."""

    code: Annotated[str, meaning("code of the rule, as `dlrmbench check --explain CODE` takes it")]
    title: Annotated[str, meaning("requirement of the rule, which is not met")]
    severity: Annotated[Severity, meaning("severity of the finding; an error makes the set invalid")]
    message: Annotated[str, meaning("description of what is wrong")]
    path: Annotated[str, meaning("file or folder that the finding concerns")]
    line_num: Annotated[Whole, meaning("line of the file, from 1; missing where the whole file is meant")] = None
    found: Annotated[Text, meaning("value that was found")] = None
    expected: Annotated[Text, meaning("value that was expected")] = None
    remedy: Annotated[str, meaning("what to do about the finding")]
    citation: Annotated[str, meaning("source of the requirement")]


class MeasurementRow(Row, kw_only=True, frozen=True):
    """Table row of one process of a measurement, with the quantity that its kind of measurement compares."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    kind: Annotated[str, meaning("kind of measurement, such as throughput or profile")]
    benchmark: Annotated[Text, meaning("name of the benchmark")] = None
    system: Annotated[Text, meaning("name of the system")] = None
    created_utc: Annotated[Moment, meaning("time at which the set was begun")] = None
    process: Annotated[Whole, meaning("number of the process in its measurement, from 0")]
    seed: Annotated[Whole, meaning("random seed of the process")] = None
    quantity: Annotated[str, meaning("name of the measured quantity")]
    value: Annotated[Number, meaning("value of the quantity, in `unit`")]
    unit: Annotated[str, meaning("unit of `value`")]
    scale: Annotated[Literal["ratio", "difference"], meaning("whether values are compared by ratio or by difference")]
    direction: Annotated[Literal["higher", "lower"], meaning("whether higher or lower values are better")]
    energy_j: Annotated[Joules, meaning("energy of the timed part, all ranks; null where it was not measured")] = None
    path: Annotated[str, meaning("file of the measurement")]


class EvaluationLists(Row, kw_only=True, frozen=True):
    """Evaluations of model quality in a run, as one list per quantity, all of one length."""

    epoch_num: tuple[Epoch, ...]
    samples_count: tuple[Samples, ...]
    elapsed_s: tuple[Seconds, ...]
    quality: tuple[Number, ...]


class RunMember(RunRow, kw_only=True, frozen=True):
    """Run in the JSON export, with its evaluations of model quality."""

    evaluations: EvaluationLists


_QUALITY_LIMITS = {
    "properties": {
        "final_quality": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "evaluations": {"properties": {"quality": {"items": {"minimum": 0, "maximum": 1}}}},
    }
}


class SetMember(SetRow, kw_only=True, frozen=True):
    """Configuration in the JSON export, with its runs: first those that left a log, then attempts without a
    result."""

    runs: tuple[RunMember, ...]

    @property
    def is_defined(self) -> bool:
        """Whether the configuration's benchmark has a definition. The definition's metric then limits the quality to
        values from 0 to 1."""
        return self.status != "unknown"


class _ReportMembers(Row, kw_only=True, frozen=True):
    """Document that `report --format json` prints: configurations with runs and evaluations, and measurements."""

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
"""Dict from a table's name to the table, for the tables that each hold a single kind of measurement. They have all
quantities of the kind, while the table named 'measurements' has only the compared quantity."""

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
    """Return a dict from table names to rows, made from a document. Each of these tables is for a single kind of
    measurement."""
    return {name: getattr(document, name) for name in DETAIL_TABLES}
