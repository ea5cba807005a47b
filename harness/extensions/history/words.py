"""What changed over time, in words, as blocks and as rows of an export."""

import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.extensions.history.change_points import SHORTEST
from harness.extensions.history.documents import ChangeRow
from harness.extensions.history.timelines import ChangePoint, Timeline
from reports.comparison.difference import describe, find_difference
from reports.comparison.records import Change
from reports.document.blocks import Block, Bullets, Fold, Prose, text_table
from reports.text.formatting import interval, names, plural, printable, ratio, utc
from rules.errors import InputError

METHOD = (
    "Changes: steps of the sets' means, of their logarithms where ratios are compared, each of at least 3 sets and "
    "far more likely than a line whose neighbours resemble each other, or one with a steady trend. Simulated "
    "pages of one to four lines without a change show one in at most 1 % where sets are independent, and in at most "
    "10 % where neighbours resemble each other (of pages of four lines of 12 sets 25 %, and 30 % where these drift, "
    "too); a step of 5 standard deviations is found in 85 % of lines of 12 sets and more. "
    "Sets disturbed alike by more than twice their noise look like a change. Intervals hold 95 % (Welch), "
    "the place of the change taken as known. Sets of other hardware, data, definition or given values are on another "
    "line; what was left to a default may differ. Nothing here is judged by the rules."
)
"""How changes are found, and how often wrongly: tests/extensions/history/test_change_points.py simulates it."""
_DOUBT = "Of pages without a change up to 1 in 10 shows one where systems drift. To be sure, measure both in turns:"


def change_sentence(line: Timeline, change: ChangePoint) -> str:
    """'Throughput of dlrm_tiny, ab12cd34: 0.854× (0.826× – 0.883×), worse, from SET of MOMENT on: commit …'"""
    before, after = line.points[change.at - 1], line.points[change.at]
    step, low, high = (
        ratio(value) if line.is_ratio else f"{value:+.5f}" for value in (change.step, change.low, change.high)
    )
    return (
        f"{line.name}: {step} ({interval(low, high)}), {'worse' if change.is_worse else 'better'}, from "
        f"{after.result.label} of {utc(after.time_ms)} on, {plural(len(line.points) - change.at, 'set')}: commit "
        f"{before.commit} → {after.commit}, code {before.code} → {after.code}."
    )


@cache
def _settings_changed(before: Path, after: Path) -> tuple[Change, ...]:
    """What `diff` says of two sets but for the code and the logs; nothing where one cannot be read."""
    try:
        found = find_difference(describe(before), describe(after))
    except (InputError, OSError):
        return ()
    return tuple(
        Change(name=row.name, base=row.a.value if row.a else None, new=row.b.value if row.b else None)
        for row in found.differing
        if row.section != "logged" and row.name not in ("code", "commit", "commit_is_dirty")
    )


def _others(line: Timeline, change: ChangePoint) -> tuple[Change, ...]:
    return _settings_changed(*(line.points[at].result.folder for at in (change.at - 1, change.at)))


def turns_command(line: Timeline, change: ChangePoint) -> str:
    """The command that measures both commits in turns: the older in an environment of its own, beside the newer."""
    folder = shlex.quote(printable(line.points[change.at - 1].result.place))
    return f"dlrmbench versus {folder} --python OLDER/bin/python"


def change_blocks(lines: Sequence[Timeline]) -> tuple[Block, ...]:
    """Each change with what else differs, the newest first; then what could not be judged."""
    blocks: list[Block] = []
    found = [(line, change) for line in lines for change in line.changes]
    for line, change in sorted(found, key=lambda each: -each[0].points[each[1].at].time_ms):
        others = _others(line, change)
        blocks.append(Prose(text=change_sentence(line, change)))
        older = printable(line.points[change.at - 1].commit)
        advice = f"{_DOUBT} {turns_command(line, change)}, with {older} installed in OLDER."
        blocks.append(Prose(text=advice, kind="note"))
        if others:
            table = text_table(("setting", "before", "after"), [(each.name, each.base, each.new) for each in others])
            summary = printable(f"What else differs: {names([each.name for each in others], 6)}")
            blocks.append(Fold(summary=summary, blocks=(table,)))
    unjudged = tuple(text for line in lines if (text := why_not_judged(line)))
    if not found:
        blocks.append(Prose(text=f"{headline(lines)}."))
    return (*blocks, *((Bullets(items=unjudged, kind="list"),) if unjudged else ()))


def headline(lines: Sequence[Timeline]) -> str:
    """'dlrm_tiny: 2 changes, 1 for the worse, in 3 lines of sets; 1 not judged'"""
    subject = names(sorted({line.points[0].result.benchmark_name for line in lines if line.points}))
    changes = [change for line in lines for change in line.changes]
    num_judged = sum(not why_not_judged(line) for line in lines)
    num_worse = sum(change.is_worse for change in changes)
    what = f"{plural(len(changes), 'change')}, {num_worse} for the worse," if changes else "no change shown"
    if lines and all(line.found.is_too_short for line in lines):
        return f"{subject}: no change can be shown yet: of {plural(len(lines), 'line')} none has {SHORTEST} sets"
    if not num_judged:
        return f"{subject}: no line of sets can be judged, of {len(lines)}" if lines else "No line of sets"
    left = f"; {len(lines) - num_judged} not judged" if num_judged < len(lines) else ""
    return f"{subject}: {what} in {plural(num_judged, 'line')} of sets{left}"


def why_not_judged(line: Timeline) -> str:
    """Say why a line shows no change although there may be one; empty where that is not so."""
    if line.found.is_trend:
        rise = ratio(line.rise) if line.is_ratio else f"{line.rise:+.5f}"
        return f"{line.name}: a steady trend, {rise} from the first set to the last, and no change at a set."
    if line.found.is_correlated:
        return f"{line.name}: neighbouring sets resemble one another; none of what may be changes or drift is shown."
    few = f"{line.name}: {plural(len(line.points), 'set')}, too few to show a change, which takes {SHORTEST}."
    return few if line.found.is_too_short else ""


def change_rows(lines: Sequence[Timeline]) -> tuple[ChangeRow, ...]:
    """Every change as JSON says it."""
    rows = []
    for line in lines:
        for change in line.changes:
            before, after = line.points[change.at - 1], line.points[change.at]
            rows.append(
                ChangeRow(
                    line=line.name,
                    unit=line.measure.unit,
                    is_ratio=line.is_ratio,
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
                    num_after=len(line.points) - change.at,
                    in_turns=turns_command(line, change),
                    others=_others(line, change),
                )
            )
    return tuple(rows)
