"""A profile in tables: phases, limits of the step, ceilings, operators; for the page, the terminal and Markdown."""

from reports.document.blocks import Cell, Column, Table
from reports.facts.profile import OperatorRow, PhaseRow, ProfileFacts
from reports.text.formatting import (
    MILLISECONDS,
    MISSING,
    count,
    duration,
    interval,
    percent,
    plural,
    si,
    throughput_text,
)

LIMIT_NAMES = {
    "matmul": "matrix products alone, each at its own shape",
    "matmul_median": "the same at the ceilings' medians",
    "matmul_best_shape": "matrix products alone, at the best shape",
    "all_phases": "every phase at its ceiling",
}


def per_second(value: float | None, unit: str) -> str:
    """'41.2 GFLOP/s': prefix and unit together."""
    text = si(value)
    if text == MISSING:
        return text
    number, _, prefix = text.partition(" ")
    return f"{number} {prefix}{unit}"


def headline(record: ProfileFacts) -> str:
    """What the profile found, in a few sentences."""
    step = duration(record.step_s)
    parts = [f"A step of {count(record.batch_size)} samples takes {step}: {throughput_text(record.samples_per_s)}."]
    limits = {limit.name: limit for limit in record.limits}
    if "all_phases" in limits:
        all_phases = limits["all_phases"]
        parts.append(
            f"With every phase at its ceiling it would be {throughput_text(all_phases.samples_per_s)}; the step "
            f"reaches {percent(all_phases.fraction, 0)} of that."
        )
    if record.bound_shares:
        largest, share = max(record.bound_shares, key=lambda entry: entry[1])
        parts.append(f"Most of its time, {percent(share, 0)}, is in phases bound by {largest}.")
    return " ".join(parts)


def conditions(record: ProfileFacts) -> tuple[str, ...]:
    """Under what the numbers were taken, and how far they can be trusted."""
    cost = f"{percent(record.instrumentation_cost)}"
    if record.instrumentation_interval is not None:
        cost += f" (95 % interval {interval(*(percent(end) for end in record.instrumentation_interval))})"
    return (
        f"{record.implementation} on {record.device}, {record.precision}, "
        f"{plural(record.num_threads, 'thread')}; medians over {count(record.num_steps)} steps.",
        f"Named phases cover {percent(record.named_share)} of the step. Telling them apart costs {cost} of it: a "
        f"step takes {duration(record.instrumented_step_s)} with it and {duration(record.step_s)} without "
        f"(fastest block: {duration(record.fastest_instrumented_step_s)} and {duration(record.fastest_step_s)}), all "
        "measured.",
        "Times and ceilings are measured; FLOP, bytes, shares and fractions are computed. Bytes are compulsory fp32 "
        "traffic; what stays in a cache can make a phase faster than memory alone would allow.",
        "Bound by overhead: the phase takes more than twice its time at the ceiling.",
    )


def phases_table(record: ProfileFacts, id_: str = "phases") -> Table:
    return Table(
        id=id_,
        caption="Phases of one step; time measured, all else computed",
        columns=(
            Column(name="Phase"),
            Column(name="ms", is_number=True, help="measured"),
            Column(name="Share", is_number=True),
            Column(name="GFLOP/s", is_number=True),
            Column(name="GB/s", is_number=True),
            Column(name="FLOP/B", is_number=True),
            Column(name="Ceiling", is_number=True, help="reached"),
            Column(name="Bound by"),
        ),
        rows=tuple(_phase_row(phase) for phase in record.phases),
    )


def _phase_row(phase: PhaseRow) -> tuple[Cell, ...]:
    return (
        Cell(text=phase.label),
        Cell(text=MISSING if phase.time_s is None else f"{phase.time_s * 1e3:,.3f}"),
        Cell(text=percent(phase.share)),
        Cell(text=_giga(phase.flop_per_s)),
        Cell(text=_giga(phase.bytes_per_s)),
        Cell(text=MISSING if phase.flop_per_byte is None else f"{phase.flop_per_byte:.3g}"),
        Cell(text=percent(phase.ceiling_fraction, 0)),
        Cell(text=phase.bound or MISSING),
    )


def _giga(value: float | None) -> str:
    return MISSING if value is None else f"{value / 1e9:.3g}" if value < 1e12 else f"{value / 1e9:,.0f}"


def limits_table(record: ProfileFacts, id_: str = "limits") -> Table:
    """The step as measured, and at its limits."""
    fastest = record.batch_size / record.fastest_step_s if record.batch_size and record.fastest_step_s else None
    measured = (
        (Cell(text="the step, measured"), Cell(text=throughput_text(record.samples_per_s)), Cell(text="")),
        (Cell(text="its fastest block, measured"), Cell(text=throughput_text(fastest)), Cell(text="")),
    )
    return Table(
        id=id_,
        caption="Speed of the whole step at its limits, computed from measured ceilings",
        columns=(
            Column(name="At"),
            Column(name="Speed", is_number=True),
            Column(name="Reached", is_number=True),
        ),
        rows=(
            *measured,
            *(
                (
                    Cell(text=LIMIT_NAMES[limit.name]),
                    Cell(text=throughput_text(limit.samples_per_s)),
                    Cell(text=percent(limit.fraction, 0)),
                )
                for limit in record.limits
            ),
        ),
    )


def ceilings_table(record: ProfileFacts, id_: str = "ceilings") -> Table:
    return Table(
        id=id_,
        caption="Ceilings of this system, measured in the same process",
        columns=(
            Column(name="Ceiling"),
            Column(name="Size"),
            Column(name="Best", is_number=True),
            Column(name="Median", is_number=True),
            Column(name="Of what"),
        ),
        rows=tuple(
            (
                Cell(text=row.name),
                Cell(text=row.size),
                Cell(text=per_second(row.best, row.unit)),
                Cell(text=per_second(row.median, row.unit)),
                Cell(text=row.detail),
            )
            for row in record.ceilings
        ),
    )


def operators_table(record: ProfileFacts, id_: str = "operators") -> Table:
    outside = (
        "" if record.outside_share is None else f"; {percent(record.outside_share)} lie outside of all operators"
    )
    return Table(
        id=id_,
        caption=f"Operators of most self time, measured over {plural(record.operator_steps or 0, 'step')} under "
        f"torch.profiler, which slows small ones{outside}. FLOP and bytes per call are computed",
        columns=(
            Column(name="Operator"),
            Column(name="Calls", is_number=True, help="per step"),
            Column(name="Self, ms", is_number=True, help="per step"),
            Column(name="Share", is_number=True),
            Column(name="FLOP", is_number=True),
            Column(name="Bytes", is_number=True),
            Column(name="Input shapes"),
        ),
        rows=tuple(_operator_row(row) for row in record.operators),
    )


def _operator_row(row: OperatorRow) -> tuple[Cell, ...]:
    return (
        Cell(text=row.name),
        Cell(text=MISSING if row.calls_per_step is None else f"{row.calls_per_step:g}"),
        Cell(text=MILLISECONDS.number(row.self_s) if row.self_s is None else f"{row.self_s * 1e3:,.3f}"),
        Cell(text=percent(row.share)),
        Cell(text=si(row.flop)),
        Cell(text=si(row.bytes)),
        Cell(text=row.shapes or MISSING),
    )


def evaluation_sentence(record: ProfileFacts) -> str:
    return (
        f"Evaluation takes {duration(record.eval_s)}: {throughput_text(record.eval_samples_per_s)}, "
        f"{per_second(record.eval_flop_per_s, 'FLOP/s')} of forward matrix products."
    )
