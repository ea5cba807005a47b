"""A line of --log-to FILE.jsonl: something that happened while an experiment was made."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from rules.records.codec import Count, Index, Record

EVENT_VERSION: Final = 1
_EVENTS = (
    "experiment_start, repetition_start, prepare, cleanup, repetition_end, experiment_end; between the two of a "
    "repetition what its process says: start, train, eval, progress, hash, weights"
)
_VALUES = (
    "What is said with it, by name. experiment_start: name, relation. repetition_start: seed. prepare, cleanup: "
    "exit_code, took_s. start: run_index, train_samples. train: samples, samples_per_s, measured. eval: epoch_num, "
    "quality. progress: doing. hash: num_bytes. weights: nothing. repetition_end: outcome (ended or failed), reason "
    "if it failed, and the record's compared quantity under its own name, such as throughput_samples_per_s, "
    "measured. experiment_end: failed, the labels of configurations that did."
)


class EventRecord(Record, frozen=True, kw_only=True):
    """One event, stamped and written by the process that starts the others, outside the clock of what they measure.

    Within one schema_version members, events and values are only added.
    """

    schema_version: Literal[1] = EVENT_VERSION
    event: Annotated[str, Meta(pattern="^[a-z][a-z_]*$", description=_EVENTS)]
    time_ms: Count
    """When it arrived, in ms since 1970 (UTC), by this process's clock."""
    experiment: str
    """The name of the folder in which everything is kept."""
    configuration: str | None = None
    """The label of the configuration; None of what happens to the experiment as a whole."""
    benchmark: str | None = None
    kind: str | None = None
    repetition: Index | None = None
    """Counted from 0."""
    values: Annotated[dict[str, Any], Meta(description=_VALUES)]
