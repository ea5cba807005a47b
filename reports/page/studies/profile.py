"""Makes the section on a profile of a training step, with its two charts; terminal and Markdown show the same
tables."""

from reports.charts.bars import Bar, phases_figure
from reports.charts.roofline import RooflineDot, roofline_figure
from reports.document.blocks import Block, Chart, Prose
from reports.document.page import PageSection
from reports.facts.profile import amount, bound_name, bound_shares, operator_name, operator_shapes, phase_label
from reports.parts.profile import (
    ceilings_table,
    conditions,
    evaluation_sentence,
    headline,
    limits_table,
    operators_table,
    phases_table,
)
from reports.text.formatting import percent, si
from rules.records.profile import OperatorRecord, PhaseRecord, ProfileRecord


def profile_section(record: ProfileRecord, prefix: str) -> PageSection:
    """Return the section on one profile of a training step; `prefix` begins every HTML id in it."""
    charts = (phases_chart(record, f"{prefix}-phases"), roofline_chart(record, f"{prefix}-roofline"))
    heading = f"Profile: {record.benchmark}, {record.implementation}"
    blocks: tuple[Block, ...] = (
        Prose(text=headline(record)),
        *(chart for chart in charts if chart is not None),
        limits_table(record, f"{prefix}-limits"),
        ceilings_table(record, f"{prefix}-ceilings"),
        *((operators_table(record, f"{prefix}-operators"),) if record.operators.measured.table else ()),
        *(Prose(text=note, kind="note") for note in (*conditions(record), evaluation_sentence(record))),
    )
    return PageSection(id=prefix, heading=heading, name=heading, blocks=blocks)


def phases_chart(record: ProfileRecord, id_: str) -> Chart | None:
    """Return the chart of a training step's time by phase; None when no phase has a time."""
    bars = [
        Bar(phase_label(phase), _parts(share, phase), _bar_words(phase))
        for phase in record.phases
        if (share := amount(phase.computed.share)) is not None
    ]
    if not bars:
        return None
    largest = max(bars, key=lambda bar: sum(bar.parts))
    lead = f"The largest phase is {largest.label} with {percent(sum(largest.parts), 0)} of the step. "
    lead += ", ".join(
        f"{percent(share, 0)} of the time is bound by {bound_name(limit)}" for limit, share in bound_shares(record)
    )
    title = "Phases of one training step"
    return Chart(
        figure=phases_figure(bars, id_=id_, title=title, description=f"One bar per phase. {lead}."),
        heading="Where a step's time goes",
        lead=f"{lead}.",
        table=phases_table(record, f"{id_}-table"),
    )


def _parts(share: float, phase: PhaseRecord) -> tuple[float, float]:
    """Return two shares of the step's time for a phase: the time that it would take at its roofline ceiling, and what
    it takes beyond that."""
    at_ceiling = share * min(max(amount(phase.computed.ceiling_fraction) or 0.0, 0.0), 1.0)
    return at_ceiling, share - at_ceiling


def _bar_words(phase: PhaseRecord) -> str:
    bound, fraction = phase.computed.bound, amount(phase.computed.ceiling_fraction)
    if bound is None or fraction is None:
        return bound or ""
    return f"{bound}, {percent(fraction, 0)} of its ceiling"


def roofline_chart(record: ProfileRecord, id_: str) -> Chart | None:
    """Return the roofline chart of a profile's phases and operators; None if ceilings were not measured, or if no
    phase and no operator can be drawn."""
    dots = [
        *filter(None, map(_phase_dot, record.phases)),
        *filter(None, map(_operator_dot, record.operators.measured.table)),
    ]
    reached = record.ceilings.computed
    best, memory = amount(reached.best_matmul_flop_per_s), amount(reached.memory_bytes_per_s)
    if not dots or best is None or memory is None:
        return None
    copies = (amount(copy.bytes_per_s.best) for copy in record.ceilings.measured.copies)
    cache = max((rate for rate in copies if rate is not None), default=None)
    lead = _roofline_lead(record)
    title, about = "Roofline of this system", f"One dot per phase. {lead}"
    return Chart(
        figure=roofline_figure(dots, peak=best, memory=memory, cache=cache, id_=id_, title=title, description=about),
        heading="Speed relative to the ceilings",
        lead=lead,
        table_note="The tables of phases and operators list the numbers of this chart.",
    )


def _phase_dot(phase: PhaseRecord) -> RooflineDot | None:
    work, rate = amount(phase.computed.flop_per_byte), amount(phase.computed.flop_per_s)
    if work is None or rate is None:
        return None
    label = phase_label(phase)
    hint = f"{label}: {si(rate)}FLOP/s at {work:.3g} FLOP/byte"
    return RooflineDot(label=label, flop_per_byte=work, flop_per_s=rate, kind="phase", hint=hint)


def _operator_dot(operator: OperatorRecord) -> RooflineDot | None:
    flop, num_bytes = amount(operator.flop), amount(operator.bytes)
    self_s, calls = amount(operator.self_s_per_step), amount(operator.calls_per_step)
    if flop is None or num_bytes is None or self_s is None or calls is None:
        return None
    name, rate = operator_name(operator), flop / (self_s / calls)
    hint = f"{name} {operator_shapes(operator)}: {si(rate)}FLOP/s"
    return RooflineDot(label=name, flop_per_byte=flop / num_bytes, flop_per_s=rate, kind="operator", hint=hint)


def _roofline_lead(record: ProfileRecord) -> str:
    work, ridge = amount(record.step.computed.flop_per_byte), amount(record.ceilings.computed.ridge_flop_per_byte)
    if work is None or ridge is None:
        return "FLOP/s over FLOP per byte, below the measured ceilings of compute and memory."
    where, side = ("at or above", "compute") if work >= ridge else ("below", "memory")
    return (
        f"The whole step does {work:.3g} FLOP per byte, {where} the {ridge:.3g} FLOP per byte at which the measured "
        f"ceilings meet: without overhead, the step would be bound by {side}."
    )
