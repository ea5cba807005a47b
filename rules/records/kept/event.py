"""Define a line of the file that --log-to FILE.jsonl writes: an event during an experiment, such as the start of a
run."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from rules.records.codec import Count, Index, Record

EVENT_VERSION: Final = 1
_EVENTS = (
    "experiment_start, repetition_start, prepare, cleanup, repetition_end, experiment_end; between the two of a "
    "repetition the events of its process: start, train, eval, progress, hash, weights"
)
_VALUES = (
    "Values of the event, by name. experiment_start: name, relation. repetition_start: seed. prepare, cleanup: "
    "exit_code, took_s. start: run_index, train_samples. train: samples, samples_per_s, measured. eval: epoch_num, "
    "quality. progress: doing. hash: num_bytes. weights: nothing. repetition_end: outcome (ended or failed), reason "
    "if it failed, and the record's compared quantity under its own name, such as throughput_samples_per_s, "
    "measured. experiment_end: failed, the labels of failed configurations."
)


class EventRecord(Record, frozen=True, kw_only=True):
    """Event during an experiment, time-stamped and written by the process that starts the measured processes, outside
    the timed parts of their measurements.

    Within one schema_version members, events and values are only added.
    """

    schema_version: Literal[1] = EVENT_VERSION
    event: Annotated[str, Meta(pattern="^[a-z][a-z_]*$", description=_EVENTS)]
    time_ms: Count
    """Time at which the writing process received the event, in milliseconds since 1970 (UTC), by that process's
    clock."""
    experiment: str
    """Name of the folder that holds the experiment (a group of run sets)."""
    configuration: str | None = None
    """Label of the experiment's configuration that the event belongs to; None for events of the experiment as a
    whole."""
    benchmark: str | None = None
    kind: str | None = None
    repetition: Index | None = None
    """Number of the configuration's repetition that the event belongs to, counted from 0."""
    values: Annotated[dict[str, Any], Meta(description=_VALUES)]
