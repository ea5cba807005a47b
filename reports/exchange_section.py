"""What the ranks of each configuration sent to each other, what of a step's time that took, and where they were."""

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.exchange import KINDS, Placement, Rank, computing_s
from reports.facts import SetFacts
from reports.formatting import (
    MILLISECONDS,
    MISSING,
    byte_unit,
    count,
    num_bytes,
    percent,
    plural,
    printable,
    si,
)
from reports.view import Block, Cell, Column, Fold, Prose, Section, Table
from reports.worlds import RankedSet, ranked_set

_LEAD = (
    "Bytes are counted from the tensors of every collective call, by the formula beside them; what the transport "
    "adds is not in them. Times are medians, measured after the run, with every call waited for at once: waiting for "
    "slower ranks is in them, overlap with computing is not. Computing is what they leave of an undisturbed step; "
    "where they exceed it, the parts are not separable."
)
NOT_SEPARABLE = "not separable"


def exchange_section(group: Sequence[SetFacts], id_: str) -> Section | None:
    """None where no configuration has a record of several ranks."""
    worlds = [world for one in group if (world := ranked_set(one)) is not None and world.exchanges]
    if not worlds:
        return None
    blocks: list[Block] = [Prose(text=_LEAD), _steps_table(worlds, f"{id_}-exchange-steps")]
    for world in worlds:
        id_of = f"{id_}-exchange-{world.facts.index}"
        details: tuple[Block, ...] = (
            _bytes_table(world, f"{id_of}-bytes"),
            *_ranks_table(world, f"{id_of}-ranks"),
            *_placement_table(world, f"{id_of}-placement"),
        )
        title = f"{world.facts.label}: bytes by kind, ranks, and where tables lie"
        blocks.append(Fold(summary=title, blocks=details, is_open=len(worlds) == 1))
    return Section(id=f"{id_}-exchange", heading="Exchange between ranks", name="Exchange", blocks=tuple(blocks))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _steps_table(worlds: Sequence[RankedSet], id_: str) -> Table:
    rows = []
    for world in worlds:
        runs = world.exchanges
        step_s = _mean(one.step_s for one in runs)
        waited = (_mean(one.all_to_all_s for one in runs), _mean(one.all_reduce_s for one in runs))
        compute_s = computing_s(step_s, *waited)
        whole_s = step_s if compute_s is not None else None
        computing = (
            Cell(text=NOT_SEPARABLE, kind="quiet")
            if compute_s is None and None not in (step_s, *waited)
            else _part(compute_s, whole_s)
        )
        link = world.link_bytes_per_s
        rows.append(
            (
                Cell(text=world.facts.label, sub=f"sharding {printable(world.sharding, 40)}, {_scheme(world)}"),
                Cell(text=count(world.num_ranks)),
                Cell(text=count(world.local_batch_size)),
                Cell(text=count(_mean(sum(one.bytes_per_step.values()) for one in runs))),
                Cell(text=count(_mean(max(one.sent_bytes, default=None) for one in runs))),
                Cell(text=MILLISECONDS.number(step_s)),
                computing,
                *(_part(part, whole_s) for part in waited),
                Cell(text=f"{si(link)}B/s" if link is not None else MISSING),
            )
        )
    return Table(
        id=id_,
        caption="One training step, mean over runs",
        columns=(
            Column(name="Configuration"),
            Column(name="Ranks", is_number=True),
            Column(name="Local batch", is_number=True, help="samples per rank"),
            Column(name="Bytes", is_number=True, help="all ranks; counted"),
            Column(name="Most by one rank", is_number=True, help="bytes sent; counted"),
            Column(name="Step", is_number=True, help="ms; measured"),
            Column(name="Computing", is_number=True, help="ms; step less the two"),
            Column(name="All-to-all", is_number=True, help="ms; measured: ids, embeddings"),
            Column(name="All-reduce", is_number=True, help="ms; measured: dense gradients"),
            Column(name="Link", is_number=True, help="measured; rank 0 to the last"),
        ),
        rows=tuple(rows),
        is_sortable=len(rows) > 1,
    )


def _part(part_s: float | None, whole_s: float | None) -> Cell:
    return Cell(text=MILLISECONDS.number(part_s), sub=percent(part_s / whole_s) if part_s and whole_s else "")


def _scheme(world: RankedSet) -> str:
    return printable(world.scheme, 80)


def _bytes_table(world: RankedSet, id_: str) -> Table:
    runs = world.exchanges
    seen = [kind for kind in KINDS if any(kind in {**one.bytes_per_step, **one.bytes_per_evaluation} for one in runs)]
    formulas = runs[0].formulas
    return Table(
        id=id_,
        caption=f"Bytes that all ranks send, mean over {plural(len(runs), 'run')}; N is the number of ranks",
        columns=(
            Column(name="Kind"),
            Column(name="Per step", is_number=True, help="bytes; counted"),
            Column(name="Per evaluation", is_number=True, help="bytes; counted"),
            Column(name="Formula"),
        ),
        rows=tuple(
            (
                Cell(text=kind.replace("_", " "), sub=KINDS[kind]),
                Cell(text=count(_mean(one.bytes_per_step.get(kind) for one in runs))),
                Cell(text=count(_mean(one.bytes_per_evaluation.get(kind) for one in runs))),
                Cell(text="; ".join(formulas.get(kind, ())) or "no call in a step"),
            )
            for kind in seen
        ),
    )


def _ranks_table(world: RankedSet, id_: str) -> tuple[Table, ...]:
    """Where each rank was and the most memory that it took in any run."""
    by_rank: dict[int, list[Rank]] = {}
    for run in world.facts.runs:
        for rank in run.attempt.ranks if run.attempt else ():
            by_rank.setdefault(rank.rank, []).append(rank)
    if not by_rank:
        return ()
    peaks = {
        number: (_most(rank.peak_rss_bytes for rank in seen), _most(rank.peak_device_bytes for rank in seen))
        for number, seen in by_rank.items()
    }
    unit = byte_unit(peak for both in peaks.values() for peak in both)
    rows = tuple(
        (
            Cell(text=f"rank {number}"),
            Cell(text=", ".join(sorted({rank.host or MISSING for rank in by_rank[number]}))),
            Cell(text=unit.number(peaks[number][0])),
            Cell(text=unit.number(peaks[number][1])),
        )
        for number in sorted(by_rank)
    )
    told = num_bytes(sum(peak for peak, _ in peaks.values() if peak is not None) or None)
    columns = (
        Column(name="Rank"),
        Column(name="Host"),
        Column(name="Peak memory", is_number=True, help=f"{unit.name}; measured"),
        Column(name="Device memory", is_number=True, help=f"{unit.name}; measured"),
    )
    return (
        Table(id=id_, caption=f"Ranks and the most memory that each took; {told} in all", columns=columns, rows=rows),
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _placement_table(world: RankedSet, id_: str) -> tuple[Table, ...]:
    """Which ranks hold which part of each table, as the first run built them."""
    placements = [one.placement for one in world.exchanges]
    if not placements[0]:
        return ()
    alike = all(one == placements[0] for one in placements)
    columns = ("Table", "Sharding", "Shards", "Ranks")
    return (
        Table(
            id=id_,
            caption="Where tables lie, read from the built model"
            + ("" if alike else " of the first run; others differ"),
            columns=tuple(Column(name=name) for name in columns),
            rows=tuple(
                (
                    Cell(text=f"table {one.table}"),
                    Cell(text=one.sharding or MISSING),
                    Cell(text=_shards_words(one)),
                    Cell(text=", ".join(str(rank) for rank in sorted({rank for rank, _, _ in one.shards}))),
                )
                for one in placements[0]
            ),
        ),
    )


def _shards_words(one: Placement) -> str:
    """'2 of 25 × 16', rows by columns; shards of another shape are told after a comma."""
    shapes = Counter((rows, columns) for _, rows, columns in one.shards)
    return ", ".join(f"{number} of {count(rows)} × {count(columns)}" for (rows, columns), number in shapes.items())
