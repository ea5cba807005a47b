"""Words the answers at the top of a page or of a group of configurations: the fastest configuration, by what factor,
out of how many."""

import math
from collections.abc import Sequence

from reports.comparison.comparison import GroupContext, compare_results
from reports.comparison.factor import factor_of
from reports.comparison.records import Comparison
from reports.comparison.sweep import BestSide, SweepFacts, find_alike, find_best
from reports.comparison.wording import change_text, speed, threads_words, wide_range, with_sign
from reports.document.glossary import MARKS
from reports.page.figures.times import column_unit
from reports.page.sections.remarks import broken_codes, refusal_words
from reports.parts.cost import cost_text, cost_to_train
from reports.parts.measured import in_unit
from reports.results.measured import centre_of
from reports.results.provenance import order_in_pair
from reports.results.records import THREADS, THREADS_TIMED
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS
from reports.text.formatting import names, plural, printable
from rules.checks.verdict import VerdictOutcome
from rules.records.experiment import BASE, NEW
from rules.records.kinds import find_record_type

BATCH_SIZE = "train.global_batch_size"
_OUTCOMES: tuple[VerdictOutcome, ...] = ("valid", "incomplete", "not judged", "invalid")
"""Outcomes of the rules' verdicts, in the order in which a page's title counts them."""
BATCH_COST = "; another batch may take more samples"
"""Caveat that a title adds to a speed measured without a target, where configurations differ in batch size: a larger
batch may be faster, and yet take more samples to reach a target."""


def answer(group: Sequence[Result], comparisons: Sequence[Comparison], context: GroupContext) -> str:
    """Return the answer of a comparison of configurations in a sentence: which is the fastest, or the scores of an
    official benchmark; '' where there is only one configuration."""
    if len(group) < 2:
        return ""
    is_own = group[0].status == "own"
    if is_own and len(group) == 2 and len(comparisons) == 1 and (found := _of_two(group, comparisons[0], "trains")):
        return found + _cheapest_words(group)
    found = _fastest(group, context) if is_own else f"{what_there_is(group)}{_scores_words(group)}"
    return (found or what_there_is(group)) + _cheapest_words(group) + judged_words(group)


def _cheapest_words(group: Sequence[Result]) -> str:
    """Return the configuration that is cheapest to train, with its cost: '; cheapest to train: a, 0.12 USD'. ''
    unless the price and the score are known for every configuration that the rules accept."""
    accepted = [result for result in group if result.outcome != "invalid"]
    costs = [cost_to_train(result.score.olympic_mean_s, result.price_per_hour) for result in accepted]
    known = [(cost, result) for cost, result in zip(costs, accepted, strict=True) if cost is not None]
    if len(known) < max(2, len(accepted)):
        return ""
    cost, cheapest = min(known, key=lambda each: each[0])
    return f"; cheapest to train: {cheapest.label}, {cost_text(cost)} {cheapest.currency}".rstrip()


def _scores_words(group: Sequence[Result]) -> str:
    """Return the scores of results under an official MLPerf name in words: ', in 5.050 min (a) and 3.330 min (b),
    MLCommons verification unknown'. Two results are both named; for more than two, only the smallest and the largest
    score are given. If a result is published, the words on verification are added, which MLCommons' guidelines
    demand.

    INVALID results are left out. Return '' if fewer than two results remain, or if one of them has no score.
    """
    accepted = [result for result in group if result.outcome != "invalid"]
    times = [time_s for each in accepted if (time_s := each.score.score_s) is not None and time_s < math.inf]
    if len(times) < max(2, len(accepted)):
        return ""
    unit = column_unit(group)
    told = f"{unit.text(min(times))} to {unit.text(max(times))}"
    if len(times) == 2:
        told = " and ".join(f"{unit.text(each.score.score_s)} ({each.label})" for each in accepted)
    mark = f", {MARKS['published']}" if any(each.standing == "published" for each in accepted) else ""
    return f", in {told}{mark}"


def judged_words(sets: Sequence[Result]) -> str:
    """Return the rules' verdicts on result sets as words that end a title: ': both VALID by the rules', ': 1 VALID, 1
    INVALID here by CA101'.

    If a set's benchmark is a user's own, or if a set was not judged, the words name only the INVALID sets: ';
    INVALID: a, b'. They are '' if there are no INVALID sets.
    """
    by_outcome: dict[VerdictOutcome | None, list[Result]] = {}
    for result in sets:
        by_outcome.setdefault(result.outcome, []).append(result)
    refused = by_outcome.get("invalid", [])
    if any(result.status == "own" for result in sets) or None in by_outcome:
        return f"; INVALID: {_label_names([result.label for result in refused])}" if refused else ""
    if list(by_outcome) == ["valid"]:
        return f": {'both' if len(sets) == 2 else 'all'} VALID by the rules"
    told = {outcome: f"{len(found)} {str(outcome).upper()}" for outcome, found in by_outcome.items()}
    for outcome, found in by_outcome.items():
        if outcome == "incomplete" and len(found) == 1 and (required := found[0].score.num_runs_required):
            told[outcome] += f" here: {found[0].num_runs} of {required} logs"
        if outcome == "invalid":
            told[outcome] = f"{len(found)} {refusal_words(found)}"
    return ": " + ", ".join(told[outcome] for outcome in _OUTCOMES if outcome in told)


def _label_names(labels: Sequence[str]) -> str:
    """Return configurations' labels joined; where all have the form 'key=value' with the same key, the key is named
    once: 'batch_size=256, 512'."""
    key, equals, _ = labels[0].partition("=")
    values = [label.removeprefix(f"{key}=") for label in labels]
    is_one_key = bool(equals) and len(labels) > 1 and not any("=" in value for value in values)
    return f"{key}={names(values)}" if is_one_key else names(labels)


def what_there_is(sets: Sequence[Result]) -> str:
    """Return the number of configurations and their benchmark, '3 configurations of dlrm_tiny', with ', unverified'
    if all results under official MLPerf names are unverified."""
    benchmarks = sorted({result.benchmark_name for result in sets})
    unverified = ", unverified" if all(result.standing == "unverified" for result in sets) else ""
    return f"{plural(len(sets), 'configuration')} of {names(benchmarks)}{unverified}"


def _fastest(group: Sequence[Result], context: GroupContext) -> str:
    """Return the fastest VALID configuration with its time, and the configurations not shown to differ from it; where
    all differ, the factor by which the next fastest is slower."""
    accepted = [result for result in group if result.outcome != "invalid"]
    timed = [(time_s, result) for result in accepted if (time_s := _time_s(result, accepted)) is not None]
    if len(timed) < 2:
        return ""
    (time_s, fastest), (next_s, _), *_ = sorted(timed, key=lambda entry: entry[0])
    others = [result for result in accepted if result is not fastest]
    alike = find_alike(fastest, others, context)
    of_all = what_there_is(accepted) + ("" if len(accepted) == len(group) else " that the rules accept")
    if len(alike) == len(others):
        return _none_apart(of_all, len(accepted), "fastest", fastest.label)
    found = f"{fastest.label} is the fastest of {of_all}"
    if math.isfinite(time_s):
        found += f", in {column_unit([fastest]).text(time_s)}"
    if alike:
        return f"{found}; not shown to differ from it: {_label_names(alike)}"
    is_known = 0 < time_s < next_s < math.inf
    return found + (with_sign(f", {speed(time_s / next_s)} than the next") if is_known else "")


def _time_s(result: Result, accepted: Sequence[Result]) -> float | None:
    """Return the time in seconds by which a result is ranked among the results `accepted`. This is the score; if none
    of `accepted` has a score, it is the geometric mean time of the result's runs that reached the target. None for a
    result without a score among results with scores."""
    if any(other.score.score_s is not None for other in accepted):
        return result.score.score_s
    summary = result.summary("time_to_train_s")
    return summary.geometric_mean if summary else None


def answer_measured(group: Sequence[Result]) -> str:
    """Return the answer of measurements of one quantity in a sentence: the value where there is one measurement, the
    comparison of two, the best of three or more."""
    first, num = group[0], group[0].num_runs
    title = first.measure.title.lower()
    what = f"{title} of 1 process" if num == 1 else f"mean {title} over {num} processes"
    if len(group) == 1:
        value, name = in_unit(centre_of(first)[0], first.measure.unit), first.measure.name
        named = value if value.lower().endswith(f" {name.lower()}") else f"{name} {value}"
        return f"{first.benchmark_name}: {named}, {what}"
    if len(group) == 2:
        base, new = sorted(group, key=lambda result: order_in_pair(result.place))
        return _of_two((base, new), compare_results(base, [new])[0], "is")
    found = find_best(group)
    return what_there_is(group) if found is None else _of_best(found, what_there_is(group), first.measure.title)


def answer_sweep(sweep: SweepFacts) -> str:
    """Return a sentence that names the fastest, or the best, configuration of a sweep; '' where fewer than two
    configurations can be compared."""
    if sweep.pair is not None:
        base, new, comparison = sweep.pair
        if found := _of_two((base, new), comparison, "trains" if sweep.is_of_runs else "is"):
            return found
    if sweep.best is None:
        return ""
    benchmark = printable(sweep.benchmark or "several benchmarks", 80)
    of_all = f"{plural(sweep.best.num_compared, 'configuration')} of {benchmark}"
    what = "time to train" if sweep.is_of_runs else find_record_type(sweep.kind).MEASURE.title
    is_of_batches = not sweep.is_of_runs and BATCH_SIZE in dict(sweep.axes) and sweep.kind == "throughput"
    answer_words = _of_best(sweep.best, of_all, what, is_of_batches=is_of_batches)
    return f"{answer_words}{_threads_of(sweep)}"


def _threads_of(sweep: SweepFacts) -> str:
    """Return '; with 1 to 2 threads' where a sweep's configurations ran with different numbers of threads, although
    the number of threads is not a varied setting; else ''."""
    asked = [row.result.asked for row in sweep.rows if row.result is not None]
    threads = sorted({each.num_threads for each in asked if each is not None})
    if len(threads) < 2 or THREADS in dict(sweep.axes):
        return ""
    return f"; with {threads[0]} to {threads[-1]} threads"


def _of_best(found: BestSide, of_all: str, what: str, *, is_of_batches: bool = False) -> str:
    """Return a sentence that names the best configuration in `found` with its value, and then the others, which are
    not shown to differ from it. With `is_of_batches`, which stands for configurations that differ in batch size and
    were not trained to a target, the sentence warns that another batch size may need more samples."""
    refused = f"; INVALID: {_label_names(found.refused)}" if found.refused else ""
    refused = (f"; {names(found.controls)} is a control, which no user can have" if found.controls else "") + refused
    if len(found.alike) == found.num_compared - 1:
        return f"{_none_apart(of_all, found.num_compared, found.word, found.label)} in {what.lower()}{refused}"
    alike = f"; not shown to differ from it: {_label_names(found.alike)}" if found.alike else ""
    best = f"{found.label} is the {found.word} of {of_all}: {what.lower()} {found.value}"
    return f"{best}{alike}{BATCH_COST if is_of_batches else ''}{refused}"


def _none_apart(of_all: str, num: int, word: str, best: str) -> str:
    """Return the sentence that the best configuration is not shown to differ from any other; `num` counts all
    configurations."""
    other = "the other" if num == 2 else "any other"
    return f"The {word} of {of_all}, {best}, is not shown to differ from {other}"


def _of_two(group: Sequence[Result], comparison: Comparison, verb: str) -> str:
    """Return a comparison of two configurations in a sentence that marks INVALID ones; '' where the two must not be
    compared, or where too little is known for a comparison."""
    whole = comparison.whole
    if whole is None or comparison.refusal is not None:
        return ""
    group = sorted(group, key=lambda result: result.label != comparison.base)
    base, new = side_names(group[0], group[1], comparison)
    if whole.verdict != comparison.verdict:
        return f"{new}: {comparison.verdict} than {base}, by the runs that reach the target"
    factor = factor_of(whole.name)
    change = speed(whole.time_ratio) if factor.is_of_time and whole.time_ratio is not None else change_text(whole)
    if change is None:
        return ""
    where = f"on {printable(group[0].benchmark_name, 80)}"
    number = _how_often(comparison, verb)
    number += ", on a noisy machine" if comparison.disturbed_sides else ""
    what = f"{factor.title} of {number}"
    if comparison.verdict in ("faster", "slower"):
        given = with_sign(f"{change}{wide_range(whole)}")
        return f"{new} {verb} {given} than {base} {where}: {what}{_also_words(group, comparison)}"
    if comparison.verdict in ("better", "worse"):
        change += wide_range(whole)
        told = f"{factor.title} {with_sign(change)}, {number}"
        return f"{new} {verb} {comparison.verdict} than {base} {where}: {told}"
    few = min(whole.num_base, whole.num_new)
    if few < MIN_RUNS and not factor.is_of_time:
        return ""
    if comparison.verdict == "inconclusive" and few < MIN_RUNS:
        won = f" in {_count_wins(group, whole.name)} of {few} pairs" if comparison.is_paired else ""
        than = f"{with_sign(change)} {'as' if change.startswith('equally') else 'than'}"
        measured = f"{new} measured {than} {base}{won} {where}"
        return f"{measured}, which decides nothing: {MIN_RUNS} runs of each make a verdict"
    if comparison.verdict != "no difference shown":
        return f"{new} against {base} {where}: {comparison.verdict}, {what}"
    return f"{new} is not shown to differ from {base} {where}: {what}"


def _also_words(group: Sequence[Result], comparison: Comparison) -> str:
    """Return the words that follow the statement that one configuration is faster than another. If the two differ in
    the number of threads and in other settings, the words give both numbers of threads. If they differ in batch size
    and were not trained to a target, the words add the caveat that another batch size may need more samples. Return
    '' if neither is the case."""
    changed = {change.name for change in comparison.changes}
    threads = threads_words(comparison) if changed - {THREADS, THREADS_TIMED} else ""
    also = f"; {threads}" if threads else ""
    return also + (BATCH_COST if BATCH_SIZE in changed and not group[0].is_logged else "")


def _how_often(comparison: Comparison, verb: str) -> str:
    """Return the number of runs compared, in words: '5 pairs of runs, measured alternately (A/B)', '5 and 7 runs'."""
    turns = ", measured alternately (A/B)" if comparison.is_interleaved else ""
    word = ("process", "processes") if verb == "is" else ("run", "runs")
    if comparison.is_paired:
        return f"{plural(comparison.num_shared_seeds, 'pair')} of {word[1]}{turns}"
    if comparison.num_base == comparison.num_new:
        return f"{plural(comparison.num_base, *word)} each{turns}"
    return f"{comparison.num_base} and {comparison.num_new} {word[1]}{turns}"


def _count_wins(group: Sequence[Result], name: str) -> int:
    """Count, over pairs of runs with equal seeds, how often the base has the larger value of the quantity `name`, and
    how often the new configuration has it. Return the larger of the two counts."""
    base, new = ({each.seed: each.values.get(name) for each in result.repetitions} for result in group)
    both = [(base[seed], new[seed]) for seed in base.keys() & new.keys()]
    signs = [(of_new > of_base) - (of_new < of_base) for of_base, of_new in both if of_base and of_new]
    return max(signs.count(1), signs.count(-1))


def side_names(base: Result, new: Result, comparison: Comparison) -> tuple[str, str]:
    """Return the names of two compared results, which are their labels. Labels 'base' and 'new' only state the places
    in a pair measured alternately; if such a pair differs in a single setting, each name is the value of this
    setting.

    If the rules reject a result, the broken rules follow its name: 'batch=512 (INVALID: RC101)'.
    """
    keys = {key for side in (base, new) if side.asked is not None for key in side.asked.config} - {THREADS}
    given = [change for change in comparison.changes if change.name in keys]
    called = base.label, new.label
    if len(given) == 1:
        (change,) = given
        key = "" if change.name == "runtime.implementation" else f"{change.name.partition('.')[2]}="
        values = (f"{key}{printable(str(value), 60)}" for value in (change.base, change.new))
        base_name, new_name = (
            value if side.label == place else side.label
            for side, place, value in zip((base, new), (BASE, NEW), values, strict=True)
        )
        called = base_name, new_name
    return _with_refusal(called[0], base), _with_refusal(called[1], new)


def _with_refusal(name: str, side: Result) -> str:
    """Return a compared result's name. If the rules reject the result, the broken rules follow: 'a (INVALID:
    RC101)'."""
    if side.outcome != "invalid":
        return name
    broken = names(broken_codes(side))
    return f"{name} (INVALID: {broken})" if broken else f"{name} (INVALID)"
