"""Makes the sections on scaling laws: models of several sizes on one chart, and a comparison of the laws at one
amount of training compute (FLOP) that lies in the fitted range of every law."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from reports.charts.sweep import law_figure
from reports.charts.xy import Dot, Series
from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Block, Chart, Prose, Shown, numeric, table_of
from reports.document.page import PageSection
from reports.facts.scaling_law import ScalingLaw, Size
from reports.parts.law import FORMULA, chosen_words, exponent_ends, law_warning, law_words
from reports.statistics.power_law import CONFIDENCE, PowerLaw
from reports.text.formatting import MISSING, distinct_labels, interval, printable, si, with_unit


@dataclass(frozen=True, kw_only=True, slots=True)
class _ModelLaw:
    """Scaling law fitted to a sweep, with a name for the sweep's model; names are distinct on a page."""

    name: str
    law: ScalingLaw


@dataclass(frozen=True, kw_only=True, slots=True)
class _Match:
    """Comparison of several models' scaling laws at `compute` training FLOP. `values` is a dict from the name of each
    law to its normalised entropy there, the best law first. `gaps` is a dict from the name of each law except the
    best to the confidence interval of its difference from the best law; the interval is None if one of the two laws
    was fitted to a single seed."""

    compute: float
    values: Mapping[str, float]
    gaps: Mapping[str, tuple[float, float] | None]


def law_sections(sweeps: Sequence[SweepFacts]) -> tuple[PageSection, ...]:
    """Return the page's sections on scaling laws. Laws of the same dataset and number of samples share a section and
    a chart, with one law per sweep. A note names the sweeps that are in other sections, with the reason."""
    groups: list[list[_ModelLaw]] = []
    for named in _named([sweep for sweep in sweeps if sweep.law is not None and sweep.law.sizes]):
        found = next((group for group in groups if not _why_apart(named, group[0])), None)
        if found is None:
            groups.append([named])
        else:
            found.append(named)
    return tuple(
        _section(
            laws,
            [(other.name, _why_apart(other, laws[0])) for group in groups if group is not laws for other in group],
            f"law{number}",
            is_only=len(groups) == 1,
        )
        for number, laws in enumerate(groups, start=1)
    )


def _why_apart(law: _ModelLaw, other: _ModelLaw) -> str:
    assert law.law.data is not None and other.law.data is not None
    return law.law.data.why_unlike(other.law.data)


def _section(laws: Sequence[_ModelLaw], others: Sequence[tuple[str, str]], id_: str, *, is_only: bool) -> PageSection:
    title = "Quality over training FLOP"
    match = _match(laws)
    lead = _lead(laws, match)
    series = [
        Series(
            name=_key(law),
            hue=number,
            dots=tuple(map(_dot, law.law.sizes)),
            is_joined=False,
            law=law.law.fitted.at if law.law.fitted else None,
        )
        for number, law in enumerate(laws)
    ]
    chart = Chart(
        figure=law_figure(series, id_=f"{id_}-chart", title=title, description=f"{title}. {lead}"),
        heading=title,
        lead=lead,
        table_note="The tables of sizes and laws list the numbers of this chart.",
    )
    blocks: tuple[Block, ...] = (chart, *_law_table(laws, id_), *_match_table(match, id_), _size_table(laws, id_))
    notes = [f"{law.name}: {law_words(law.law)}" for law in laws if law.law.fitted is None]
    notes += [
        f"{law.name}:{words}"
        for law in laws
        if law.law.fitted and (words := chosen_words(law.law) + law_warning(law.law.fitted))
    ]
    notes += [f"{name} is on a chart of its own: {why}." for name, why in others]
    notes.append(
        "Quality is measured, after the same number of samples for all models. FLOP are computed: those of matrix "
        "products, two per multiply-add. A law is fitted, and says nothing beyond its range of FLOP."
    )
    names = "" if is_only else f": {', '.join(law.name for law in laws)}"
    return PageSection(
        id=id_,
        heading=f"Scaling laws{names}",
        name="Scaling laws",
        blocks=(*blocks, *(Prose(text=n, kind="note") for n in notes)),
    )


def _match(laws: Sequence[_ModelLaw]) -> _Match | None:
    """Compare fitted scaling laws at the largest training FLOP that all of them cover. None for a single law, or if
    no FLOP is covered by all laws.

    Each law is compared with the law that is best at that FLOP. The intervals hold at 95 % for all comparisons
    together (Bonferroni). If two sweeps have the same base seed, each bootstrap resample draws the same seeds for
    both, so their laws are compared at equal seeds.
    """
    fitted = [(law, law.law.fitted) for law in laws if law.law.fitted is not None]
    if len(fitted) < 2:
        return None
    compute = min(found.high for _, found in fitted)
    if max(found.low for _, found in fitted) > compute:
        return None
    ranked = sorted(fitted, key=lambda pair: pair[1].at(compute))
    best, drawn = ranked[0][0], {law.name: law.law.resampled_at(compute) for law, _ in fitted}
    share = (1 - CONFIDENCE) / (len(ranked) - 1) / 2
    gaps: dict[str, tuple[float, float] | None] = {}
    for law, _ in ranked[1:]:
        mine, its = drawn[best.name], drawn[law.name]
        ends = None if mine is None or its is None else np.quantile(its - mine, [share, 1 - share])
        gaps[law.name] = None if ends is None else (float(ends[0]), float(ends[1]))
    return _Match(compute=compute, values={law.name: found.at(compute) for law, found in ranked}, gaps=gaps)


def _lead(laws: Sequence[_ModelLaw], match: _Match | None) -> str:
    """Return in a sentence which model is best at the largest training FLOP that all laws cover. If fewer than two
    laws were fitted, return the findings of the first law."""
    if sum(law.law.fitted is not None for law in laws) < 2:
        return law_words(laws[0].law)
    if match is None:
        return "The models' ranges of training FLOP do not all overlap, so the models are not compared."
    (best, _), *others = match.values.items()
    words = ", ".join(f"{name} {value:.4f}" for name, value in match.values.items())
    worse = [name for name, _ in others if (gap := match.gaps[name]) and gap[0] > 0]
    alike = [name for name, _ in others if name not in worse]
    verdict = f" Worse than {best}: {', '.join(worse)}." if worse else ""
    verdict += f" No difference from {best} is shown: {', '.join(alike)}." if alike else ""
    return (
        f"At {_flop(match.compute)} of training, the most that all of them reach, the laws say: {words} (normalised "
        f"entropy, fitted; lower is better).{verdict}"
    )


def _law_table(laws: Sequence[_ModelLaw], id_: str) -> tuple[Block, ...]:
    fitted = [law for law in laws if law.law.fitted is not None]
    columns: tuple[Shown[_ModelLaw], ...] = (
        ("Model", "name"),
        (numeric("Exponent b", "fitted"), "law.fitted.exponent", "{:.3f}".format),
        (numeric("95 % interval, b", "bootstrap over seeds"), "law.fitted", exponent_ends),
        (numeric("Factor a", "fitted"), "law.fitted.factor", "{:.3g}".format),
        (numeric("Floor c", "fitted"), "law.fitted.floor", "{:.4f}".format),
        (numeric("Sizes"), "law.fitted.num_sizes"),
        (numeric("Seeds"), "law.fitted.num_seeds"),
        (numeric("Range of C", "computed"), "law.fitted", _range),
        (numeric("Decades", "of C"), "law.fitted.decades", "{:.2f}".format),
    )
    return (table_of(fitted, columns, id_=f"{id_}-laws", caption=f"Fitted: {FORMULA}"),) if fitted else ()


def _match_table(match: _Match | None, id_: str) -> tuple[Block, ...]:
    if match is None:
        return ()
    columns: tuple[Shown[str], ...] = (
        ("Model", str),
        (numeric("Normalised entropy", "by the law, fitted"), match.values.get, "{:.4f}".format),
        (numeric("Above the best", "95 % interval, of all together"), lambda name: _gap(match, name)),
    )
    caption = f"At matched FLOP: {_flop(match.compute)} of training"
    return (table_of(match.values, columns, id_=f"{id_}-matched", caption=caption),)


def _size_table(laws: Sequence[_ModelLaw], id_: str) -> Block:
    rows = [(law.name, size, law.law.fitted) for law in laws for size in law.law.sizes]
    quality = " or ".join(sorted({size.quality_name for _, size, _ in rows}))
    columns: tuple[Shown[tuple[str, Size, PowerLaw | None]], ...] = (
        ("Model", lambda row: row[0]),
        ("Size", lambda row: printable(row[1].label, 80)),
        (numeric("Training FLOP", "computed"), lambda row: f"{row[1].training_flop:.4g}"),
        (numeric("Normalised entropy", "measured, mean over seeds"), lambda row: f"{row[1].entropy:.5f}"),
        (numeric("By the law", "fitted"), lambda row: row[2] and f"{row[2].at(row[1].training_flop):.5f}"),
        (numeric(quality, "measured, mean over seeds"), lambda row: f"{fmean(row[1].qualities):.5f}"),
    )
    return table_of(rows, columns, id_=f"{id_}-sizes", caption="Sizes of the models", is_sortable=True)


def _dot(size: Size) -> Dot:
    hint = f"{printable(size.label, 80)}: {size.training_flop:.3g} FLOP, {size.entropy:.5f}"
    return Dot(x=size.training_flop, y=size.entropy, seeds=size.entropies, hint=hint)


def _named(sweeps: Sequence[SweepFacts]) -> list[_ModelLaw]:
    """Return each sweep's scaling law with a name for the model: the name of the benchmark without the ending
    '_quality'. If a sweep has several benchmarks, or none is known, the name is the sweep's. A repeated name gets a
    number."""
    names = []
    for sweep in sweeps:
        measured = {row.result.benchmark for row in sweep.rows if row.result and row.result.benchmark}
        names.append(min(measured).removesuffix("_quality") if len(measured) == 1 else sweep.name)
    labels = distinct_labels(printable(name, 60) for name in names)
    return [_ModelLaw(name=name, law=sweep.law) for name, sweep in zip(labels, sweeps, strict=True) if sweep.law]


def _key(named: _ModelLaw) -> str:
    """Return a fitted law in words for the legend: 'wukong_small: b 0.120 (0.050 – 0.310), C 4.93 GFLOP – 56.8
    GFLOP', with the exponent b, its interval, and the range of training FLOP."""
    if (fitted := named.law.fitted) is None:
        return f"{named.name}: no law"
    ends = f" ({exponent_ends(fitted)})" if fitted.interval else ""
    return f"{named.name}: b {fitted.exponent:.3f}{ends}, C {_range(fitted)}"


def _range(fitted: PowerLaw) -> str:
    return interval(_flop(fitted.low), _flop(fitted.high))


def _flop(value: float) -> str:
    return with_unit(si(value), "FLOP")


def _gap(match: _Match, name: str) -> str:
    if name not in match.gaps:
        return "the best"
    gap = match.gaps[name]
    return MISSING if gap is None else interval(*(f"{end:+.4f}".replace("-", "−") for end in gap))
