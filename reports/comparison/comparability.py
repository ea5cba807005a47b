"""Why two sides may not be compared, and what differs between them; `comparison` asks."""

from itertools import islice

from reports.comparison.records import Change
from reports.facts.records import THREADS, THREADS_TIMED
from reports.facts.sides import Side
from reports.text.formatting import plural, printable
from rules.records.kinds import KINDS
from rules.scoring.comparable import why_not_comparable

MAX_CHANGES = 60
SAME_SET = "BASE and NEW are the same set"


def why_refused(base: Side, new: Side) -> str | None:
    """Why the two are not alike enough to be compared, or None."""
    if base.kind != new.kind:
        runs, other = (base, new) if base.kind == "runs" else (new, base)
        if runs.kind != "runs":
            return f"{base.label} holds a measurement of {base.kind}, {new.label} one of {new.kind}"
        return (
            f"{runs.label} holds runs to the target, {other.label} a measurement of {other.kind} alone: "
            "they are measured differently"
        )
    if base.kind != "runs":
        return _why_other_measurement(base, new)
    if not base.runs or not new.runs:
        return f"{(new if base.runs else base).label} holds no finished run"
    first = base.runs[0]
    for run in (*base.runs, *new.runs):
        if why := why_not_comparable(first, run):
            return printable(why)
    if base.status != new.status:
        return f"different status: {base.status} and {new.status} benchmarks are never compared"
    of_base, of_new = ({run.log_sha256 for run in side.runs} for side in (base, new))
    twins = of_base & of_new - {""}
    if twins and of_base == of_new:
        return SAME_SET
    if twins:
        number = sum(run.log_sha256 in twins for run in new.runs)
        return f"{plural(number, 'run is', 'runs are')} on both sides (equal logs): the sets are not independent"
    return None


def _why_other_measurement(base: Side, new: Side) -> str | None:
    """Measurements may differ in whatever is being varied, but not in what is measured."""
    record_type = KINDS[base.kind.partition(".")[0]]
    of_base, of_new = dict(base.settings), dict(new.settings)
    for name, words in record_type.MUST_AGREE.items():
        if name in of_base and name in of_new and of_base[name] != of_new[name]:
            return words.format(of_base[name], of_new[name])
    # Two measurements may well learn the same; none takes the same time as another.
    is_same = base.samples == new.samples and (record_type.MEASURE.counts_samples or base.label == new.label)
    return SAME_SET if is_same else None


def systems_differ(base: Side, new: Side) -> bool:
    """Whether the sides were measured on different systems, by their descriptions where both have one."""
    of_base, of_new = dict(base.hardware), dict(new.hardware)
    if of_base and of_new:
        return any(_said(of_base[key]) != _said(of_new[key]) for key in of_base.keys() & of_new.keys())
    # Without a name, or without a description and a name of its own, nothing says that they differ.
    return base.system is not None and new.system is not None and base.system != new.system


def _said(text: str) -> str:
    """A field's value; what does not apply to a system is said as N/A, or not at all."""
    return "" if text.strip().upper() == "N/A" else text.strip()


def list_changes(base: Side, new: Side) -> tuple[Change, ...]:
    """What was set differently, None where a side does not say it.

    Threads that differ are followed by the times that each side's were chosen by: they may have been a tie.
    """
    of_base, of_new = dict(base.settings), dict(new.settings)
    if of_base.get(THREADS) == of_new.get(THREADS):
        for settings in (of_base, of_new):
            settings.pop(THREADS_TIMED, None)
    changes = (
        Change(name=name, base=of_base.get(name), new=of_new.get(name)) for name in dict.fromkeys((*of_base, *of_new))
    )
    return tuple(islice((change for change in changes if change.base != change.new), MAX_CHANGES))
