"""Exports comparisons of results: JSON, CSV with one row per compared quantity, Markdown."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from reports.comparison.comparability import ONE_SYSTEM, SAME_CONFIGURATION
from reports.comparison.drift_tolerance import DRIFT_REACH, REFERENCE_DRIFT, drift_source, far_words
from reports.comparison.factor import factor_of, ratio_text
from reports.comparison.records import (
    ComparedSides,
    Comparison,
    ComparisonDocument,
    ComparisonMember,
    FactorComparison,
    FactorRow,
    FactorValues,
)
from reports.comparison.wording import difference_text, effect_text, sentence, verdict_text
from reports.document.glossary import standing_line
from reports.facts.noise import ASSUMED_DRIFT
from reports.results.result import Standing
from reports.statistics.intervals import MIN_RUNS
from reports.tables.columns import columns_of, shared_members
from reports.text.formatting import percent, plural

COMPARISON_COLUMNS = (*columns_of(ComparedSides), *columns_of(FactorRow))


def comparison_document(comparisons: Sequence[Comparison]) -> ComparisonDocument:
    """Return the document that `compare --format json` prints for comparisons of results."""
    return ComparisonDocument(
        comparisons=tuple(
            ComparisonMember(
                **shared_members(comparison, ComparedSides),
                factors=tuple(_factor_row(factor) for factor in comparison.factors),
                sentence=sentence(comparison),
            )
            for comparison in comparisons
        )
    )


def _factor_row(factor: FactorComparison) -> FactorRow:
    ends: dict[str, Any] = {}
    for name, interval in (("interval", factor.interval), ("adjusted", factor.adjusted_interval)):
        if interval is not None:
            ends |= {f"{name}_{part}": getattr(interval, part) for part in ("low", "high", "confidence")}
            ends["interval_method"] = interval.method
    return FactorRow(**shared_members(factor, FactorValues), **ends)


def comparison_rows(document: ComparisonDocument) -> Iterator[list[Any]]:
    """Yield a row, with the columns COMPARISON_COLUMNS, for each compared quantity (such as the throughput) of each
    comparison. A refused comparison has one row without a quantity."""
    for comparison in document.comparisons:
        for factor in comparison.factors or (None,):
            members = msgspec.to_builtins(comparison) | ({} if factor is None else msgspec.to_builtins(factor))
            yield [members.get(column.name) for column in COMPARISON_COLUMNS]


FACTOR_COLUMNS = ("factor", "base", "new", "new / base (interval)", "verdict")


def mean_words(comparison: Comparison) -> str:
    """Return a sentence that names the kind of mean (geometric or arithmetic) in a comparison. For runs that train to
    a target quality, the sentence also says why their scores differ from this mean."""
    whole = comparison.whole
    if whole is None:
        return ""
    mean = "geometric means" if factor_of(whole.name).is_ratio else "means"
    if whole.name != "time_to_train":
        return f"base, new: {mean} of the processes"
    return f"base, new: {mean} of the runs that converged; a score is an Olympic mean, without fastest and slowest"


def factor_cells(factor: FactorComparison) -> list[str | None]:
    """Return the table cells of one compared quantity (such as the throughput), in the order of FACTOR_COLUMNS; a
    cell is None if it is unknown. The interval is the one that decides the verdict."""
    interval, kind = factor.shown_interval, factor_of(factor.name)
    is_difference = factor.difference is not None
    words = difference_text if is_difference else ratio_text
    change = factor.difference if is_difference else factor.ratio
    reach = f" ({words(interval.low)} – {words(interval.high)})" if interval else ""
    return [
        kind.title,
        None if factor.base_value is None else kind.show(factor.base_value),
        None if factor.new_value is None else kind.show(factor.new_value),
        None if change is None else f"{words(change)}{reach}",
        verdict_text(factor),
    ]


def p_text(p: float) -> str:
    """Format a p-value: '0.012', or '<0.001' below that."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def remarks(comparison: Comparison) -> tuple[str, ...]:
    """Return the remarks below the table of a comparison, one sentence each: status, systems, pairs, scores,
    reasons."""
    status = comparison.status
    standings: tuple[Standing, ...] = ("unverified", "published") if status == "official" else (status,)
    told = circumstances(comparison)
    texts = [standing_line(standings), *sorted(told, key=lambda text: not text.startswith(SAME_CONFIGURATION))]
    scores = olympic_words(comparison)
    texts += [scores] if scores else []
    reasons: dict[str, list[str]] = {}
    for factor in comparison.factors:
        if factor.reason:
            reasons.setdefault(factor.reason, []).append(factor_of(factor.name).title)
    texts += [f"{', '.join(names)}: {reason}." for reason, names in reasons.items()]
    return tuple(texts)


def circumstances(comparison: Comparison) -> tuple[str, ...]:
    """Return the conditions under which two compared results were measured, one sentence each: systems, number of
    pairs of runs with equal seeds, order in time, and remarks (for example, on runs whose time is unknown)."""
    texts = []
    if comparison.is_cross_system:
        texts.append(f"cross-system: the recorded systems of the compared sets differ. {ONE_SYSTEM}")
    if comparison.is_paired:
        texts.append(f"paired: runs with equal seeds are compared, in {plural(comparison.num_shared_seeds, 'pair')}.")
    if comparison.is_one_after_the_other:
        texts.append(_drift_words(comparison))
    return (*texts, *(f"{note}." for note in comparison.notes))


def _drift_words(comparison: Comparison) -> str:
    """Return the caveat on drift: 'the sets were measured one after the other: differences of up to 20 % may be
    drift (assumed, as ...).'"""
    widths = {
        factor_of(factor.name).title: far_words(factor.drift_tolerance)
        for factor in comparison.factors
        if factor.drift_tolerance
    }
    far = next(iter(widths.values()), "")
    if len(set(widths.values())) > 1:
        far = ", ".join(f"{width} in {title}" for title, width in widths.items())
    source = drift_source(comparison.repeated_sets, comparison.drift_source)
    return f"the sets were measured one after the other: differences of up to {far} may be drift ({source})."


def olympic_words(comparison: Comparison) -> str:
    """Return a sentence with the ratio of two results' Olympic means (and of their RCP-normalised scores, where that
    ratio differs); empty where one of the results has no Olympic mean."""
    if comparison.olympic_ratio is None:
        return ""
    scores = f"ratio of the Olympic means of the times to train, new / base: {ratio_text(comparison.olympic_ratio)}"
    if comparison.score_ratio is not None and abs(comparison.score_ratio / comparison.olympic_ratio - 1) > 1e-9:
        scores += f"; normalised scores: {ratio_text(comparison.score_ratio)}"
    return f"{scores}."


def method_line(comparisons: Sequence[Comparison]) -> str:
    """Return a sentence on the statistical method behind intervals and verdicts; '' where no comparison has an
    interval."""
    factors = [factor for comparison in comparisons for factor in comparison.factors if factor.interval]
    if not factors or factors[0].interval is None:
        return ""
    methods = sorted({factor.interval.method for factor in factors if factor.interval})
    confidence, effect = comparisons[0].confidence, comparisons[0].min_effect
    num_tests = sum(factor.adjusted_interval is not None for factor in factors)
    which = f"Each interval has {percent(confidence)} confidence, and decides nothing below {MIN_RUNS} runs per side."
    if num_tests:
        which = f"The intervals are Holm-adjusted to hold together at {percent(confidence)} over "
        which += plural(num_tests, "test")
        which += "."
        if num_tests < len(factors):
            which += f" Intervals of fewer than {MIN_RUNS} runs per side are not adjusted, and decide nothing."
    kind = factor_of(factors[0].name)
    if not kind.is_of_time:
        unit = "" if kind.is_ratio else f" {kind.unit}"
        what = "difference, new minus base" if unit else "ratio, new over base"
        return (
            f"Intervals of the {what}, over processes: {'; '.join(methods)}. {which} A verdict is decided "
            "by the interval and by the smallest effect that counts (equivalence margin), "
            f"{effect_text(effect, factors[0])}{unit}."
        )
    return (
        f"Intervals of the ratios, over runs: {'; '.join(methods)}. {which} The spread of the runs has a lower "
        "bound, since times are known only to the next evaluation or clock step: the spread if all runs ended at one "
        "evaluation (or clock step) and one more run ended at the next. A verdict is decided by the interval and by "
        f"the smallest effect that counts (equivalence margin), {percent(effect)}. If sets were not measured "
        "alternately, intervals of speeds and times are widened by an allowance for drift: the drift seen between "
        f"repeated sets, or else {percent(ASSUMED_DRIFT, 0)} ({percent(REFERENCE_DRIFT, 0)} against a reference "
        f"system). The allowance for drift is at least {DRIFT_REACH:g} standard deviations of the speed of single "
        "runs."
    )


def permutation_note(comparisons: Sequence[Comparison]) -> str:
    """Return the note that explains the permutation test's p-value and Cliff's delta, for pages that show these."""
    pairs = [comparison.num_shared_seeds for comparison in comparisons if comparison.is_paired and comparison.factors]
    least_p = 2.0 / 2 ** min(pairs, default=1000)
    too_few = comparisons and least_p > 1.0 - comparisons[0].confidence
    limit = (
        f" With {plural(min(pairs), 'pair')} the permutation test's p cannot fall below {least_p:.4g}."
        if too_few
        else ""
    )
    return f"The permutation test's p and Cliff's delta are not used for verdicts.{limit}"
