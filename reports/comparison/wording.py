"""Puts comparisons of results into words: one sentence for a whole comparison, and texts for verdicts, ratios and
intervals."""

import math
import re
from collections.abc import Collection

from reports.comparison.factor import FACTORS, factor_of
from reports.comparison.precision import MAX_RUNS
from reports.comparison.records import Comparison, FactorComparison
from reports.results.records import THREADS
from reports.text.formatting import capital, names, percent, plural, printable

_FACTOR = re.compile(r"(?<=[\d∞])x\b")
_EQUAL = "equally fast"
_WIDE = 1.1
"""Smallest factor between a ratio and an end of its interval at which titles and sentences show the interval as
well."""


def sentence(comparison: Comparison) -> str:
    """Return the outcome of a comparison of two results in words: '1.60x slower: 1.56x from throughput; no effect of
    convergence is shown.'

    The words do not name the results. They begin with the result that the rules reject, if there is one. They end
    with a remark if a machine was noisy.
    """
    text = plain_sentence(comparison)
    if comparison.disturbed_sides:
        text += f" Measured on a noisy machine: {' and '.join(comparison.disturbed_sides)}."
    names = " and ".join(comparison.invalid_sides)
    return f"INVALID by the rules: {names}. {text}" if names else text


def rejected_words(comparison: Comparison) -> str:
    """Return ' (INVALID)' or ' (baseline INVALID)' to put after a verdict; empty if the rules accept both compared
    results."""
    if not comparison.invalid_sides:
        return ""
    return " (INVALID)" if "new" in comparison.invalid_sides else " (baseline INVALID)"


def plain_sentence(comparison: Comparison, base: str = "base") -> str:
    """Return a comparison in a sentence that leaves out the rules' verdicts and noise; `base` is the name to print
    for the baseline."""
    whole = comparison.whole
    if comparison.refusal is not None or whole is None:
        return f"Not compared: {comparison.refusal or 'nothing is known'}."
    converged = (
        f"{comparison.num_new_converged} of {comparison.num_new} runs reach the target, against "
        f"{comparison.num_base_converged} of {comparison.num_base} of {base}"
    )
    if comparison.verdict != whole.verdict:
        return f"{capital(comparison.verdict)}: {converged}."
    if not factor_of(whole.name).is_of_time:
        return _measured_sentence(comparison, whole)
    if whole.time_ratio is None:
        return f"No verdict: {whole.reason or 'not measured'}; {converged}."
    made_of, when = _parts(comparison), _when(comparison)
    if comparison.verdict in ("faster", "slower"):
        given = f"{speed(whole.time_ratio)}{wide_range(whole)}"
        return f"{given}{f': {made_of}' if made_of else ''}{when}."
    if comparison.verdict in ("no difference shown", "below the smallest effect"):
        small = _small(comparison, whole, whole.time_ratio > 1)
        return f"{small}: {_range(whole)}{f'; {made_of}' if made_of else ''}{when}."
    decided = [factor for factor in comparison.factors[1:] if factor.verdict in ("faster", "slower")]
    but = "; ".join(_decided(factor) for factor in decided)
    bounds = whole.time_interval if whole.adjusted_interval else None
    ends = None if bounds is None else (_end(bounds.low), _end(bounds.high))
    measured = f"Measured {FACTORS[whole.name].title}: {speed(whole.time_ratio)}"
    text = f"No verdict{when}. {measured}; {_what_it_takes(comparison, whole, ends)}."
    return f"{text} A difference is shown in {but}." if but else text


def _when(comparison: Comparison) -> str:
    """Return the caveat for results measured one after the other, to put before a sentence's full stop: '. The sets
    were measured one after the other; a difference of 20 % is allowed for drift (...)'. Empty if runs were made
    alternately.

    The part about drift is left out if the sentence already gives the drift tolerance as the reason for having no
    verdict.
    """
    has_reason = comparison.whole is not None and comparison.whole.reason
    drift = f"; {comparison.drift}" if comparison.drift and not has_reason else ""
    return f". The sets were measured one after the other{drift}" if comparison.is_one_after_the_other else ""


def _small(comparison: Comparison, whole: FactorComparison, is_more: bool) -> str:
    """Return a verdict of equivalence: 'No difference of 3 % or more in time to train (equivalence margin)', or
    'Slower by less than 3 % in time to train' where a smaller difference is shown."""
    kind, least = factor_of(whole.name), effect_text(comparison.min_effect, whole)
    if comparison.verdict == "no difference shown":
        return f"No difference of {least} or more in {kind.title} (equivalence margin)"
    words = ("slower", "faster") if kind.is_of_time else (kind.more, kind.less)
    return f"{capital(words[0] if is_more else words[1])} by less than {least} in {kind.title}"


def _measured_sentence(comparison: Comparison, whole: FactorComparison) -> str:
    """Return a compared measurement in a sentence: 'Better: AUC +0.00120, +0.00100 to +0.00140 (95 % interval,
    Holm-adjusted).'"""
    name, interval, change = factor_of(whole.name).title, whole.adjusted_interval, change_text(whole)
    if change is None or interval is None:
        return f"No verdict: {whole.reason or 'not measured'}."
    words = times if factor_of(whole.name).is_ratio else difference_text
    low, high = words(interval.low), words(interval.high)
    when = _when(comparison)
    between = f"{low} to {high} ({percent(interval.confidence)} interval, Holm-adjusted){when}"
    if comparison.verdict in ("no difference shown", "below the smallest effect"):
        is_more = (whole.difference if whole.difference is not None else math.log(whole.ratio or 1.0)) > 0
        return f"{_small(comparison, whole, is_more)}: {between}."
    apart = f"{name} {change}"
    if comparison.verdict == "inconclusive":
        return f"No verdict{when}. Measured difference: {apart}; {_what_it_takes(comparison, whole, (low, high))}."
    return f"{capital(comparison.verdict)}: {apart}, {between}."


def threads_words(comparison: Comparison, given: Collection[str] = ()) -> str:
    """Return 'with 2 threads against 1' if two results differ in the number of threads, which dlrmbench may have
    chosen by timing. Empty if the number is equal, or if `given` (keys of settings) contains the key of this
    number."""
    found = next((change for change in comparison.changes if change.name == THREADS), None)
    if found is None or THREADS in given:
        return ""
    base, new = (str(value) for value in (found.base, found.new))
    return f"with {plural(int(new), 'thread') if new.isdecimal() else f'{printable(new)} threads'} against {base}"


def change_text(factor: FactorComparison) -> str | None:
    """Format the difference or ratio of two results in a compared quantity, new result against baseline: '+0.00123',
    '1.20x'; None where unknown."""
    if factor.difference is not None:
        return difference_text(factor.difference)
    return None if factor.ratio is None else times(factor.ratio)


def effect_text(min_effect: float, factor: FactorComparison) -> str:
    """Format the smallest effect of interest in a compared quantity: '3 %' of a time, '0.001' of a quality."""
    return percent(min_effect, 0) if factor_of(factor.name).is_ratio else f"{min_effect:g}"


def difference_text(value: float) -> str:
    """Format a difference in quality (such as AUC) with five decimals: '+0.00123'."""
    return f"{value:+.5f}".replace("-", "−")


def _decided(factor: FactorComparison) -> str:
    ratio = factor.time_ratio or 1.0
    return _overhead(ratio) if factor.name == "overhead" else f"{FACTORS[factor.name].cause}, {speed(ratio)}"


def _overhead(ratio: float) -> str:
    """Return in words the ratio of two results' overhead (time to train divided by the time spent training).

    The same seconds outside training are a larger overhead if training is faster.
    """
    weight = f"{times(max(ratio, 1 / ratio))} {'more' if ratio > 1 else 'less'}"
    return f"{FACTORS['overhead'].cause} weigh {weight} beside the training"


def speed(time_ratio: float) -> str:
    """Format a ratio of times in words: '1.60x slower', '1.25x faster', '1.004x slower'."""
    factor = time_ratio if time_ratio >= 1 else 1 / time_ratio
    text = times(factor)
    if float(text[:-1].replace(",", "")) == 1:
        return _EQUAL
    return f"{text} {'slower' if time_ratio > 1 else 'faster'}"


def _end(time_ratio: float) -> str:
    """Format an end of an interval of a ratio of times: '1.25x faster', '1.000x' where it rounds to no difference."""
    text = speed(time_ratio)
    return "1.000x" if text == _EQUAL else text


def wide_range(whole: FactorComparison) -> str:
    """Return the interval of a ratio, to put after the ratio in a title or sentence: ' (2.4x to 21x)'. Empty where
    both ends lie within 10 % of the ratio."""
    is_of_time = factor_of(whole.name).is_of_time
    interval = whole.time_interval if is_of_time else whole.shown_interval
    middle = whole.time_ratio if is_of_time else whole.ratio
    if interval is None or middle is None or not 0 < interval.low <= interval.high < math.inf:
        return ""
    if interval.low >= middle / _WIDE and interval.high <= middle * _WIDE:
        return ""
    ends = [interval.low, interval.high]
    if is_of_time and middle < 1:
        ends = [1 / interval.high, 1 / interval.low]
    return f" ({_coarse(ends[0])} to {_coarse(ends[1])})"


def _coarse(factor: float) -> str:
    """Format an end of a wide interval of a ratio with two digits, three near 1: '2.4x', '21x'."""
    if factor >= 1e6:
        return times(factor)
    if factor >= 9.95:
        return f"{factor:,.0f}x"
    return f"{factor:.1f}x" if factor >= 1.95 else f"{factor:.2f}x"


def with_sign(text: str) -> str:
    """Return a text with the multiplication sign of pages: '1.60×' for the terminal's '1.60x'."""
    return _FACTOR.sub("×", text)


def times(factor: float) -> str:
    """Format a ratio: '1.56x', and '1.004x' where two decimals would hide its difference from 1."""
    if not math.isfinite(factor):
        return "∞x"
    digits = 3 if abs(factor - 1) < 0.0995 else 2
    return f"{factor:,.{digits}f}x" if factor < 1e6 else f"{factor:.2g}x"


def needs(factor: FactorComparison) -> str:
    """Return in words how many runs are needed for a verdict on a compared quantity that is inconclusive so far, if
    the true difference is as measured."""
    if factor.runs_needed is None:
        return f"more than {MAX_RUNS:,} runs per side would be needed to decide"
    low, high = factor.runs_needed_low or factor.runs_needed, factor.runs_needed_high
    if high is None:
        return f"{low:,} to more than {MAX_RUNS:,} runs per side should decide, if the difference is as measured"
    number = f"about {low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{number} runs per side should decide, if the difference is as measured"


def could_show(factor: FactorComparison) -> str:
    """Return 'the detectable difference between two sets of 5 runs like these is 12 % (80 % power)' for a compared
    quantity; empty where it is unknown."""
    if factor.smallest_shown is None:
        return ""
    least = percent(factor.smallest_shown) if factor_of(factor.name).is_ratio else f"{factor.smallest_shown:.2g}"
    number = f"{factor.num_base}" if factor.num_base == factor.num_new else f"{factor.num_base} and {factor.num_new}"
    return f"the detectable difference between two sets of {number} runs like these is {least} (80 % power)"


def _what_it_takes(comparison: Comparison, whole: FactorComparison, ends: tuple[str, str] | None) -> str:
    """Return in words why a comparison has no verdict, its detectable difference, and the way to get a verdict."""
    if whole.adjusted_interval is None or ends is None:
        return whole.reason or "no interval"
    if whole.runs_needed is None and whole.reason is not None and whole.smallest_shown is None:
        return whole.reason
    texts = [whole.reason or f"the interval reaches from {ends[0]} to {ends[1]}", could_show(whole)]
    if comparison.is_one_after_the_other:
        better = comparison.measure_better
        texts.append(f"'{better}' measures alternately (A/B), which detects smaller differences" if better else "")
    else:
        texts.append(needs(whole))
    return ". ".join(capital(text) if number else text for number, text in enumerate(filter(None, texts)))


def verdict_text(factor: FactorComparison) -> str:
    """Return the verdict on a compared quantity in words; for equal values with the number of pairs: 'identical in
    all 5 pairs'."""
    if factor.verdict != "identical":
        return factor.verdict
    return f"identical{' convergence' if factor.is_identical else ''} in all {factor.num_base} pairs"


def _range(whole: FactorComparison) -> str:
    """Return the interval that decides a verdict, with its ends as ratios of speed: '1.01x slower to 1.12x slower (95
    % …)'."""
    interval = whole.time_interval
    if interval is None or whole.adjusted_interval is None:
        return "no interval"
    return f"{_end(interval.low)} to {_end(interval.high)} ({percent(interval.confidence)} interval, Holm-adjusted)"


def _parts(comparison: Comparison) -> str:
    """Return in words the effects on the time to train of its factors (such as throughput): the factors with a
    verdict first, the largest effect first, then the names of those without a verdict that differ by half a percent
    or more.

    If a factor acts against the difference in the time to train, its own direction is named: '1.18x slower from
    convergence'. If no factor has a verdict, the words say that the cause is not shown. If the time to train has no
    verdict either, the words are empty.
    """
    whole = comparison.whole
    is_faster = whole is not None and whole.time_ratio is not None and whole.time_ratio < 1
    known = [(factor, factor.time_ratio) for factor in comparison.factors[1:] if factor.time_ratio is not None]
    known.sort(key=lambda entry: -abs(math.log(entry[1])))
    settled = [entry for entry in known if entry[0].verdict in ("faster", "slower")]
    if not settled:
        return "the cause is not shown" if known and comparison.verdict in ("faster", "slower") else ""
    speeds = [entry for entry in settled if entry[0].name != "overhead"]
    parts = [(FACTORS[factor.name].cause, 1 / ratio if is_faster else ratio) for factor, ratio in speeds]
    with_it = [f"{times(share)} from {cause}" for cause, share in parts if share >= 1]
    against = [f"{times(1 / s)} {'slower' if is_faster else 'faster'} from {cause}" for cause, s in parts if s < 1]
    weighs = [_overhead(ratio) for factor, ratio in settled if factor.name == "overhead"]
    visible = [factor for factor, ratio in known if abs(math.log(ratio)) >= 0.005]
    others = [FACTORS[factor.name].cause for factor in visible if factor.verdict not in ("faster", "slower")]
    not_shown = f"no effect of {names(others)} is shown" if others else ""
    return "; ".join(filter(None, (", ".join(with_it), ", ".join(against), *weighs, not_shown)))
