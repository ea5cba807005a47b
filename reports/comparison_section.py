"""Every configuration against the baseline: why it takes longer or shorter, and how sure that is."""

import math
import re
from collections.abc import Sequence

from reports.charts.factors import FactorBar, FactorPanel, factors_figure
from reports.comparison import Comparison, FactorComparison, compare_all
from reports.facts import SetFacts
from reports.figures import sorted_cell
from reports.formatting import (
    MINUTES,
    MISSING,
    TimeUnit,
    count,
    interval,
    percent,
    plural,
    printable,
    ratio,
    throughput,
    time_unit,
)
from reports.verdict_section import names
from reports.view import Block, Cell, Chart, Column, Fold, Prose, Section, Table
from reports.wording import needs, sentence

MAX_PANELS = 8
_NAMES = {
    "time_to_train": "Time to train",
    "samples_to_converge": "Samples to converge",
    "throughput": "Throughput",
    "overhead": "Evaluation and overhead",
}
_FACTOR = re.compile(r"(?<=[\d∞])x\b")
_NOTES = {
    "cross-system": "cross-system, measured on different systems, which is part of the difference",
    "paired": "paired, because the runs have the seeds of runs of the baseline",
}
_KINDS = {"slower": "bad", "faster": "valid"}


def compare_group(group: Sequence[SetFacts], baseline: SetFacts) -> tuple[Comparison, ...]:
    """All others of the group against `baseline`, in their order."""
    others = [one for one in group if one is not baseline]
    return compare_all(baseline, others) if others else ()


def comparison_sections(
    group: Sequence[SetFacts], baseline: SetFacts, comparisons: Sequence[Comparison], id_: str
) -> tuple[Section, ...]:
    """What the difference consists of, and the table of its tests; nothing for a lone configuration."""
    if not comparisons:
        return ()
    name = f"{printable(baseline.label, 80)}"
    why: list[Block] = []
    usable = [one for one in comparisons if one.factors]
    for number in range(0, len(usable), MAX_PANELS):
        chart = _chart(usable[number : number + MAX_PANELS], name, f"{id_}-why-chart{number // MAX_PANELS + 1}")
        if number == 0:
            why.append(chart)
        else:
            last = min(number + MAX_PANELS, len(usable))
            why.append(Fold(summary=f"Configurations {number + 1} to {last}", blocks=(chart,)))
    refused = [one for one in comparisons if one.refusal is not None]
    why += [Prose(text=f"{one.new}: not compared, {printable(one.refusal)}.", kind="note") for one in refused[:12]]
    if len(refused) > 12:
        why.append(Prose(text=f"{len(refused) - 12} more were not compared, for such reasons.", kind="note"))
    sections = [Section(id=f"{id_}-why", heading="What the difference is made of", name="Why", blocks=tuple(why))]
    if usable:
        sections.append(_table_section(usable, name, id_))
    return tuple(sections)


def _chart(comparisons: Sequence[Comparison], baseline: str, id_: str) -> Chart:
    panels = [
        FactorPanel(
            label=f"{one.new}: {one.verdict}" if one.verdict in ("faster", "slower") else one.new,
            bars=tuple(_bar(factor, is_whole=factor is one.whole) for factor in one.factors),
        )
        for one in comparisons
    ]
    told = " ".join(with_sign(f"{one.new}: {sentence(one)}") for one in comparisons[:3])
    title = "What the difference is made of"
    return Chart(
        figure=factors_figure(
            panels, id_=id_, title=title, description=f"Effects on the time against {baseline}. {told}"
        ),
        heading="",
        lead=told if len(comparisons) <= 3 else "",
        table=None,
        table_note=f"Against {baseline}; above 1× is slower. The bars of the factors add up to the bar of the whole, "
        "because the axis is logarithmic. The comparison table has the numbers.",
    )


def with_sign(text: str) -> str:
    """Factors with the sign of the page's numbers: the terminal's '1.60x' is '1.60×'."""
    return _FACTOR.sub("×", text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _bar(factor: FactorComparison, *, is_whole: bool) -> FactorBar:
    on_time = factor.time_interval
    return FactorBar(
        name=_NAMES[factor.name],
        time_ratio=factor.time_ratio,
        low=on_time.low if on_time else None,
        high=on_time.high if on_time else None,
        verdict=factor.verdict,
        is_whole=is_whole,
    )


def _table_section(comparisons: Sequence[Comparison], baseline: str, id_: str) -> Section:
    first = comparisons[0]
    family = f"{plural(sum(len(one.factors) for one in comparisons), 'test')}"
    how = (
        f"Ratios are of geometric means over the runs that converged, {baseline} = 1. A verdict goes by the interval "
        f"at the level that Holm's procedure leaves it among {family}, and by the smallest effect that matters, "
        f"{percent(first.min_effect, 0)}; p and δ are shown and decide nothing."
    )
    blocks: list[Block] = [Prose(text=how)]
    if len(comparisons) <= 3:
        blocks.append(_table(comparisons, f"{id_}-comparison-table", whole_only=False))
    else:
        blocks.append(_table(comparisons, f"{id_}-comparison-table", whole_only=True))
        table = _table(comparisons, f"{id_}-comparison-factors", whole_only=False)
        blocks.append(Fold(summary=f"All factors of all {len(comparisons)} comparisons", blocks=(table,)))
    blocks += [Prose(text=note, kind="note") for note in _notes(comparisons)[:12]]
    return Section(
        id=f"{id_}-comparison", heading="Comparison with the baseline", name="Comparison", blocks=tuple(blocks)
    )


def _notes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What must be known beside the table; what several comparisons share is said once, with their names."""
    said: dict[str, list[str]] = {}
    for one in comparisons:
        for note in (*one.notes, *_tags(one)):
            said.setdefault(_NOTES.get(note, f"{note}"), []).append(one.new)
    every = len(comparisons)
    return tuple(
        _capital(printable(note, 400)) + "." if len(labels) == every else f"{names(labels)}: {printable(note, 400)}."
        for note, labels in said.items()
    )


def _tags(one: Comparison) -> tuple[str, ...]:
    return tuple(word for word, holds in (("cross-system", one.is_cross_system), ("paired", one.is_paired)) if holds)


def _table(comparisons: Sequence[Comparison], id_: str, *, whole_only: bool) -> Table:
    rows = []
    unit = time_unit(
        value
        for one in comparisons
        for factor in one.factors
        if factor.name == "time_to_train"
        for value in (factor.base_value, factor.new_value)
    )
    for one in comparisons:
        for factor in one.factors[:1] if whole_only else one.factors:
            rows.append(_row(one, factor, MINUTES if unit.seconds > MINUTES.seconds else unit))
    columns = (
        Column(name="Configuration" if whole_only else "Configuration and factors"),
        Column(name="Baseline", is_number=True, help="runs"),
        Column(name="This", is_number=True, help="runs"),
        Column(name="Ratio", is_number=True, help="95 % interval"),
        Column(name="p", is_number=True, help="permutation"),
        Column(name="δ", is_number=True, help="Cliff's"),
        Column(name="Verdict"),
    )
    # Factors belong below their configuration, so only a table without them can be sorted.
    return Table(
        id=id_, caption="Each configuration against the baseline", columns=columns, rows=tuple(rows),
        is_sortable=whole_only, style="comparison",
    )  # fmt: skip


def _row(one: Comparison, factor: FactorComparison, unit: TimeUnit) -> tuple[Cell, ...]:
    told, bounds = _words(factor, unit), factor.interval
    shown = interval(ratio(bounds.low), ratio(bounds.high)) if bounds is not None else ""
    hint = factor.reason or (needs(factor) if factor.verdict == "inconclusive" else "")
    quantity = " · ".join((_NAMES[factor.name].lower(), *_tags(one)))
    is_whole = factor is one.whole
    return (
        Cell(text=one.new, sub=quantity, kind="whole") if is_whole else Cell(text=_NAMES[factor.name], kind="factor"),
        sorted_cell(told[0], factor.base_value, sub=str(factor.num_base)),
        sorted_cell(told[1], factor.new_value, sub=str(factor.num_new)),
        Cell(text=ratio(factor.ratio), kind="strong", sub=shown),
        Cell(text=_p(factor.permutation_p)),
        Cell(text=MISSING if factor.cliffs_delta is None else f"{factor.cliffs_delta:+.2f}".replace("-", "−")),
        Cell(text=factor.verdict, kind=_KINDS.get(factor.verdict, ""), sub=printable(hint, 160) if hint else ""),
    )


def _words(factor: FactorComparison, unit: TimeUnit) -> tuple[str, str]:
    values = (factor.base_value, factor.new_value)
    if factor.name == "time_to_train":
        return unit.text(values[0]), unit.text(values[1])
    if factor.name == "samples_to_converge":
        return count(values[0]), count(values[1])
    if factor.name == "throughput":
        return f"{throughput(values[0])}/s", f"{throughput(values[1])}/s"
    return ratio(values[0]), ratio(values[1])


def _p(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"
