"""The sentence with which a page or a group of several configurations opens: the fastest, and the INVALID ones."""

from collections.abc import Sequence

from reports.comparison.comparison import GroupContext
from reports.comparison.records import Comparison
from reports.comparison.sweep import find_alike
from reports.comparison.wording import speed, with_sign
from reports.page.figures.times import chart_name
from reports.results.result import Result
from reports.text.formatting import names, plural


def answer(group: Sequence[Result], comparisons: Sequence[Comparison], context: GroupContext) -> str:
    """Say what comparable configurations are compared for; empty of a lone one.

    `comparisons` are those with the baseline, `context` is the group's. Of official results no fastest one is named:
    the guidelines ask for more beside a comparison than a sentence can say.
    """
    if len(group) < 2:
        return ""
    is_own = group[0].status == "own"
    if is_own and len(group) == 2 and len(comparisons) == 1 and (found := _of_two(group, comparisons[0])):
        return found
    found = _fastest(group, context) if is_own else ""
    refused = [result.label for result in group if result.outcome == "invalid"]
    return (found or what_there_is(group)) + (f"; INVALID: {names(refused)}" if refused else "")


def what_there_is(sets: Sequence[Result]) -> str:
    """'3 configurations of dlrm_tiny'; results under official names are unverified where all of them are."""
    benchmarks = sorted({result.benchmark_name for result in sets})
    unverified = ", unverified" if all(result.standing == "unverified" for result in sets) else ""
    return f"{plural(len(sets), 'configuration')} of {names(benchmarks)}{unverified}"


def _fastest(group: Sequence[Result], context: GroupContext) -> str:
    """Name the fastest of the configurations that the rules accept, and those not shown to differ from it."""
    accepted = [result for result in group if result.outcome != "invalid"]
    timed = [(time_s, result) for result in accepted if (time_s := _time_s(result, accepted)) is not None]
    if len(timed) < 2:
        return ""
    fastest = min(timed, key=lambda entry: entry[0])[1]
    others = [result for result in accepted if result is not fastest]
    alike = find_alike(fastest, others, context)
    of_all = what_there_is(accepted) + ("" if len(accepted) == len(group) else " that the rules accept")
    if len(alike) == len(others):
        return f"None of {of_all} is shown to differ from the fastest, {fastest.label}"
    return f"{fastest.label} is the fastest of {of_all}" + (
        f"; not shown to differ from it: {names(alike)}" if alike else ""
    )


def _time_s(result: Result, accepted: Sequence[Result]) -> float | None:
    """The score; where no configuration has one, the geometric mean of the runs that reached the target."""
    if any(other.score.score_s is not None for other in accepted):
        return result.score.score_s
    summary = result.summary("time_to_train_s")
    return summary.geometric_mean if summary else None


def _of_two(group: Sequence[Result], comparison: Comparison) -> str:
    """The comparison of two configurations, marking what the rules reject; empty where it shows nothing."""
    whole = comparison.whole
    if comparison.verdict not in ("faster", "slower") or whole is None or whole.time_ratio is None:
        return ""
    shown = {result.label: chart_name(result) for result in group}
    base, new = shown[comparison.base], shown[comparison.new]
    if comparison.verdict != whole.verdict:
        return f"{new}: {comparison.verdict} than {base}, by the runs that reach the target"
    return f"{new} trains {with_sign(speed(whole.time_ratio))} than {base}"
