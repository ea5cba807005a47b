"""What ranks exchanged in a step, and where tables lie: the same of runs to the target and of throughput alone."""

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.document.blocks import Cell, Table, numeric, text_table
from reports.facts.traffic import KINDS, bandwidth_bytes_per_s, bytes_of, computing_s, total_bytes
from reports.text.formatting import MILLISECONDS, MISSING, count, percent, plural, si
from rules.records.run import PlacementRecord, TrafficRecord

NOT_SEPARABLE = "not separable"
STEP_COLUMNS = (
    numeric("Bytes", "all ranks; counted"),
    numeric("Most by one rank", "bytes sent; counted"),
    numeric("Step", "ms; measured"),
    numeric("Computing", "ms; step less the two"),
    numeric("All-to-all", "ms; measured: ids, embeddings"),
    numeric("All-reduce", "ms; measured: dense gradients"),
    numeric("Link", "measured; rank 0 to the last"),
)
"""The columns of `step_cells`."""
METHOD = (
    "Bytes are counted from the tensors of every collective call, by the formula beside them; what the transport "
    "adds is not in them. Times are medians, measured after the run, with every call waited for at once: waiting for "
    "slower ranks is in them, overlap with computing is not. Computing is what they leave of an undisturbed step; "
    "where they exceed it, the parts are not separable."
)


def step_cells(runs: Sequence[TrafficRecord]) -> tuple[Cell | str, ...]:
    """One training step, mean over runs: bytes, time and its parts, the link."""
    step_s = _mean(run.step_s or None for run in runs)
    waited = (_mean(run.all_to_all_s for run in runs), _mean(run.all_reduce_s for run in runs))
    compute_s = computing_s(step_s, *waited)
    whole_s = step_s if compute_s is not None else None
    computing = (
        Cell(text=NOT_SEPARABLE, kind="quiet")
        if compute_s is None and None not in (step_s, *waited)
        else _part(compute_s, whole_s)
    )
    link = bandwidth_bytes_per_s(runs)
    return (
        count(_mean(total_bytes(run.bytes_per_step) for run in runs)),
        count(_mean(max(run.sent_bytes_per_step_by_rank) for run in runs)),
        MILLISECONDS.number(step_s),
        computing,
        *(_part(part, whole_s) for part in waited),
        f"{si(link)}B/s" if link is not None else MISSING,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _part(part_s: float | None, whole_s: float | None) -> Cell:
    return Cell(text=MILLISECONDS.number(part_s), sub=percent(part_s / whole_s) if part_s and whole_s else "")


def bytes_table(runs: Sequence[TrafficRecord], id_: str) -> Table:
    formulas = runs[0].formulas
    return text_table(
        ("Kind", numeric("Per step", "bytes; counted"), numeric("Per evaluation", "bytes; counted"), "Formula"),
        [
            (
                Cell(text=kind.replace("_", " "), sub=KINDS[kind]),
                count(_mean(bytes_of(run.bytes_per_step, kind) for run in runs)),
                count(_mean(bytes_of(run.bytes_per_evaluation, kind) for run in runs)),
                "; ".join(formulas.get(kind, ())) or "no call in a step",
            )
            for kind in KINDS
        ],
        id_=id_,
        caption=f"Bytes that all ranks send, mean over {plural(len(runs), 'measurement')}; N is the number of ranks",
    )


def placement_table(runs: Sequence[TrafficRecord], id_: str) -> tuple[Table, ...]:
    """Which ranks hold which part of each table, as the first run built them."""
    placements = [sorted(run.placement, key=lambda entry: entry.table) for run in runs]
    if not placements[0]:
        return ()
    alike = all(placement == placements[0] for placement in placements)
    columns = ("Table", "Sharding", "Shards", "Ranks")
    return (
        text_table(
            columns,
            [
                (
                    f"table {placement.table}",
                    placement.sharding or MISSING,
                    _shards_words(placement),
                    ", ".join(str(rank) for rank in sorted({shard.rank for shard in placement.shards})),
                )
                for placement in placements[0]
            ],
            id_=id_,
            caption="Where tables lie, read from the built model"
            + ("" if alike else " of the first run; others differ"),
        ),
    )


def _shards_words(entry: PlacementRecord) -> str:
    """'2 of 25 × 16', rows by columns; shards of another shape follow after a comma."""
    shapes = Counter((shard.num_rows, shard.num_columns) for shard in entry.shards)
    return ", ".join(f"{number} of {count(rows)} × {count(columns)}" for (rows, columns), number in shapes.items())
