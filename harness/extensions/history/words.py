"""Describe changes of quantities over time in words, as blocks of a page and as rows of JSON."""

import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.extensions.history.change_points import SHORTEST
from harness.extensions.history.documents import ChangeRow
from harness.extensions.history.series import ChangePoint, SetSeries
from reports.comparison.difference import describe, find_difference
from reports.comparison.records import Change
from reports.document.blocks import Block, Bullets, Fact, Fold, Prose, text_table
from reports.text.formatting import interval, names, plural, printable, ratio, utc
from rules.errors import InputError

METHOD = (
    "A change is a jump of the sets' mean, with at least 3 sets on each side; where ratios are compared, the mean is"
    " that of the logarithms. A jump is reported only if it explains the series far better than a steady trend or "
    "correlation between neighbouring sets. In simulations the chance of a false alarm on a page of one to four "
    "series is at most 2 % where sets are independent, and in most cases at most 10 % where neighbouring sets are "
    "correlated. On a page of four series of 12 sets each, the chance of a false alarm can be higher: at most 25 % "
    "if neighbouring sets are correlated, and at most 30 % if the sets also drift. A jump of 5 standard deviations "
    "is detected in at least 85 % of simulated series of 12 or more sets. Four sets in a row look like a change if "
    "other work on the machine shifts them by more than twice the noise. Intervals of a jump's size are at 95 % "
    "confidence (Welch), with the place of the change taken as known. Sets that differ in hardware, data, benchmark "
    "definition or a value given by the user are in different series; default values may differ within a series. No "
    "set on this page is judged by MLPerf's rules."
)
"""Text on the method by which changes are found, with its error rates, which test_change_points.py simulates."""
_MAX_COMMAND = 400
_DOUBT = (
    "Where systems drift, the chance of a false alarm is up to 30 %. To be sure, measure both code versions "
    "alternately:"
)


def change_sentence(series: SetSeries, change: ChangePoint) -> str:
    """Return a sentence on a change: 'Throughput of dlrm_tiny, ab12cd34: 0.854× (0.826× – 0.883×), worse, from SET of
    DATE …'."""
    before, after = series.points[change.at - 1], series.points[change.at]
    step, low, high = (
        ratio(value) if series.is_ratio else f"{value:+.5f}" for value in (change.step, change.low, change.high)
    )
    return (
        f"{series.name}: {step} ({interval(low, high)}), {'worse' if change.is_worse else 'better'}, from "
        f"{after.result.label} of {utc(after.time_ms)} on, {plural(len(series.points) - change.at, 'set')}: commit "
        f"{before.commit} → {after.commit}, code version {before.code} → {after.code}."
    )


@cache
def _settings_changed(before: Path, after: Path) -> tuple[Change, ...]:
    """Return the settings in which the two run sets of a change differ, except code and logs; none where a run set
    cannot be read."""
    try:
        found = find_difference(describe(before), describe(after))
    except (InputError, OSError):
        return ()
    return tuple(
        Change(name=row.name, base=row.a.value if row.a else None, new=row.b.value if row.b else None)
        for row in found.differing
        if row.section != "logged" and row.name not in ("code", "commit", "commit_is_dirty")
    )


def _others(series: SetSeries, change: ChangePoint) -> tuple[Change, ...]:
    return _settings_changed(*(series.points[at].result.folder for at in (change.at - 1, change.at)))


def alternate_command(series: SetSeries, change: ChangePoint) -> str:
    """Return the command that measures the commits before and after a change alternately; the Python of the older
    commit's environment is a placeholder, OLDER/bin/python, for the user to fill in."""
    folder = shlex.quote(printable(series.points[change.at - 1].result.place))
    return f"dlrmbench versus {folder} --python OLDER/bin/python"


def change_blocks(every: Sequence[SetSeries]) -> tuple[Block, ...]:
    """Return report blocks (sentences, tables) that list each change of a series' mean, the newest first, with the
    settings that changed together with the code; then the series in which no change can be judged."""
    blocks: list[Block] = []
    found = [(series, change) for series in every for change in series.changes]
    for series, change in sorted(found, key=lambda each: -each[0].points[each[1].at].time_ms):
        others = _others(series, change)
        blocks.append(Prose(text=change_sentence(series, change)))
        older = printable(series.points[change.at - 1].commit)
        advice = f"{_DOUBT} {alternate_command(series, change)}, with {older} installed in OLDER."
        blocks.append(Prose(text=advice, kind="note"))
        if others:
            table = text_table(("setting", "before", "after"), [(each.name, each.base, each.new) for each in others])
            summary = printable(f"What else differs: {names([each.name for each in others], 6)}")
            blocks.append(Fold(summary=summary, blocks=(table,)))
    unjudged = tuple(text for series in every if (text := why_not_judged(series)))
    if not found and (len(unjudged) < len(every) or not every):  # else each series says why
        blocks.append(Prose(text=f"{headline(every)}."))
    return (*blocks, *((Bullets(items=unjudged, kind="list"),) if unjudged else ()))


def headline(every: Sequence[SetSeries]) -> str:
    """Return a page's title on all changes: 'dlrm_tiny: 1 change for the worse, Samples/s 0.85× since DATE, in 3
    series'."""
    if not every:
        return "No series: no finished set is here"
    subject = names(sorted({series.points[0].result.benchmark_name for series in every}))
    if all(series.found.is_too_short for series in every):
        few = f"none of {len(every)} series has" if len(every) > 1 else "its series has fewer than"
        return f"{subject}: no change can be shown yet: {few} {SHORTEST} sets"
    changes = [(series, change) for series in every for change in series.changes]
    num_judged = sum(not why_not_judged(series) for series in every)
    if not num_judged:
        return f"{subject}: none of {len(every)} series can be judged"
    what = "no change shown"
    if changes:
        num_worse = sum(change.is_worse for _, change in changes)
        series, newest = max(changes, key=lambda each: each[0].points[each[1].at].time_ms)
        step = ratio(newest.step) if series.is_ratio else f"{newest.step:+.5f}"
        one = f"{series.measure.name} {step} since {utc(series.points[newest.at].time_ms)[:10]}"
        what = f"1 change for the {'worse' if num_worse else 'better'}, {one},"
        if len(changes) > 1:
            what = f"{len(changes)} changes, {num_worse} for the worse, the newest {one},"
    left = f"; {len(every) - num_judged} not judged" if num_judged < len(every) else ""
    return f"{subject}: {what} in {num_judged} series{left}"


def next_step(every: Sequence[SetSeries], command: str) -> Fact | None:
    """Return the command to run next, as a line of the page's head. Return None where a change is shown, or no
    command is to be suggested. `command` is the command that made the page."""
    if any(series.changes for series in every):
        return None
    newest = next((series for series in every if series.found.is_too_short), None)
    if newest is None:
        is_told = not command or "--fail-on" in command
        if is_told:
            return None
        more = printable(f"{command} --fail-on regression")
        return Fact(name="Next", value=more, note=" ends with exit code 5 at a regression", is_code=True)
    asked = newest.points[-1].result.asked
    if asked is None or not asked.command or len(asked.command) > _MAX_COMMAND:
        return None
    needed = plural(SHORTEST - len(newest.points), "more set")
    more = f" adds a set to the series '{newest.name}', which needs {needed} before it can show a change"
    return Fact(name="Next", value=printable(asked.command), note=more, is_code=True)


def why_not_judged(series: SetSeries) -> str:
    """Return the reason why a series of run sets cannot be judged; empty where it can."""
    if series.found.is_trend:
        rise = ratio(series.rise) if series.is_ratio else f"{series.rise:+.5f}"
        return f"{series.name}: a steady trend, {rise} from the first set to the last, and no change at a single set."
    if series.found.is_correlated:
        return f"{series.name}: neighbouring sets are correlated, so changes cannot be told from drift."
    few = f"{series.name}: {plural(len(series.points), 'set')}, too few to show a change ({SHORTEST} are needed)."
    return few if series.found.is_too_short else ""


def change_rows(every: Sequence[SetSeries]) -> tuple[ChangeRow, ...]:
    """Return every change in the series of run sets as a row of the JSON document."""
    rows = []
    for series in every:
        for change in series.changes:
            before, after = series.points[change.at - 1], series.points[change.at]
            rows.append(
                ChangeRow(
                    line=series.name,
                    unit=series.measure.unit,
                    is_ratio=series.is_ratio,
                    last_before=printable(before.result.place),
                    first_after=printable(after.result.place),
                    commit_before=before.commit,
                    commit_after=after.commit,
                    code_before=before.code,
                    code_after=after.code,
                    step=change.step,
                    low=change.low,
                    high=change.high,
                    is_worse=change.is_worse,
                    num_after=len(series.points) - change.at,
                    in_turns=alternate_command(series, change),
                    others=_others(series, change),
                )
            )
    return tuple(rows)
