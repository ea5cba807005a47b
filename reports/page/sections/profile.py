"""A profile: its tables, for the page, the terminal and Markdown; and the page's section with its two charts."""

from collections.abc import Iterator

from reports.charts.bars import Bar, phases_figure
from reports.charts.roofline import RooflineDot, roofline_figure
from reports.document.blocks import Block, Chart, Prose, Table, numeric, table_of, text_table
from reports.document.page import PageSection
from reports.facts.profile import amount, bound_shares, operator_name, operator_shapes, phase_label
from reports.text.formatting import MISSING, count, duration, interval, num_bytes, percent, plural, printable, si
from reports.text.formatting import throughput_text as speed
from rules.records.profile import LayerProduct, OperatorRecord, PhaseRecord, ProfileRecord, Rate

LIMIT_NAMES = {
    "matmul": "matrix products alone, each at its own shape",
    "matmul_median": "the same at the ceilings' medians",
    "matmul_best_shape": "matrix products alone, at the best shape",
    "all_phases": "every phase at its ceiling",
}


def per_second(value: float | None, unit: str) -> str:
    """'41.2 GFLOP/s': prefix and unit together."""
    text = si(amount(value))
    if text == MISSING:
        return text
    number, _, prefix = text.partition(" ")
    return f"{number} {prefix}{unit}"


def headline(record: ProfileRecord) -> str:
    """What the profile found, in a few sentences."""
    step, limit = record.step.measured, record.step.computed.limits.all_phases
    parts = [
        f"A step of {count(record.global_batch_size)} samples takes {duration(amount(step.step_s))}: "
        f"{speed(amount(step.samples_per_s))}.",
        f"With every phase at its ceiling it would be {speed(amount(limit.samples_per_s))}; the step "
        f"reaches {percent(amount(limit.fraction), 0)} of that.",
    ]
    if shares := bound_shares(record):
        largest, share = max(shares, key=lambda entry: entry[1])
        parts.append(f"Most of its time, {percent(share, 0)}, is in phases bound by {largest}.")
    return " ".join(parts)


def conditions(record: ProfileRecord) -> tuple[str, ...]:
    """Under what the numbers were taken, and how far they can be trusted."""
    step = record.step.measured
    cost = percent(step.instrumentation_cost)
    low, high = step.instrumentation_cost_interval
    if low is not None and high is not None:
        cost += f" (95 % interval {interval(percent(low), percent(high))})"
    instrumented, fastest_instrumented, plain, fastest = (
        duration(amount(time_s))
        for time_s in (
            step.instrumented_step_s, step.fastest_instrumented_step_s, step.step_s, step.fastest_step_s,
        )
    )  # fmt: skip
    return (
        f"{record.implementation} on {record.device}, {record.precision}, {plural(record.num_threads, 'thread')}; "
        f"medians over {count(step.num_blocks * step.steps_per_block)} steps.",
        f"Named phases cover {percent(amount(step.named_share))} of the step. Telling them apart costs {cost} of it: "
        f"a step takes {instrumented} with it and {plain} without (fastest block: {fastest_instrumented} and "
        f"{fastest}), all measured.",
        "Times and ceilings are measured; FLOP, bytes, shares and fractions are computed. Bytes are compulsory fp32 "
        "traffic; what stays in a cache can make a phase faster than memory alone would allow.",
        "Bound by overhead: the phase takes more than twice its time at the ceiling.",
        *(
            ("fp32 leaves a GPU's tensor cores unused, in the ceilings as well as in the step.",)
            if record.device.startswith("cuda") and record.precision == "fp32"
            else ()
        ),
    )


def phases_table(record: ProfileRecord, id_: str = "phases") -> Table:
    return table_of(
        record.phases,
        (
            ("Phase", phase_label),
            (numeric("ms", "measured"), lambda phase: _milliseconds(phase.measured.time_s)),
            (numeric("Share"), lambda phase: percent(amount(phase.computed.share))),
            (numeric("GFLOP/s"), lambda phase: _giga(phase.computed.flop_per_s)),
            (numeric("GB/s"), lambda phase: _giga(phase.computed.bytes_per_s)),
            (numeric("FLOP/B"), lambda phase: _known(amount(phase.computed.flop_per_byte), "{:.3g}")),
            (numeric("Ceiling", "reached"), lambda phase: percent(amount(phase.computed.ceiling_fraction), 0)),
            ("Bound by", lambda phase: phase.computed.bound),
        ),
        id_=id_,
        caption="Phases of one step; time measured, all else computed",
    )


def _known(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)


def _milliseconds(time_s: float | None) -> str | None:
    known = amount(time_s)
    return None if known is None else f"{known * 1e3:,.3f}"


def _giga(rate: float | None) -> str | None:
    value = amount(rate)
    return None if value is None else f"{value / 1e9:.3g}" if value < 1e12 else f"{value / 1e9:,.0f}"


def limits_table(record: ProfileRecord, id_: str = "limits") -> Table:
    """The step as measured, and at its limits."""
    step, limits = record.step.measured, record.step.computed.limits
    fastest_s = amount(step.fastest_step_s)
    fastest = record.global_batch_size / fastest_s if fastest_s else None
    at_limits = ((name, getattr(limits, limit)) for limit, name in LIMIT_NAMES.items())
    return text_table(
        ("At", "Speed", "Reached"),
        (
            ("the step, measured", speed(amount(step.samples_per_s)), ""),
            ("its fastest block, measured", speed(fastest), ""),
            *((name, speed(amount(at.samples_per_s)), percent(amount(at.fraction), 0)) for name, at in at_limits),
        ),
        numbers=("Speed", "Reached"),
        caption="Speed of the whole step at its limits, computed from measured ceilings",
        id_=id_,
    )


def ceilings_table(record: ProfileRecord, id_: str = "ceilings") -> Table:
    return text_table(
        ("Ceiling", "Size", "Best", "Median", "Of what"),
        (
            (
                name,
                size,
                *(per_second(value, unit) for value in ((rate.best, rate.median) if rate else (None, None))),
                detail,
            )
            for name, size, rate, unit, detail in _ceilings(record)
        ),
        numbers=("Best", "Median"),
        caption="Ceilings of this system, measured in the same process",
        id_=id_,
    )


def _ceilings(record: ProfileRecord) -> Iterator[tuple[str, str, Rate | None, str, str]]:
    """Name, size, rate, its unit, and of what."""
    measured = record.ceilings.measured
    for product in (*measured.matmul, *measured.square):
        times = "" if product.num == 1 else f"{product.num} of "
        layers = product.used_by[:6] if isinstance(product, LayerProduct) else ()
        detail = ", ".join(printable(layer, 60) for layer in layers) or printable(product.layout, 60)
        yield "matmul", f"{times}{product.m}×{product.k}×{product.n}", product.flop_per_s, "FLOP/s", detail
    for copy in measured.copies:
        yield "copy", num_bytes(copy.bytes), copy.bytes_per_s, "B/s", "read and written"
    for name, gather in (("gather, uniform", measured.random_rows), ("gather, batches", measured.batch_rows)):
        detail = f"from {count(gather.table_rows)} rows, by {printable(gather.method, 40)}"
        yield name, f"{gather.row_bytes} B/row", gather.rows_per_s, "rows/s", detail
    transfer = measured.transfer
    # null is what a CPU has: there is nothing to copy to, and nothing was measured.
    moved, detail = (num_bytes(transfer.bytes), "pinned copy") if transfer else (MISSING, "no device")
    yield "host to device", moved, transfer.to_device_bytes_per_s if transfer else None, "B/s", detail
    yield "device to host", moved, transfer.to_host_bytes_per_s if transfer else None, "B/s", detail


def operators_table(record: ProfileRecord, id_: str = "operators") -> Table:
    measured = record.operators.measured
    share = amount(measured.outside_share)
    outside = "" if share is None else f"; {percent(share)} are outside of all operators"
    return table_of(
        measured.table,
        (
            ("Operator", operator_name),
            (numeric("Calls", "per step"), lambda operator: _known(amount(operator.calls_per_step), "{:g}")),
            (numeric("Self, ms", "per step"), lambda operator: _milliseconds(operator.self_s_per_step)),
            (numeric("Share"), lambda operator: percent(amount(operator.share))),
            (numeric("FLOP"), lambda operator: si(amount(operator.flop))),
            (numeric("Bytes"), lambda operator: si(amount(operator.bytes))),
            ("Input shapes", lambda operator: operator_shapes(operator) or None),
        ),
        id_=id_,
        caption=f"Operators of most self time, measured over {plural(measured.num_steps, 'step')} under "
        f"torch.profiler, which slows small ones{outside}. FLOP and bytes per call are computed",
    )


def evaluation_sentence(record: ProfileRecord) -> str:
    measured, computed = record.evaluation.measured, record.evaluation.computed
    return (
        f"Evaluation takes {duration(amount(measured.duration_s))}: {speed(amount(measured.samples_per_s))}, "
        f"{per_second(computed.flop_per_s, 'FLOP/s')} of forward matrix products."
    )


def profile_section(record: ProfileRecord, prefix: str) -> PageSection:
    """Everything that the page says about one profile; `prefix` begins every id."""
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
    """Where the time of one step goes; None when no phase has a time."""
    bars = [
        Bar(phase_label(phase), _parts(share, phase), _bar_words(phase))
        for phase in record.phases
        if (share := amount(phase.computed.share)) is not None
    ]
    if not bars:
        return None
    largest = max(bars, key=lambda bar: sum(bar.parts))
    lead = f"The largest phase is {largest.label} with {percent(sum(largest.parts), 0)} of the step. "
    lead += ", ".join(f"{percent(share, 0)} of the time is bound by {name}" for name, share in bound_shares(record))
    title = "Phases of one training step"
    return Chart(
        figure=phases_figure(bars, id_=id_, title=title, description=f"One bar per phase. {lead}."),
        heading="Where a step's time goes",
        lead=f"{lead}.",
        table=phases_table(record, f"{id_}-table"),
    )


def _parts(share: float, phase: PhaseRecord) -> tuple[float, float]:
    """What its ceiling explains of a phase's share of the step, and what goes beyond."""
    at_ceiling = share * min(max(amount(phase.computed.ceiling_fraction) or 0.0, 0.0), 1.0)
    return at_ceiling, share - at_ceiling


def _bar_words(phase: PhaseRecord) -> str:
    bound, fraction = phase.computed.bound, amount(phase.computed.ceiling_fraction)
    if bound is None or fraction is None:
        return bound or ""
    return f"{bound}, {percent(fraction, 0)} of its ceiling"


def roofline_chart(record: ProfileRecord, id_: str) -> Chart | None:
    """Phases and operators under this system's measured ceilings; None without ceilings or without a dot."""
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
        heading="How far from the ceilings",
        lead=lead,
        table_note="The tables of the phases and of the operators have the numbers.",
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
        return "Speed over work per byte, under the measured ceilings."
    side = "compute" if work >= ridge else "memory"
    return (
        f"The whole step does {work:.3g} FLOP per byte; the measured ceilings meet at {ridge:.3g}, so that {side} is "
        "what would bound it in the end."
    )
