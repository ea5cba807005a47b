"""Ranks and what they exchanged, as run.json records it: counted bytes, measured seconds, a measured link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.facts.untrusted import as_list, as_mapping, items_of, positive_of, text_of, whole_of
from reports.statistics.intervals import log_summary

KINDS = {
    "input_redistribution": "ids, to the ranks that hold their rows",
    "embedding_forward": "embeddings, to the ranks that hold the samples",
    "embedding_backward": "their gradients, the way back",
    "dense_reduce": "gradients of the weights that every rank holds",
    "evaluation_gather": "scores and labels, to rank 0",
}
"""What travels between ranks, in the order of a step."""
_MAX_RANKS = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """One process of a run."""

    rank: int
    host: str | None
    peak_rss_bytes: float | None
    peak_device_bytes: float | None


def computing_s(step_s: float | None, *waited_s: float | None) -> float | None:
    """What waiting for others leaves of a step; None where that is not known, or more than the whole."""
    known = [value for value in waited_s if value is not None]
    if step_s is None or len(known) < len(waited_s):
        return None
    left_s = step_s - sum(known)
    return left_s if left_s >= 0.0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """How one table was laid over ranks, as built: its type, and rows x columns of each shard by rank."""

    table: int
    sharding: str
    shards: tuple[tuple[int, int, int], ...]
    """(rank, rows, columns)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """Of one run. Bytes are what all ranks together send, by kind; `sent_bytes` what each sends in a step."""

    bytes_per_step: Mapping[str, int]
    bytes_per_evaluation: Mapping[str, int]
    sent_bytes: tuple[int, ...]
    formulas: Mapping[str, tuple[str, ...]]
    step_s: float | None
    all_to_all_s: float | None
    all_reduce_s: float | None
    link_bytes_per_s: float | None
    placement: tuple[Placement, ...] = ()


def link_bytes_per_s(runs: Sequence[Exchange]) -> float | None:
    """Geometric mean of the bandwidth between ranks that the runs measured; None where none did."""
    summary = log_summary(run.link_bytes_per_s for run in runs)
    return summary.geometric_mean if summary else None


def read_ranks(value: object) -> tuple[Rank, ...]:
    """In rank order; entries without a rank are left out."""
    found = [
        Rank(
            rank=number,
            host=text_of(entry, "host", 80),
            peak_rss_bytes=positive_of(entry, "peak_rss_bytes"),
            peak_device_bytes=positive_of(entry, "peak_device_bytes"),
        )
        for entry in map(as_mapping, as_list(value))
        if (number := whole_of(entry, "rank")) is not None and 0 <= number < _MAX_RANKS
    ]
    return tuple(sorted(found, key=lambda one: one.rank))


def read_exchange(value: object) -> Exchange | None:
    """None where nothing was exchanged or recorded."""
    content = as_mapping(value)
    per_step = _counts(content.get("bytes_per_step"))
    if not per_step:
        return None
    sent = [number for number in as_list(content.get("sent_bytes_per_step_by_rank")) if _is_count(number)]
    return Exchange(
        bytes_per_step=per_step,
        bytes_per_evaluation=_counts(content.get("bytes_per_evaluation")),
        sent_bytes=tuple(sent),
        formulas={
            kind: tuple(text for index in range(len(as_list(texts))) if (text := _text(texts, index)))
            for kind, texts in items_of(content.get("formulas"))
            if kind in KINDS
        },
        step_s=positive_of(content, "step_s"),
        all_to_all_s=_at_least_0(content, "all_to_all_s"),
        all_reduce_s=_at_least_0(content, "all_reduce_s"),
        link_bytes_per_s=positive_of(content, "link_bytes_per_s"),
        placement=_placement(content.get("placement")),
    )


def _placement(value: object) -> tuple[Placement, ...]:
    """Tables with at least one shard that can be read, in their order."""
    found = []
    for entry in map(as_mapping, as_list(value)):
        table, shards = entry.get("table"), []
        for shard in map(as_mapping, as_list(entry.get("shards"))):
            rank, rows, columns = (whole_of(shard, key) for key in ("rank", "num_rows", "num_columns"))
            if rank is not None and rows is not None and columns is not None and min(rank, rows, columns) >= 0:
                shards.append((rank, rows, columns))
        if isinstance(table, int) and _is_count(table) and shards:
            sharding = text_of(entry, "sharding", 40) or ""
            found.append(Placement(table=table, sharding=sharding, shards=tuple(shards)))
    return tuple(sorted(found, key=lambda one: one.table))


def _counts(value: object) -> dict[str, int]:
    content = as_mapping(value)
    return {kind: content[kind] for kind in KINDS if _is_count(content.get(kind))}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 80


def _at_least_0(content: Mapping[str, Any], key: str) -> float | None:
    """Here 0 is a measurement: one rank's share of a call that nobody made."""
    return 0.0 if content.get(key) == 0 and not isinstance(content.get(key), bool) else positive_of(content, key)


def _text(texts: object, index: int) -> str | None:
    return text_of({"text": as_list(texts)[index]}, "text", 200)
