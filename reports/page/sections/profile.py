"""The page's part about a profile: what it found, two charts, its tables and its conditions."""

from reports.charts.bars import PhaseBar, phases_figure
from reports.charts.roofline import RooflineCeilings, RooflineDot, roofline_figure
from reports.document.blocks import Chart
from reports.document.page import ProfileView
from reports.facts.profile import PhaseRow, ProfileFacts
from reports.page.figures.profile import (
    ceilings_table,
    conditions,
    evaluation_sentence,
    headline,
    limits_table,
    operators_table,
    phases_table,
)
from reports.text.formatting import percent, si


def profile_view(record: ProfileFacts, prefix: str) -> ProfileView:
    """Everything that the page says about one profile; `prefix` begins every id."""
    made = (phases_chart(record, f"{prefix}-phases"), roofline_chart(record, f"{prefix}-roofline"))
    return ProfileView(
        id=prefix,
        heading=f"Profile: {record.benchmark}, {record.implementation}",
        lead=headline(record),
        charts=tuple(chart for chart in made if chart is not None),
        tables=(
            limits_table(record, f"{prefix}-limits"),
            *((ceilings_table(record, f"{prefix}-ceilings"),) if record.ceilings else ()),
            *((operators_table(record, f"{prefix}-operators"),) if record.operators else ()),
        ),
        notes=(*conditions(record), evaluation_sentence(record)),
    )


def phases_chart(record: ProfileFacts, id_: str) -> Chart | None:
    """Where the time of one step goes; None when no phase has a time."""
    bars = [
        PhaseBar(
            name=phase.label,
            share=phase.share,
            at_ceiling=phase.share * min(phase.ceiling_fraction or 0.0, 1.0),
            words=_bar_words(phase),
        )
        for phase in record.phases
        if phase.share is not None
    ]
    if not bars:
        return None
    largest = max(bars, key=lambda bar: bar.share)
    lead = f"The largest phase is {largest.name} with {percent(largest.share, 0)} of the step. "
    lead += ", ".join(f"{percent(share, 0)} of the time is bound by {name}" for name, share in record.bound_shares)
    title = "Phases of one training step"
    return Chart(
        figure=phases_figure(bars, id_=id_, title=title, description=f"One bar per phase. {lead}."),
        heading="Where a step's time goes",
        lead=f"{lead}.",
        table=phases_table(record, f"{id_}-table"),
    )


def _bar_words(phase: PhaseRow) -> str:
    if phase.bound is None:
        return ""
    fraction = "" if phase.ceiling_fraction is None else f", {percent(phase.ceiling_fraction, 0)} of its ceiling"
    return f"{phase.bound}{fraction}"


def roofline_chart(record: ProfileFacts, id_: str) -> Chart | None:
    """Phases and operators under this system's measured ceilings; None without ceilings or without a dot."""
    dots = [
        RooflineDot(
            label=phase.label,
            flop_per_byte=phase.flop_per_byte,
            flop_per_s=phase.flop_per_s,
            kind="phase",
            hint=f"{phase.label}: {si(phase.flop_per_s)}FLOP/s at {phase.flop_per_byte:.3g} FLOP/byte",
        )
        for phase in record.phases
        if phase.flop_per_byte is not None and phase.flop_per_s is not None
    ]
    dots += [
        RooflineDot(
            label=row.name,
            flop_per_byte=row.flop / row.bytes,
            flop_per_s=row.flop / row.call_s,
            kind="operator",
            hint=f"{row.name} {row.shapes}: {si(row.flop / row.call_s)}FLOP/s",
        )
        for row in record.operators
        if row.flop is not None and row.bytes is not None and row.call_s is not None
    ]
    if not dots or record.matmul_flop_per_s is None or record.memory_bytes_per_s is None:
        return None
    ceilings = RooflineCeilings(
        flop_per_s=record.matmul_flop_per_s,
        memory_bytes_per_s=record.memory_bytes_per_s,
        cache_bytes_per_s=record.cache_bytes_per_s,
    )
    lead = _roofline_lead(record)
    title = "Roofline of this system"
    return Chart(
        figure=roofline_figure(dots, ceilings, id_=id_, title=title, description=f"One dot per phase. {lead}"),
        heading="How far from the ceilings",
        lead=lead,
        table=None,
        table_note="The numbers of the phases stand in the table of the phases, those of operators in theirs.",
    )


def _roofline_lead(record: ProfileFacts) -> str:
    if record.flop_per_byte is None or record.ridge_flop_per_byte is None:
        return "Speed over work per byte, under the measured ceilings."
    side = "compute" if record.flop_per_byte >= record.ridge_flop_per_byte else "memory"
    return (
        f"The whole step does {record.flop_per_byte:.3g} FLOP per byte; the measured ceilings meet at "
        f"{record.ridge_flop_per_byte:.3g}, so that {side} is what would bound it in the end."
    )
