"""Define the charts and the glossary of studies of memories: miss ratios by cache size, and latency added to
queries."""

from collections.abc import Callable, Mapping

from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import find_parameter, number_of, rows_of
from reports.text.formatting import percent, plural, printable, si, time_unit
from rules.records.study import Cell, StudyRecord, StudyTable

_MOST_LINES = 5
"""Maximum number of lines of one chart, as each line has a colour of its own."""
_ALIKE = 0.01
"""Largest relative difference, at every point, of two lines that are drawn as one line with both names."""
_NOTE = "The table below lists the numbers of this chart."

Line = dict[float, float]


def draw_memories(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the chart of a study's table: latency added by query rate or by cache size, or miss ratios by cache size;
    None for a table without such columns, or with fewer than two points of each line."""
    names = {column.name for column in table.columns}
    if {"Queries/s", "Load", "Mean added"} <= names:
        return draw_waits(table, id_, "Queries/s", ("queries per second", si), "Added latency by rate")
    if {"Cache", "Mean added"} <= names:
        return draw_waits(table, id_, "Cache", (name_axis(study), percent), "Added latency by cache size")
    return draw_miss_ratios(study, table, id_)


def name_axis(study: StudyRecord) -> str:
    """Return the label of the axis of cache sizes, which are shares of rows, or of bytes where rows differ in
    size."""
    names = {column.name for table in study.tables for column in table.columns}
    is_of_tiers = "Tier" in names
    units = "bytes" if ("Cache memory" if is_of_tiers else "Memory") in names else "rows"
    return f"cache, as a share of {f'the {units} below DRAM' if is_of_tiers else f'all {units}'}"


def draw_miss_ratios(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the miss ratio by cache size, a line for each replacement policy; None where there is only one size."""
    lines: dict[str, Line] = {}
    for row in rows_of(table):
        size, ratio = number_of(row.get("Cache")), number_of(row.get("Miss ratio"))
        if size is not None and ratio is not None:
            lines.setdefault(printable(str(row.get("Policy", "LRU")), 20), {}).setdefault(size, ratio)
    lines = {name: line for name, line in lines.items() if len(line) > 1}
    if not lines:
        return None
    series = [
        Series(
            name=f"{name} cache",
            hue=hue,
            dots=[
                Dot(x=size, y=line[size], hint=f"{name}, cache of {percent(size)}: {percent(line[size])}")
                for size in sorted(line)
            ],
        )
        for hue, (name, line) in enumerate([*lines.items()][:_MOST_LINES])
    ]
    panel = scaling_panel(series, (name_axis(study), percent), ("miss ratio", percent))
    figure = xy_figure(
        panel,
        id_=id_,
        title="Miss ratio by cache size",
        description="A line per policy, a dot per size.",
    )
    return Chart(figure=figure, table_note=_NOTE)


def draw_waits(
    table: StudyTable, id_: str, over: str, axis: tuple[str, Callable[[float], str]], title: str
) -> Chart | None:
    """Draw the mean latency added to queries against the column `over`, a line for each combination of the other
    columns; None where no line has two points."""
    rows = rows_of(table)
    naming = [
        name
        for name in ("Tier", "Cache", "Policy", "Pool")
        if name != over and len({row.get(name) for row in rows}) > 1
    ]
    lines: dict[str, Line] = {}
    for row in rows:
        at, wait_s = number_of(row.get(over)), number_of(row.get("Mean added"))
        if at is not None and wait_s is not None:
            named = ", ".join(filter(None, (_name(row, each) for each in naming)))
            name = named or printable(str(row.get("Tier")), 20)
            lines.setdefault(name, {})[at] = wait_s
    lines = {name: line for name, line in join_alike(lines).items() if len(line) > 1}
    if not lines:
        return None
    drawn = dict([*lines.items()][:_MOST_LINES])
    unit = time_unit([wait_s for line in drawn.values() for wait_s in line.values()])
    series = [
        Series(
            name=name,
            hue=hue,
            dots=[
                Dot(x=at, y=line[at] / unit.seconds, hint=f"{name}, {axis[1](at)}: {unit.text(line[at])}")
                for at in sorted(line)
            ],
        )
        for hue, (name, line) in enumerate(drawn.items())
    ]
    panel = scaling_panel(series, axis, (f"mean latency added to a query, {unit.name}, simulated", "{:g}".format))
    figure = xy_figure(panel, id_=id_, title=title, description="A line per memory and cache, a dot per row.")
    cut = f" The first {_MOST_LINES} of {plural(len(lines), 'line')} are drawn." if len(lines) > _MOST_LINES else ""
    return Chart(figure=figure, table_note=f"{_NOTE}{cut}")


def join_alike(lines: Mapping[str, Line]) -> dict[str, Line]:
    """Return the lines of a chart. Lines that would be drawn one upon another become one line, which has all their
    names."""
    found: list[tuple[list[str], Line]] = []
    for name, line in lines.items():
        for names, other in found:
            if other.keys() == line.keys() and all(abs(line[at] / other[at] - 1) < _ALIKE for at in line):
                names.append(name)
                break
        else:
            found.append(([name], line))
    return {" and ".join(names): line for names, line in found}


def _name(row: Mapping[str, Cell], column: str) -> str:
    value = row.get(column)
    if column == "Cache":
        return "no cache" if value is None else f"cache {percent(number_of(value) or 0.0)}"
    return "" if value is None else printable(str(value), 20)


def name_tiers(study: StudyRecord) -> str:
    """Name the memories of a study, such as 'nand compared with 3dxp, 4 devices each'; empty for a
    trace, which models none."""
    found = (row.get("Tier") for table in study.tables for row in rows_of(table))
    tiers = [*dict.fromkeys(printable(tier, 40) for tier in found if isinstance(tier, str))]
    number = find_parameter(study, "devices")
    words = " compared with ".join(filter(None, (*tiers[:1], " and ".join(tiers[1:]))))
    if number is None or not tiers:
        return words
    devices = plural(int(number), "memory device")
    return f"{words}, {devices} each" if len(tiers) > 1 else f"{devices} of {words}"


TERMS = {
    "LRU": "A cache that evicts the row looked up longest ago.",
    "LFU with ageing": "A cache that evicts the row of fewest lookups; old lookups count less "
    "(LFU-DA, Arlitt et al., 2000).",
    "static": "A set of rows that never changes: those that the trace's first half, or the warm-up, looks up most.",
    "Miss ratio": "The share of lookups whose row is not in the cache.",
    "Cold misses": "Misses because a lookup is the first of its row; no cache can avoid them, and a short trace has "
    "many.",
    "Hit rate of all rows": "The highest hit rate of any cache: a cache of all rows misses only first "
    "lookups. Only lookups after the warm-up count, so that a longer warm-up gives another rate.",
    "Load factor": "The share of a table's rows that its cache holds. One load factor for all tables divides "
    "memory in proportion to their sizes.",
    "Touched": "Rows that the trace looks up at least once. The expected number of touched rows is the sum over all "
    "rows of 1 - (1 - p)^n, where p is the probability that a lookup in the row's table is of this row, and n is the "
    "number of lookups in the table.",
    "Tier": "A memory that is larger and slower than DRAM, below a cache of rows in DRAM.",
    "Pool": "Where the rows of a bag are summed: in the host, in each device, or in the switch between them.",
    "Read amplification": "Bytes that a memory reads for each byte of a row, since it reads whole granules.",
    "From empty": "The miss ratio of the whole trace, with a cache that is empty at first.",
    "Load": "The share of the time for which the busiest device or link is busy.",
    "Reads in flight": "Reads waiting or in progress at a device when a read is issued, including those of the same "
    "query.",
    "Link queue": "The time that a query waits until earlier queries have crossed the link to the host, which all "
    "devices share.",
    "Mean added": "The mean latency that rows outside DRAM add to a query: queues, device, link, and summing "
    "the rows.",
    "p99": "The 99th percentile of added latency, which 99 of 100 queries do not exceed.",
    "SHARDS": "A method that estimates miss ratios from a sample of rows, chosen by a hash of their ids.",
}
DETAILS = Details(chart=draw_memories, terms=TERMS, modelled=name_tiers, num_leading=2)
