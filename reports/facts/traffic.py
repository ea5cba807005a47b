"""Reads the traffic between ranks from run.json: the bytes of each kind of data, and the part of a training step in
which a rank does not wait for others."""

from collections.abc import Sequence

from reports.results.result import Result
from reports.statistics.intervals import log_summary
from reports.text.formatting import count
from rules.records.run import TrafficBytes, TrafficRecord

KINDS = {
    "input_redistribution": "ids, to the ranks that hold their rows",
    "embedding_forward": "embeddings, to the ranks that hold the samples",
    "embedding_backward": "gradients of embeddings, back to the ranks that hold the rows",
    "dense_reduce": "gradients of the weights that every rank holds",
    "evaluation_gather": "scores and labels, to rank 0",
}
"""Descriptions of the kinds of data that ranks exchange, in the order in which a training step sends them."""


def bytes_of(sent: TrafficBytes | None, kind: str) -> int | None:
    """Return the bytes that ranks sent of one kind of data in KINDS; None where they were not counted."""
    return None if sent is None else int(getattr(sent, kind))


def total_bytes(sent: TrafficBytes) -> int:
    """Return the bytes that ranks sent, over all kinds of data."""
    return sum(getattr(sent, kind) for kind in KINDS)


def traffic_words(traffic: TrafficRecord) -> str:
    """Return in words the bytes that the ranks of one process group exchange in a training step, as measured."""
    num_bytes = count(total_bytes(traffic.bytes_per_step))
    return f"{num_bytes} bytes per step between {traffic.num_ranks} ranks, counted"


def computing_s(step_s: float | None, *waited_s: float | None) -> float | None:
    """Return the seconds of a training step in which a rank did not wait for other ranks: the step's time `step_s`
    minus the times `waited_s`. None if one of these times is unknown, or the difference is negative."""
    known = [value for value in waited_s if value is not None]
    if step_s is None or len(known) < len(waited_s):
        return None
    left_s = step_s - sum(known)
    return left_s if left_s >= 0.0 else None


def traffic_of(result: Result) -> tuple[TrafficRecord, ...]:
    """Return the traffic records of the runs or processes that ran on several ranks and recorded their traffic."""
    found = (getattr(repetition.record, "traffic", None) for repetition in result.repetitions)
    return tuple(traffic for traffic in found if traffic is not None)


def bandwidth_bytes_per_s(runs: Sequence[TrafficRecord]) -> float | None:
    """Return the geometric mean of the bandwidth measured between ranks, in bytes/s; None where none was measured."""
    summary = log_summary(run.bandwidth_bytes_per_s for run in runs)
    return summary.geometric_mean if summary else None
