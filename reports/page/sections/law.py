"""Scaling laws of the page: models of several sizes on one chart, and what the laws say where their ranges meet."""

import math
from collections.abc import Sequence

from reports.charts.law import LawDot, LawSeries, law_figure
from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Block, Chart, Prose, numeric, table_of
from reports.document.page import PageSection
from reports.facts.scaling_law import ScalingLaw, Size
from reports.statistics.power_law import MAX_EXPONENT, PowerLaw
from reports.text.formatting import MISSING, interval, plural, printable

FORMULA = "normalised entropy = a·C^−b + c"


def law_words(law: ScalingLaw) -> str:
    """Say in a sentence what was fitted, or why nothing was."""
    if (fitted := law.fitted) is None:
        return f"No scaling law was fitted: {law.why_not}."
    return (
        f"Scaling law: {FORMULA} over training FLOP C, exponent b {fitted.exponent:.3f}{_interval_words(fitted)}, "
        f"a {fitted.factor:.3g}, c {fitted.floor:.4f}, from {plural(fitted.num_sizes, 'size')} over "
        f"{fitted.decades:.1f} decades of C ({fitted.low:.2g} to {fitted.high:.2g} FLOP); quality measured, FLOP "
        f"computed, law fitted.{_warning(fitted)}"
    )


def law_record(law: ScalingLaw | None) -> dict[str, object]:
    """Return the law as plain values, for json; nothing where none was asked for."""
    if law is None:
        return {}
    fitted = law.fitted
    if fitted is None:
        return {"law": {"why_not": law.why_not}}
    bounds = fitted.interval
    return {
        "law": {
            "formula": "normalised_entropy = factor * training_flop ** -exponent + floor",
            "exponent": fitted.exponent,
            "exponent_low": bounds.low if bounds else None,
            "exponent_high": bounds.high if bounds else None,
            "confidence": bounds.confidence if bounds else None,
            "method": bounds.method if bounds else None,
            "factor": fitted.factor,
            "floor": fitted.floor,
            "training_flop_low": fitted.low,
            "training_flop_high": fitted.high,
            "num_sizes": fitted.num_sizes,
            "num_seeds": fitted.num_seeds,
        }
    }


def law_sections(sweeps: Sequence[SweepFacts]) -> tuple[PageSection, ...]:
    """Make a section per dataset; the sweeps on one dataset, of one model each, share its chart."""
    found: dict[tuple[object, ...], list[tuple[str, ScalingLaw]]] = {}
    for sweep in sweeps:
        if sweep.law is not None and sweep.law.sizes:
            found.setdefault(sweep.law.data, []).append((_name(sweep), sweep.law))
    return tuple(_section(laws, f"law{number}") for number, laws in enumerate(found.values(), start=1))


def _section(laws: Sequence[tuple[str, ScalingLaw]], id_: str) -> PageSection:
    title = "Quality over training FLOP"
    lead = _lead(laws)
    series = [
        LawSeries(name=name, dots=tuple(map(_dot, law.sizes)), law=law.fitted.at if law.fitted else None)
        for name, law in laws
    ]
    chart = Chart(
        figure=law_figure(series, id_=f"{id_}-chart", title=title, description=f"{title}. {lead}"),
        heading=title,
        lead=lead,
        table_note="The tables of sizes and laws have the numbers.",
    )
    blocks: tuple[Block, ...] = (chart, *_law_table(laws, id_), _size_table(laws, id_))
    notes = [f"{name}: {law_words(law)}" for name, law in laws if law.fitted is None]
    notes += [f"{name}:{words}" for name, law in laws if law.fitted and (words := _warning(law.fitted))]
    notes.append(
        "Quality is measured, after the same number of samples; FLOP are computed, of matrix products, two per "
        "multiply-add; the law is fitted, and says nothing beyond its range."
    )
    return PageSection(
        id=id_,
        heading="Scaling laws",
        name="Scaling laws",
        blocks=(*blocks, *(Prose(text=n, kind="note") for n in notes)),
    )


def _lead(laws: Sequence[tuple[str, ScalingLaw]]) -> str:
    """Say which model is the best at the most computing that all have, or what the one law is."""
    fitted = [(name, law.fitted) for name, law in laws if law.fitted is not None]
    if len(fitted) < 2:
        return law_words(laws[0][1])
    low, high = max(law.low for _, law in fitted), min(law.high for _, law in fitted)
    if low > high:
        return "The sizes of these models share no range of training FLOP, so nothing is matched."
    ranked = sorted((law.at(high), name) for name, law in fitted)
    words = ", ".join(f"{name} {value:.4f}" for value, name in ranked)
    return (
        f"At {high:.2g} training FLOP, the most that all of them reach, the laws say: {words} (fitted; lower is "
        "better)."
    )


def _law_table(laws: Sequence[tuple[str, ScalingLaw]], id_: str) -> tuple[Block, ...]:
    rows = [(name, law.fitted) for name, law in laws if law.fitted is not None]
    if not rows:
        return ()
    columns = (
        ("Model", lambda row: row[0]),
        (numeric("Exponent b", "fitted"), lambda row: f"{row[1].exponent:.3f}"),
        (numeric("95 % interval, b", "bootstrap over seeds"), lambda row: _ends(row[1])),
        (numeric("Factor a", "fitted"), lambda row: f"{row[1].factor:.3g}"),
        (numeric("Floor c", "fitted"), lambda row: f"{row[1].floor:.4f}"),
        (numeric("Sizes"), lambda row: str(row[1].num_sizes)),
        (numeric("Seeds"), lambda row: str(row[1].num_seeds)),
        (numeric("Decades", "of training FLOP"), lambda row: f"{row[1].decades:.2f}"),
    )
    return (table_of(rows, columns, id_=f"{id_}-laws", caption=f"Fitted: {FORMULA}"),)


def _size_table(laws: Sequence[tuple[str, ScalingLaw]], id_: str) -> Block:
    rows = [(name, size, law.fitted) for name, law in laws for size in law.sizes]
    columns = (
        ("Model", lambda row: row[0]),
        ("Size", lambda row: printable(row[1].label, 80)),
        (numeric("Training FLOP", "computed"), lambda row: f"{row[1].training_flop:.4g}"),
        (numeric("Normalised entropy", "measured, mean over seeds"), lambda row: f"{row[1].entropy:.5f}"),
        (
            numeric("By the law", "fitted"),
            lambda row: f"{row[2].at(row[1].training_flop):.5f}" if row[2] else MISSING,
        ),
        (numeric("AUC", "measured, mean over seeds"), lambda row: f"{math.fsum(row[1].aucs) / len(row[1].aucs):.5f}"),
    )
    return table_of(rows, columns, id_=f"{id_}-sizes", caption="Sizes of the models", is_sortable=True)


def _dot(size: Size) -> LawDot:
    hint = f"{printable(size.label, 80)}: {size.training_flop:.3g} FLOP, {size.entropy:.5f}"
    return LawDot(x=size.training_flop, y=size.entropy, seeds=size.entropies, hint=hint)


def _name(sweep: SweepFacts) -> str:
    """Name a sweep as what it measured, 'wukong_small_quality' without its ending."""
    names = {row.measured.benchmark for row in sweep.rows if row.measured and row.measured.benchmark}
    return printable(min(names).removesuffix("_quality") if len(names) == 1 else sweep.name, 60)


def _ends(fitted: PowerLaw) -> str:
    return interval(f"{fitted.interval.low:.3f}", f"{fitted.interval.high:.3f}") if fitted.interval else MISSING


def _interval_words(fitted: PowerLaw) -> str:
    return f" (95 % interval {_ends(fitted)}, {fitted.interval.method})" if fitted.interval else ""


def _warning(fitted: PowerLaw) -> str:
    """Say what such seeds and sizes leave open."""
    if fitted.exponent == 0:
        return " Quality does not improve with training FLOP here."
    if fitted.interval is not None and fitted.interval.low <= 0:
        return " The interval holds zero: no gain from more computing is shown."
    if fitted.interval is not None and fitted.interval.high >= MAX_EXPONENT:
        return f" The interval ends where the search does, at {MAX_EXPONENT:g}: these sizes do not tell b from c."
    return ""
