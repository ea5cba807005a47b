"""Define the chart (energy against latency of accelerator designs) and the glossary of codesign studies."""

from functools import partial

from reports.charts import svg
from reports.charts.xy import ChartAxis, Dot, Panel, Series, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import number_of, rows_of
from reports.text.formatting import decimal_unit, duration, printable, significant, time_unit
from rules.records.study import StudyRecord, StudyTable

BY_HAND = "by hand"
"""Name of the baseline design in the column 'Mode' of a study's designs."""
_MOST = 1e9
"""Largest latency in seconds, and largest energy in joules, of a design that the chart draws."""


def draw_designs(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw energy against latency, a dot per design with the names of all search modes that found it; None for a
    table without designs."""
    modes: dict[tuple[float, float], list[str]] = {}
    for row in rows_of(table):
        place = number_of(row.get("Latency")), number_of(row.get("Energy"))
        if place[0] is not None and place[1] is not None and max(place[0], place[1]) < _MOST and "Mode" in row:
            names = modes.setdefault((place[0], place[1]), [])
            names += [name] if (name := printable(str(row["Mode"]), 20)) not in names else []
    if not modes:
        return None
    unit, energy = time_unit(latency_s for latency_s, _ in modes), decimal_unit([energy_j for _, energy_j in modes])
    dots: dict[str, list[Dot]] = {}
    for (latency_s, energy_j), names in modes.items():
        name = _found_by(names)
        hint = f"{name}: {duration(latency_s)}, {significant(energy_j / energy.factor)} {energy.name}J"
        dots.setdefault(name, []).append(Dot(x=latency_s / unit.seconds, y=energy_j / energy.factor, hint=hint))
    xs, ys = ([place[at] for place in modes] for at in (0, 1))
    panel = Panel(
        x=ChartAxis(
            name=f"latency of a step, {unit.name}, modelled",
            scale=partial(svg.Scale, *svg.padded([latency_s / unit.seconds for latency_s in xs], 0.1)),
        ),
        y=ChartAxis(
            name=f"energy of a step, {energy.name}J, modelled",
            scale=partial(svg.Scale, *svg.padded([energy_j / energy.factor for energy_j in ys], 0.15)),
        ),
        series=[
            Series(name=name, hue=hue % 5, dots=of, is_joined=False) for hue, (name, of) in enumerate(dots.items())
        ],
    )
    figure = xy_figure(panel, id_=id_, title="Pareto front: energy over latency", description="A dot per design.")
    return Chart(figure=figure, table_note="The table below lists the numbers of this chart.")


def _found_by(modes: list[str]) -> str:
    """Say how a design was found: "designed by hand, also found by 'hardware first'", or "found by 'hardware first'
    and 'together'"."""
    searches = [f"'{mode}'" for mode in modes if mode != BY_HAND]
    found = " and ".join(filter(None, (", ".join(searches[:-1]), *searches[-1:])))
    if len(searches) == len(modes):
        return f"found by {found}"
    return f"designed {BY_HAND}, also found by {found}" if found else f"designed {BY_HAND}"


def name_array(study: StudyRecord) -> str:
    """Return the name of the PE array that a study models; empty for studies that do not name one."""
    return next((printable(str(each.value), 60) for each in study.parameters if each.name == "array"), "")


TERMS = {
    "PE": "Processing element: one multiply-add unit of an array.",
    "Scratchpad": "Memory on the chip that holds the tiles of a matrix product.",
    "Tile": "The part of a matrix product that is in the scratchpad at once.",
    "Energy-delay": "Energy of a training step times its latency.",
    "Pareto front": "Designs that no other design beats in one objective without being worse in the other.",
    "By hand": "The baseline design: the first value of each parameter of the design space.",
    "Hardware first": "Search of the hardware with the baseline's tile, then of the tile for the hardware found "
    "(--mode separate).",
    "Together": "Search of hardware and tile at once (--mode joint).",
    "gp": "Bayesian search by a Gaussian process, a model of the points tried so far.",
    "nsga2": "NSGA-II, an evolutionary search.",
}
DETAILS = Details(chart=draw_designs, terms=TERMS, modelled=name_array)
