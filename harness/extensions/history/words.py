"""What changed over time, in words, as blocks and as rows of an export."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.extensions.history.documents import ChangeRow
from harness.extensions.history.timelines import ChangePoint, Timeline
from reports.comparison.difference import describe, find_difference
from reports.comparison.records import Change
from reports.document.blocks import Block, Bullets, Fold, Prose, text_table
from reports.text.formatting import interval, names, plural, printable, ratio, utc
from rules.errors import InputError

METHOD = (
    "Changes: binary segmentation of the sets' means, of their logarithms where ratios are compared; permutation "
    "tests of the best splits, Holm over all candidates of the page, so that 95 % of pages of independent sets "
    "without a change show none; judged from 3 sets after a change. Neighbouring sets must not resemble one another. "
    "What was taken back may not be found. Intervals hold 95 % (Welch), the place of the change taken as known. Sets "
    "of other hardware, data, definition or given values are on another line; what was left to a default may differ. "
    "Nothing here is judged by the rules."
)


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


def change_blocks(lines: Sequence[Timeline]) -> tuple[Block, ...]:
    """Each change with what else differs, the newest first; then what could not be judged."""
    blocks: list[Block] = []
    found = [(line, change) for line in lines for change in line.changes]
    for line, change in sorted(found, key=lambda each: -each[0].points[each[1].at].time_ms):
        others = _others(line, change)
        blocks.append(Prose(text=change_sentence(line, change)))
        if others:
            table = text_table(("setting", "before", "after"), [(each.name, each.base, each.new) for each in others])
            summary = printable(f"What else differs: {names([each.name for each in others], 6)}")
            blocks.append(Fold(summary=summary, blocks=(table,)))
    unjudged = tuple(text for line in lines if (text := why_not_judged(line)))
    if not found:
        blocks.append(Prose(text=f"No change shown in {plural(len(lines) - len(unjudged), 'line')} of sets."))
    return (*blocks, *((Bullets(items=unjudged, kind="list"),) if unjudged else ()))


def why_not_judged(line: Timeline) -> str:
    """Say why a line shows no change although there may be one; empty where that is not so."""
    if line.found.is_correlated:
        return f"{line.name}: neighbouring sets resemble one another; none of what may be changes or drift is shown."
    few = f"{line.name}: {plural(len(line.points), 'set')}, too few to show a change beside as many lines."
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
                    others=_others(line, change),
                )
            )
    return tuple(rows)
