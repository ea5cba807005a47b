"""Define the chart, the glossary and the description of devices on the pages of studies of placement."""

from collections.abc import Mapping, Set
from math import inf

from reports.charts.bars import Bar, cost_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import find_parameter, is_amount, number_of, rows_of
from reports.text.formatting import (
    TimeUnit,
    decimal_unit,
    num_bytes,
    percent,
    plural,
    printable,
    significant,
    time_unit,
    with_unit,
)
from rules.records.study import StudyRecord, StudyTable

RESERVE = "of that memory, kept free of tables"
"""Name of a study's parameter: the share of a device's memory that is kept free of tables."""
_OVER, _OF_WHOLE = "Over the ", " of whole tables"
_ONE_BOUND, _FAR = 1e-6, 1e6
_DIGITS = 6
"""Number of decimals to which balances of plans (slowest device over the mean) are compared. Plans whose balances are
equal to that many decimals count as equally even."""
SAME = 1e-9
"""Relative difference up to which costs of plans count as equal: as much as rounding changes a sum whose terms are
added in another order."""


def draw_costs(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the cost of each search's plan as a bar, with the least cost or the lower bound of plans that cut no
    table; None for a table without costs."""
    rows = rows_of(table)
    over = next((column.name for column in table.columns if column.name.startswith(_OVER)), None)
    costs = {printable(str(row.get("Search")), 20): number_of(row.get("Cost")) for row in rows}
    known = {name: cost_s for name, cost_s in costs.items() if cost_s is not None}
    if over is None or not known:
        return None
    bounds = [
        cost_s / (1 + beyond)
        for row in rows
        if (cost_s := number_of(row.get("Cost"))) is not None
        and is_amount(beyond := row.get(over))
        and -1 < beyond < _FAR
    ]
    unit = time_unit(known.values())
    bars = [
        Bar(name, (cost_s, 0.0), unit.text(cost_s))
        for name, cost_s in sorted(known.items(), key=lambda each: each[1])
    ]
    is_one = bool(bounds) and max(bounds) - min(bounds) <= _ONE_BOUND * max(
        bounds
    )  # several tasks have several bounds
    balance = {printable(str(row.get("Search")), 20): number_of(row.get("Balance")) for row in rows}
    known = {name: known[name] for name in [*find_cheapest(known, balance), *known]}
    lead = _say_cheapest(known, unit)
    if is_one:
        cutting = {printable(str(row.get("Search")), 20) for row in rows if row.get("Cuts tables") is True}
        lead += _say_bound(known, bounds[0], over.removeprefix(_OVER), cutting)
    title = "What each search's plan costs"
    figure = cost_figure(
        bars,
        f"the slowest device's time per step, {unit.name}",
        1 / unit.seconds,
        (bounds[0], over.removeprefix(_OVER)) if is_one else None,
        id_=id_,
        title=title,
        description=f"A bar per search. {lead}.",
    )
    return Chart(figure=figure, lead=f"{lead}.", table_note="The table below lists the numbers of this chart.")


def find_cheapest(costs: Mapping[str, float], balance: Mapping[str, float | None] | None = None) -> list[str]:
    """Return the searches whose plans cost least, apart from rounding. They are in the order of `costs` or, with
    `balance` (the load of the slowest device divided by the mean load, for each search), in the order of balance, the
    most even first."""
    least = [name for name, cost_s in costs.items() if cost_s <= min(costs.values()) * (1 + SAME)]
    return sorted(least, key=lambda name: round((balance or {}).get(name) or inf, _DIGITS))


def _say_cheapest(known: Mapping[str, float], unit: TimeUnit) -> str:
    """Name the search with the cheapest plan, or all searches whose plans cost the same but for rounding."""
    least = find_cheapest(known)
    if len(least) == 1:
        return f"The plan named {least[0]} is the cheapest of {len(known)}"
    both = f"The plans named {', '.join(least[:-1])} and {least[-1]} cost the same, {unit.text(known[least[0]])}"
    return both if len(least) == len(known) else f"{both}, the least of {len(known)}"


def _say_bound(known: Mapping[str, float], bound_s: float, name: str, cutting: Set[str]) -> str:
    """Say how far the cheapest plan's cost is above the least cost of plans that cut no table, or above a lower bound
    of that cost. A plan below it cuts tables, and the sentence says so."""
    least = find_cheapest(known)
    beyond = known[least[0]] / bound_s - 1
    if abs(beyond) <= SAME:
        return f": the {name.removesuffix(_OF_WHOLE)}, so no plan of whole tables is cheaper"
    cut = ": it cuts tables" if beyond < 0 and cutting >= {*least} else ""
    return f", {percent(abs(beyond))} {'below' if beyond < 0 else 'over'} the {name}{cut}"


def name_devices(study: StudyRecord) -> str:
    """Return the devices of a study in words: '8 cuda devices, 80 GiB at 2 TB/s each'; '' if the study has none."""
    number, memory_bytes = (find_parameter(study, name) for name in ("devices", "memory of one device"))
    bandwidth = find_parameter(study, "bandwidth of that memory")
    if number is None or memory_bytes is None or bandwidth is None:
        return ""
    kind = next((printable(each.value, 20) for each in study.parameters if each.name == "device type"), "")
    prefix = decimal_unit([bandwidth])
    rate = with_unit(f"{significant(bandwidth / prefix.factor)} {prefix.name}".rstrip(), "B/s")
    reserve = find_parameter(study, RESERVE) or 0.0
    free = f" ({percent(reserve)} kept free of tables)" if 0 < reserve < 1 else ""
    each = f"{num_bytes(memory_bytes)}{free} at {rate}" + (" each" if number > 1 else "")
    return f"{plural(int(number), f'{kind} device'.strip())}, {each}"


TERMS = {
    "Cost": "Time of the slowest device for embeddings in a step: lookups, updates and their exchange.",
    "Balance": "Cost of the slowest device, divided by the mean cost of all devices; 1 is even.",
    "dim": "A search that places tables in falling order of columns, each on the device with fewest columns so far.",
    "lookup": "A search that places tables in falling order of columns times lookups, each on the device with the "
    "least sum of these products so far.",
    "greedy": "A search that places tables in falling order of cost, each on the device of least cost so far.",
    "local": "A search that starts from the plan of the search 'greedy', moves and swaps tables, and cuts the "
    "costliest table in half.",
    "Beam over columns": "NeuroShard's search without its cost net: cuts of columns around greedy placements.",
    "Repaired": "A plan whose search had no room for a table on any device, until other tables were moved.",
    "Optimum": "The cheapest plan that cuts no table, found by trying all such plans.",
    "Bound": "Lower bound of the cost of plans that cut no table; plans that cut tables may cost less.",
    "Kendall's tau": "Similarity of two rankings: 1 if they agree, 0 if they are unrelated.",
    "Sharding": "How a table is laid over devices: whole (table_wise), cut by rows or columns, or copied to each "
    "(data_parallel).",
}
DETAILS = Details(chart=draw_costs, terms=TERMS, modelled=name_devices)
