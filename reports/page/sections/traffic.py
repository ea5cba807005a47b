"""What the ranks of each configuration sent to each other, what of a step's time that took, and where they were."""

from collections.abc import Iterable, Sequence

from reports.document.blocks import Block, Cell, Fold, Prose, Table, numeric, text_table
from reports.document.page import PageSection
from reports.facts.facts import SetFacts
from reports.facts.rank_counts import RankedSet, ranked_set
from reports.page.figures.traffic import METHOD, STEP_COLUMNS, bytes_table, placement_table, step_cells
from reports.text.formatting import MISSING, byte_unit, count, num_bytes, printable
from rules.records.run import RankRecord


def exchange_section(group: Sequence[SetFacts], id_: str) -> PageSection | None:
    """None where no configuration has a record of several ranks."""
    worlds = [world for facts in group if (world := ranked_set(facts)) is not None and world.traffic]
    if not worlds:
        return None
    blocks: list[Block] = [Prose(text=METHOD), _steps_table(worlds, f"{id_}-exchange-steps")]
    for world in worlds:
        id_of = f"{id_}-exchange-{world.facts.index}"
        details: tuple[Block, ...] = (
            bytes_table(world.traffic, f"{id_of}-bytes"),
            *_ranks_table(world, f"{id_of}-ranks"),
            *placement_table(world.traffic, f"{id_of}-placement"),
        )
        title = f"{world.facts.label}: bytes by kind, ranks, and where tables lie"
        blocks.append(Fold(summary=title, blocks=details, is_open=len(worlds) == 1))
    return PageSection(id=f"{id_}-exchange", heading="Exchange between ranks", name="Exchange", blocks=tuple(blocks))


def _steps_table(worlds: Sequence[RankedSet], id_: str) -> Table:
    rows = tuple(
        (
            Cell(
                text=world.facts.label,
                sub=f"sharding {printable(world.sharding, 40)}, {printable(world.scheme, 80)}",
            ),
            count(world.num_ranks),
            count(world.local_batch_size),
            *step_cells(world.traffic),
        )
        for world in worlds
    )
    return text_table(
        ("Configuration", numeric("Ranks"), numeric("Local batch", "samples per rank"), *STEP_COLUMNS),
        rows,
        id_=id_,
        caption="One training step, mean over runs",
        is_sortable=len(rows) > 1,
    )


def _ranks_table(world: RankedSet, id_: str) -> tuple[Table, ...]:
    """Where each rank was and the most memory that it took in any run."""
    by_rank: dict[int, list[RankRecord]] = {}
    for run in world.facts.runs:
        for rank in run.record.ranks if run.record else ():
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
            f"rank {number}",
            ", ".join(sorted({rank.host or MISSING for rank in by_rank[number]})),
            unit.number(peaks[number][0]),
            unit.number(peaks[number][1]),
        )
        for number in sorted(by_rank)
    )
    text = num_bytes(sum(peak for peak, _ in peaks.values() if peak is not None) or None)
    columns = (
        "Rank",
        "Host",
        numeric("Peak memory", f"{unit.name}; measured"),
        numeric("Device memory", f"{unit.name}; measured"),
    )
    return (text_table(columns, rows, id_=id_, caption=f"Ranks and the most memory that each took; {text} in all"),)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
