"""What sets two sides apart: why they may not be compared, or what is being compared."""

from itertools import islice

from reports.comparison.records import Change
from reports.facts.sides import Side
from reports.text.formatting import printable
from rules.scoring.comparable import why_not_comparable

MAX_CHANGES = 60


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
    if base.kind == "throughput":
        return _why_other_measurement(base, new)
    if base.kind != "runs":
        return _why_other_quality(base, new)
    if not base.runs or not new.runs:
        return f"{(new if base.runs else base).label} holds no finished run"
    first = base.runs[0]
    for run in (*base.runs, *new.runs):
        if why := why_not_comparable(first, run):
            return printable(why)
    if base.status != new.status:
        return f"different standing: {base.status} and {new.status} benchmarks are never compared"
    twins = {run.log_sha256 for run in base.runs} & {run.log_sha256 for run in new.runs} - {""}
    if twins:
        number = sum(run.log_sha256 in twins for run in new.runs)
        return f"{number} of the runs stand on both sides (equal logs); a run is not compared with itself"
    return None


def _why_other_measurement(base: Side, new: Side) -> str | None:
    """Two measurements of throughput may differ in whatever is being varied, but not in what is timed."""
    if base.samples == new.samples:
        return "the same measurement stands on both sides"
    of_base, of_new = dict(base.settings).get("data_kind"), dict(new.settings).get("data_kind")
    if of_base is not None and of_new is not None and of_base != of_new:
        return f"different input: {of_base} and {of_new} data; reading a dataset is part of the time"
    return None


def _why_other_quality(base: Side, new: Side) -> str | None:
    """What is learnt compares on one dataset's evaluation split, after equal samples."""
    of_base, of_new = dict(base.settings), dict(new.settings)
    for name, words in (
        ("dataset_sha256", "different datasets"), ("eval_samples", "different evaluation splits"),
        ("num_samples", "trained on different numbers of samples"),
    ):  # fmt: skip
        if of_base.get(name) is not None and of_new.get(name) is not None and of_base[name] != of_new[name]:
            return f"{words}: {of_base[name]} and {of_new[name]}"
    return (
        "the same measurement stands on both sides"
        if base.label == new.label and base.samples == new.samples
        else None
    )


def systems_differ(base: Side, new: Side) -> bool:
    """Whether the sides were measured on different systems, by their descriptions where both have one."""
    of_base, of_new = dict(base.hardware), dict(new.hardware)
    if of_base and of_new:
        return any(of_base[key].strip() != of_new[key].strip() for key in of_base.keys() & of_new.keys())
    # Without a name, or without a description and a name of its own, nothing says that they differ.
    return base.system is not None and new.system is not None and base.system != new.system


def list_changes(base: Side, new: Side) -> tuple[Change, ...]:
    """What was set differently, None where a side does not say it."""
    of_base, of_new = dict(base.settings), dict(new.settings)
    changes = (
        Change(name=name, base=of_base.get(name), new=of_new.get(name)) for name in dict.fromkeys((*of_base, *of_new))
    )
    return tuple(islice((change for change in changes if change.base != change.new), MAX_CHANGES))
