"""Makes the section on the traffic between ranks in a training step and the placement of embedding tables."""

from collections import Counter
from collections.abc import Sequence

from reports.document.blocks import Block, Cell, Fold, Prose, Shown, Table, numeric, table_of, text_table
from reports.document.page import PageSection
from reports.facts.rank_counts import RankedSet, ranked_set
from reports.facts.traffic import KINDS, bandwidth_bytes_per_s, bytes_of, computing_s, total_bytes, traffic_of
from reports.page.figures.detail import detailed
from reports.results.result import Result
from reports.statistics.intervals import mean_of_known
from reports.text.formatting import MILLISECONDS, MISSING, byte_unit, count, num_bytes, percent, plural, printable, si
from rules.records.run import PlacementRecord, RankRecord, TrafficRecord

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
"""Columns of the table on one training step's traffic, in the order in which the function `_step_cells` returns the
cells."""
METHOD = (
    "Bytes are counted from the tensors of every collective call, by the formula beside them, without the "
    "transport's overhead. Times of calls are medians, measured after the run by waiting for each call at once: they "
    "include waiting for slower ranks, and no overlap with computing. Computing is an undisturbed step's time less "
    "the times of its calls; where these exceed the step, the parts are not separable."
)


def exchange_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section on traffic between ranks; None where no configuration has a record of several ranks."""
    worlds = [world for result in group if (world := ranked_set(result)) is not None and world.traffic]
    if not worlds:
        return None
    shown = {result.index for result in detailed(group)}
    blocks: list[Block] = [Prose(text=METHOD), _steps_table(worlds, f"{id_}-exchange-steps")]
    for world in (world for world in worlds if world.result.index in shown):
        id_of = f"{id_}-exchange-{world.result.index}"
        details: tuple[Block, ...] = (
            _bytes_table(world.traffic, f"{id_of}-bytes"),
            *_ranks_table(world, f"{id_of}-ranks"),
            *_placement_table(world.traffic, f"{id_of}-placement"),
        )
        title = f"{world.result.label}: bytes by kind, ranks, and placement of tables"
        blocks.append(Fold(summary=title, blocks=details, is_open=len(worlds) == 1))
    return PageSection(id=f"{id_}-exchange", heading="Exchange between ranks", name="Exchange", blocks=tuple(blocks))


def measured_exchanges(measured: Sequence[Result]) -> list[Fold]:
    """Return a folded block for each measurement on several ranks: traffic of a training step, placement of embedding
    tables."""
    found = []
    for number, measurement in enumerate(measured):
        if not traffic_of(measurement):
            continue
        id_ = f"throughput-exchange-{number}"
        caption = f"One training step, mean over {plural(len(traffic_of(measurement)), 'process', 'processes')}"
        blocks: tuple[Block, ...] = (
            Prose(text=METHOD),
            text_table(STEP_COLUMNS, (_step_cells(traffic_of(measurement)),), id_=f"{id_}-step", caption=caption),
            _bytes_table(traffic_of(measurement), f"{id_}-bytes"),
            *_placement_table(traffic_of(measurement), f"{id_}-tables"),
        )
        found.append(Fold(summary=f"{measurement.label}: exchange between ranks", blocks=blocks))
    return found


def _steps_table(worlds: Sequence[RankedSet], id_: str) -> Table:
    rows = [
        (_world_cell(world), count(world.num_ranks), count(world.local_batch_size), *_step_cells(world.traffic))
        for world in worlds
    ]
    return text_table(
        ("Configuration", numeric("Ranks"), numeric("Local batch", "samples per rank"), *STEP_COLUMNS),
        rows,
        id_=id_,
        caption="One training step, mean over runs",
        is_sortable=len(rows) > 1,
    )


def _world_cell(world: RankedSet) -> Cell:
    sub = f"sharding {printable(world.sharding, 40)}, {printable(world.scheme, 80)}"
    return Cell(text=world.result.label, sub=sub)


def _ranks_table(world: RankedSet, id_: str) -> tuple[Table, ...]:
    """Return the table of each rank's host and its peak memory over all runs."""
    by_rank: dict[int, list[RankRecord]] = {}
    for run in world.result.runs:
        for rank in run.record.ranks if run.record else ():
            by_rank.setdefault(rank.rank, []).append(rank)
    if not by_rank:
        return ()
    peaks = {number: max(rank.peak_rss_bytes for rank in seen) for number, seen in by_rank.items()}
    device_peaks = {
        number: max(rank.peak_device_bytes or 0 for rank in seen) or None for number, seen in by_rank.items()
    }
    unit = byte_unit([*peaks.values(), *device_peaks.values()])
    columns: tuple[Shown[int], ...] = (
        ("Rank", "rank {}".format),
        ("Host", lambda number: ", ".join(sorted({rank.host or MISSING for rank in by_rank[number]}))),
        (numeric("Peak memory", f"{unit.name}; measured"), peaks.get, unit.number),
        (numeric("Device memory", f"{unit.name}; measured"), device_peaks.get, unit.number),
    )
    text = num_bytes(sum(peaks.values()))
    caption = f"Ranks and the most memory that each took; {text} in all"
    return (table_of(sorted(by_rank), columns, id_=id_, caption=caption),)


def _step_cells(runs: Sequence[TrafficRecord]) -> tuple[Cell | str | None, ...]:
    """Return the cells of a table row on one training step, as means over runs. They are the bytes sent by all ranks,
    the bytes sent by the rank that sends most, the step's time, the times of its parts (computing, all-to-all,
    all-reduce), and the bandwidth of the link between ranks."""
    step_s = mean_of_known(run.step_s or None for run in runs)
    waited = (mean_of_known(run.all_to_all_s for run in runs), mean_of_known(run.all_reduce_s for run in runs))
    compute_s = computing_s(step_s, *waited)
    whole_s = step_s if compute_s is not None else None
    computing = (
        Cell(text=NOT_SEPARABLE, kind="quiet")
        if compute_s is None and None not in (step_s, *waited)
        else _part(compute_s, whole_s)
    )
    link = bandwidth_bytes_per_s(runs)
    return (
        count(mean_of_known(total_bytes(run.bytes_per_step) for run in runs)),
        count(mean_of_known(max(run.sent_bytes_per_step_by_rank) for run in runs)),
        MILLISECONDS.number(step_s),
        computing,
        *(_part(part, whole_s) for part in waited),
        None if link is None else f"{si(link)}B/s",
    )


def _part(part_s: float | None, whole_s: float | None) -> Cell:
    return Cell(text=MILLISECONDS.number(part_s), sub=percent(part_s / whole_s) if part_s and whole_s else "")


def _bytes_table(runs: Sequence[TrafficRecord], id_: str) -> Table:
    def mean(kind: str, member: str) -> float | None:
        return mean_of_known(bytes_of(getattr(run, member), kind) for run in runs)

    columns: tuple[Shown[str], ...] = (
        ("Kind", lambda kind: Cell(text=kind.replace("_", " "), sub=KINDS[kind])),
        (numeric("Per step", "bytes; counted"), lambda kind: mean(kind, "bytes_per_step"), count),
        (numeric("Per evaluation", "bytes; counted"), lambda kind: mean(kind, "bytes_per_evaluation"), count),
        ("Formula", lambda kind: "; ".join(runs[0].formulas.get(kind, ())) or "no call in a step"),
    )
    caption = f"Bytes that all ranks send, mean over {plural(len(runs), 'measurement')}; N is the number of ranks"
    return table_of(KINDS, columns, id_=id_, caption=caption)


def _placement_table(runs: Sequence[TrafficRecord], id_: str) -> tuple[Table, ...]:
    """Return the table that shows the placement of embedding tables on ranks in the model that the first run built.
    Each embedding table has a row: its sharding, its kernel, the shapes of its shards and the ranks that hold them.
    The result is empty if no placement was recorded."""
    first, *others = [sorted(run.placement, key=lambda entry: entry.table) for run in runs]
    if not first:
        return ()
    columns: tuple[Shown[PlacementRecord], ...] = (
        ("Table", "table", "table {}".format),
        ("Sharding", lambda entry: entry.sharding or None),
        ("Kernel", lambda entry: entry.kernel or None),
        ("Shards", _shards_words),
        ("Ranks", lambda entry: ", ".join(map(str, sorted({shard.rank for shard in entry.shards})))),
    )
    differ = "" if all(placement == first for placement in others) else " of the first run; others differ"
    caption = f"Placement of tables, read from the built model{differ}"
    return (table_of(first, columns, id_=id_, caption=caption),)


def _shards_words(entry: PlacementRecord) -> str:
    """Return the number and shapes of an embedding table's shards, '2 of 25 × 16' for two shards of 25 rows and 16
    columns; further shapes follow after a comma."""
    shapes = Counter((shard.num_rows, shard.num_columns) for shard in entry.shards)
    return ", ".join(f"{number} of {count(rows)} × {count(columns)}" for (rows, columns), number in shapes.items())
