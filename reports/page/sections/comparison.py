"""Makes the sections that compare every configuration with the baseline: what the difference in time consists of
(samples to converge, throughput, evaluation and overhead), and how certain it is."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from reports.charts.factors import FactorBar, FactorPanel, factors_figure
from reports.comparison.comparison import GroupContext, compare_results
from reports.comparison.export import circumstances, method_line, olympic_words, p_text, permutation_note
from reports.comparison.factor import overhead_share
from reports.comparison.records import Comparison, FactorComparison
from reports.comparison.wording import could_show, needs, plain_sentence, rejected_words, verdict_text, with_sign
from reports.document.blocks import Block, Bullets, Cell, Chart, Fold, Prose, Table, numeric, portions, table_of
from reports.document.page import PageSection
from reports.page.figures.detail import MOST_DETAILED, MOST_WHOLE
from reports.parts.cells import bounds_text, sorted_cell
from reports.results.result import Result
from reports.text.formatting import (
    MINUTES,
    TimeUnit,
    capital,
    count,
    names,
    percent,
    printable,
    ratio,
    throughput,
    time_unit,
)

MAX_PANELS = 8
MAX_BARS = 50
MAX_WHOLE = 3
"""Maximum number of comparisons with the baseline that are all shown in full: each has a sentence, and a table row
for every factor of the time to train (such as throughput). If there are more comparisons, the main table has only
times to train, and a second, folded table has the factors."""
_NAMES = {
    "time_to_train": "Time to train",
    "samples_to_converge": "Samples to converge",
    "throughput": "Throughput",
    "overhead": "Evaluation and overhead",
}
_KINDS = {"slower": "bad", "faster": "valid"}


class _ComparedFactor(NamedTuple):
    """Row of a table of comparisons: one factor of the time to train (such as throughput) as compared between two
    configurations, with the whole comparison of the two."""

    comparison: Comparison
    factor: FactorComparison


def compare_group(
    group: Sequence[Result], baseline: Result, context: GroupContext, *, is_brief: bool = False
) -> tuple[Comparison, ...]:
    """Compare each other result of a group with `baseline`, in the group's order."""
    others = [result for result in group if result is not baseline]
    rejected = [result.outcome == "invalid" for result in others]
    explained = () if is_brief else _explained(rejected)
    return compare_results(baseline, others, context=context, explained=explained)


def _explained(rejected: Sequence[bool]) -> set[int]:
    """Return the indices of the comparisons that are shown with all factors of the time to train (samples to
    converge, throughput, overhead). These are all comparisons if there are few, else the first ones and those of
    INVALID sets. `rejected` has, for each comparison, whether its set is INVALID."""
    number = len(rejected) if len(rejected) < MOST_WHOLE else MOST_DETAILED
    return {place for place, is_rejected in enumerate(rejected) if place < number or is_rejected}


def why_section(baseline: Result, comparisons: Sequence[Comparison], id_: str) -> PageSection | None:
    """Return the section on why configurations differ in time to train: by samples to converge, throughput or
    overhead; None where there is only one configuration."""
    if not comparisons:
        return None
    usable = [comparison for comparison in comparisons if comparison.factors]
    why = _charts(usable, printable(baseline.label, 80), f"{id_}-why-chart")
    refused = [comparison for comparison in comparisons if comparison.refusal is not None]
    why += [
        Prose(text=f"{entry.new}: not compared, {printable(entry.refusal)}.", kind="note") for entry in refused[:12]
    ]
    if len(refused) > 12:
        rest = f"{len(refused) - 12} more configurations were not compared, for reasons of these kinds."
        why.append(Prose(text=rest, kind="note"))
    return PageSection(id=f"{id_}-why", heading="Causes of the difference", name="Why", blocks=tuple(why))


def _charts(comparisons: Sequence[Comparison], baseline: str, id_: str) -> list[Block]:
    """Return charts of the differences in time to train: which part of each is due to samples to converge, throughput
    and overhead. If there are many configurations, one chart of their times comes first, and the other charts are
    folded below it."""
    is_many = len(comparisons) > MAX_PANELS
    blocks: list[Block] = _sentences(comparisons)
    if is_many:
        lead = _count_verdicts(comparisons, baseline)
        blocks.append(_overview(comparisons[:MAX_BARS], baseline, f"{id_}-all1", lead))
    shown = comparisons if len(comparisons) < MOST_WHOLE else comparisons[:MAX_PANELS]
    for number, (words, part) in enumerate(portions(shown, MAX_PANELS)):
        chart = _chart(part, baseline, f"{id_}{number + 1}")
        summary = f"Causes of the differences of configurations {words}"
        blocks.append(Fold(summary=summary, blocks=(chart,)) if is_many else chart)
    return blocks


def _count_verdicts(comparisons: Sequence[Comparison], baseline: str) -> str:
    counts = Counter(comparison.verdict for comparison in comparisons)
    text = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    drawn = f" Drawn are the first {MAX_BARS}; the comparison table has all." if len(comparisons) > MAX_BARS else ""
    return f"Against '{baseline}': {text}.{drawn}"


def _overview(comparisons: Sequence[Comparison], baseline: str, id_: str, lead: str) -> Chart:
    """Return a chart with one bar per configuration: the ratio of the configuration's time to train to the
    baseline's."""
    wholes = [(comparison, whole) for comparison in comparisons if (whole := comparison.whole) is not None]
    bars = (
        replace(_bar(comparison, whole), name=comparison.new, verdict=comparison.verdict, is_whole=False)
        for comparison, whole in wholes
    )
    panels = [FactorPanel(label=_NAMES[wholes[0][1].name], bars=tuple(bars))]
    title = "Each configuration against the baseline"
    figure = factors_figure(
        panels,
        id_=id_,
        title=title,
        description=lead or f"Against '{baseline}'.",
        interval_name=interval_name(comparisons),
    )
    return Chart(figure=figure, lead=lead, table_note="The comparison table lists the ratios of this chart.")


def _chart(comparisons: Sequence[Comparison], baseline: str, id_: str) -> Chart:
    panels = [
        FactorPanel(
            label=f"{comparison.new}: {comparison.verdict}{rejected_words(comparison)}"
            if comparison.verdict in ("faster", "slower")
            else comparison.new,
            bars=tuple(_bar(comparison, factor) for factor in comparison.factors),
        )
        for comparison in comparisons
    ]
    text = " ".join(map(_sentence, comparisons[:MAX_WHOLE]))
    title, about = "Causes of the difference", f"Effects on the time against '{baseline}'. {text}"
    name = interval_name(comparisons)
    return Chart(
        figure=factors_figure(panels, id_=id_, title=title, description=about, interval_name=name),
        table_note=f"Ratios to '{baseline}'; above 1× is slower. The time to train is the product of its factors, so "
        "on the logarithmic axis the factors' bars add up to the bar of the time to train. The "
        "comparison table lists the ratios of this chart.",
    )


def _sentences(comparisons: Sequence[Comparison]) -> list[Block]:
    """Return a sentence for each comparison with the baseline; no sentence at all where there are more than MAX_WHOLE
    comparisons."""
    if len(comparisons) > MAX_WHOLE:
        return []
    texts = tuple(_sentence(comparison) for comparison in comparisons)
    return [Prose(text=texts[0])] if len(texts) == 1 else [Bullets(items=texts, kind="list")]


def _sentence(comparison: Comparison) -> str:
    rejected = _rejected(comparison)
    told = f"'{comparison.new}' against the baseline: {plain_sentence(comparison, comparison.base)}"
    return with_sign(f"{rejected}. {told}" if rejected else told)


def _rejected(comparison: Comparison) -> str:
    """Return words that say which of two compared results is INVALID: "'b' and its baseline 'a' are both INVALID by
    the rules"; '' where neither is."""
    if len(comparison.invalid_sides) == 2:
        return f"'{comparison.new}' and its baseline '{comparison.base}' are both INVALID by the rules"
    which = comparison.new if "new" in comparison.invalid_sides else comparison.base
    return f"'{which}' is INVALID by the rules" if comparison.invalid_sides else ""


def _bar(comparison: Comparison, factor: FactorComparison) -> FactorBar:
    on_time = factor.time_interval
    return FactorBar(
        name=_NAMES[factor.name],
        time_ratio=factor.time_ratio,
        low=on_time.low if on_time else None,
        high=on_time.high if on_time else None,
        verdict=factor.verdict,
        is_whole=factor is comparison.whole,
        is_rejected=bool(comparison.invalid_sides),
    )


def comparison_section(baseline: Result, comparisons: Sequence[Comparison], id_: str) -> PageSection | None:
    """Return the section with the table of statistical tests against the baseline; None where nothing is compared."""
    usable = [comparison for comparison in comparisons if comparison.factors]
    return _table_section(usable, printable(baseline.label, 80), id_) if usable else None


def _table_section(comparisons: Sequence[Comparison], baseline: str, id_: str) -> PageSection:
    places = _explained(["new" in entry.invalid_sides for entry in comparisons])
    explained = {entry.new for place, entry in enumerate(comparisons) if place in places}
    lead = f"Ratios are of geometric means over converged runs, relative to those of the baseline '{baseline}'."
    blocks: list[Block] = [Prose(text=lead)]
    if len(comparisons) <= MAX_WHOLE:
        blocks.append(_table(comparisons, f"{id_}-comparison-table", explained, whole_only=False))
    else:
        blocks.append(_table(comparisons, f"{id_}-comparison-table", explained, whole_only=True))
        shown = [entry for entry in comparisons if entry.new in explained]
        table = _table(shown, f"{id_}-comparison-factors", explained, whole_only=False)
        of_all = f"all {len(shown)} comparisons" if len(shown) == len(comparisons) else f"{len(shown)} comparisons"
        blocks.append(Fold(summary=f"All factors of {of_all}", blocks=(table,)))
    blocks += [Prose(text=note, kind="note") for note in _notes(comparisons)[:12]]
    if method := method_line(comparisons):
        blocks.append(Prose(text=f"{method} {permutation_note(comparisons)}", kind="note"))
    return PageSection(
        id=f"{id_}-comparison", heading="Comparison with the baseline", name="Comparison", blocks=tuple(blocks)
    )


def _notes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Return the notes below the table of comparisons. A note that applies to several comparisons appears once and
    begins with the names of their configurations. A note that applies to all comparisons has no names."""
    said: dict[str, list[str]] = {}
    for comparison in comparisons:
        texts = [*circumstances(comparison), *([olympic_words(comparison)] if len(comparisons) <= MAX_WHOLE else [])]
        for note in texts:
            is_of_base = note.startswith("base: ")
            said.setdefault(f"{comparison.base}{note[4:]}" if is_of_base else note, []).append(comparison.new)
    found = []
    for note, labels in said.items():
        is_of_new = note.startswith("new: ")
        is_of_all = len(labels) == len(comparisons) and not is_of_new
        words = note.removeprefix("new: ")
        is_named = words.startswith(tuple(f"{comparison.base}: " for comparison in comparisons))
        shown = words if is_named else capital(words)
        found.append(printable(shown if is_of_all else f"{names(labels)}: {words}", 400))
    return tuple(note for note in found if note)


def _table(comparisons: Sequence[Comparison], id_: str, explained: Collection[str], *, whole_only: bool) -> Table:
    most = 1 if whole_only else None
    factors = [_ComparedFactor(entry, factor) for entry in comparisons for factor in entry.factors[:most]]
    times = [factor for _, factor in factors if factor.name == "time_to_train"]
    times_s = [value for factor in times for value in (factor.base_value, factor.new_value)]
    unit = min(time_unit(times_s), MINUTES, key=lambda unit: unit.seconds)
    name = "Configuration" if whole_only else "Configuration and factors"
    # Rows of factors belong below their configuration, so only a table without such rows can be sorted.
    return table_of(
        factors,
        (
            (name, _name_cell),
            ("Verdict", lambda row: _verdict_cell(row, is_explained=row.comparison.new in explained)),
            (numeric("Ratio", interval_name(comparisons)), "factor", _ratio_cell),
            (numeric("Baseline", "runs"), "factor", lambda it: _value_cell(it, it.base_value, it.num_base, unit)),
            (numeric("This", "runs"), "factor", lambda it: _value_cell(it, it.new_value, it.num_new, unit)),
            (numeric("p", "permutation"), "factor.permutation_p", p_text),
            (numeric("δ", "Cliff's"), "factor.cliffs_delta", lambda delta: f"{delta:+.2f}".replace("-", "−")),
        ),
        id_=id_,
        caption="Each configuration against the baseline",
        is_sortable=whole_only,
        style="comparison",
    )


def interval_name(comparisons: Sequence[Comparison]) -> str:
    """Return the name of the confidence intervals of the ratios in the table of comparisons: '95 % interval,
    Holm-adjusted'. If too few runs were made for any verdict, nothing is adjusted, and the name is '95 %
    interval'."""
    adjusted = [factor.adjusted_interval for comparison in comparisons for factor in comparison.factors]
    text = percent(comparisons[0].confidence, 0) if comparisons else ""
    return f"{text} interval" + (", Holm-adjusted" if any(adjusted) else "")


def _name_cell(row: _ComparedFactor) -> Cell:
    comparison, factor = row
    if factor is not comparison.whole:
        return Cell(text=_NAMES[factor.name], kind="factor")
    tags = (
        ("cross-system", comparison.is_cross_system),
        ("paired", comparison.is_paired),
        ("one after the other", comparison.is_one_after_the_other),
    )
    quantity = " · ".join((_NAMES[factor.name].lower(), *(word for word, holds in tags if holds)))
    return Cell(text=comparison.new, sub=quantity, kind="whole")


def _verdict_cell(row: _ComparedFactor, *, is_explained: bool) -> Cell:
    comparison, factor = row
    hint = factor.reason or ""
    if not hint and is_explained and factor.verdict == "inconclusive":
        # More runs help if results were measured alternately; else give the detectable difference of these runs.
        hint = could_show(factor) if comparison.is_one_after_the_other else needs(factor)
    verdict, words = factor.verdict, verdict_text(factor)
    if factor is comparison.whole:
        if comparison.verdict != verdict:
            verdict = words = comparison.verdict
            hint = f"by the runs that reach the target: {comparison.num_new_converged} of {comparison.num_new}, "
            hint += f"against {comparison.num_base_converged} of {comparison.num_base}"
        hint = "; ".join(filter(None, (_rejected(comparison), hint)))
        words += rejected_words(comparison)
    kind = "" if comparison.invalid_sides else _KINDS.get(verdict, "")
    return Cell(text=words, kind=kind, sub=printable(hint, 400) if hint else "")


def _ratio_cell(factor: FactorComparison) -> Cell:
    return Cell(text=ratio(factor.ratio), kind="strong", sub=bounds_text(factor.shown_interval, ratio, ""))


def _value_cell(factor: FactorComparison, value: float | None, num_runs: int, unit: TimeUnit) -> Cell:
    """Return the table cell with one configuration's time to train, or with a factor of it such as throughput, and
    the number of runs."""
    forms: dict[str, Callable[[float | None], str]] = {
        "time_to_train": unit.text,
        "samples_to_converge": count,
        "throughput": lambda value: f"{throughput(value)}/s",
        "overhead": lambda value: ratio(value) + (f" ({overhead_share(value)})" if value else ""),
    }
    return sorted_cell(forms.get(factor.name, ratio)(value), value, sub=str(num_runs))
