"""What ranks exchanged, as run.json records it: the kinds of bytes by name, and what waiting leaves of a step."""

from collections.abc import Sequence

from reports.results.result import Result
from reports.statistics.intervals import log_summary
from reports.text.formatting import count
from rules.records.run import TrafficBytes, TrafficRecord

KINDS = {
    "input_redistribution": "ids, to the ranks that hold their rows",
    "embedding_forward": "embeddings, to the ranks that hold the samples",
    "embedding_backward": "their gradients, the way back",
    "dense_reduce": "gradients of the weights that every rank holds",
    "evaluation_gather": "scores and labels, to rank 0",
}
"""What travels between ranks, in the order of a step."""


def bytes_of(sent: TrafficBytes | None, kind: str) -> int | None:
    """The bytes of one of KINDS; None where they were not counted."""
    return None if sent is None else int(getattr(sent, kind))


def total_bytes(sent: TrafficBytes) -> int:
    """The bytes of all kinds together."""
    return sum(getattr(sent, kind) for kind in KINDS)


def traffic_words(traffic: TrafficRecord) -> str:
    """What the ranks of one measured process send to each other in a step."""
    num_bytes = count(total_bytes(traffic.bytes_per_step))
    return f"{num_bytes} bytes per step between {traffic.num_ranks} ranks, counted"


def computing_s(step_s: float | None, *waited_s: float | None) -> float | None:
    """What waiting for others leaves of a step; None where that is not known, or more than the whole."""
    known = [value for value in waited_s if value is not None]
    if step_s is None or len(known) < len(waited_s):
        return None
    left_s = step_s - sum(known)
    return left_s if left_s >= 0.0 else None


def traffic_of(result: Result) -> tuple[TrafficRecord, ...]:
    """Return the traffic of the repetitions that had several ranks and recorded it."""
    found = (getattr(repetition.record, "traffic", None) for repetition in result.repetitions)
    return tuple(traffic for traffic in found if traffic is not None)


def bandwidth_bytes_per_s(runs: Sequence[TrafficRecord]) -> float | None:
    """Geometric mean of the bandwidth between ranks that the runs measured; None where none did."""
    summary = log_summary(run.bandwidth_bytes_per_s for run in runs)
    return summary.geometric_mean if summary else None
