"""Makes tables and sentences of a training step's profile: the phases of the step, what limits them, roofline
ceilings, operators, and the conditions of measurement."""

from collections.abc import Callable, Iterator
from functools import partial

from reports.document.blocks import Table, numeric, table_of, text_table
from reports.facts.profile import amount, bound_name, bound_shares, operator_name, operator_shapes, phase_label
from reports.parts.load import load_words
from reports.text.formatting import MISSING, count, duration, interval, num_bytes, percent, plural, printable, si
from reports.text.formatting import throughput_text as speed
from rules.records.profile import LayerProduct, ProfileRecord, Rate


def per_second(value: float | None, unit: str) -> str:
    """Format a rate with SI prefix and unit: '41.2 GFLOP/s'."""
    text = si(amount(value))
    if text == MISSING:
        return text
    number, _, prefix = text.partition(" ")
    return f"{number} {prefix}{unit}"


def profile_answer(record: ProfileRecord) -> str:
    """Return in a clause the result of profiling a training step: 'dlrm_tiny, reference: a step takes 16.4 ms, 14 %
    of the speed at its ceilings, 80 % of it bound by memory'."""
    step, limit = record.step.measured, record.step.computed.limits.all_phases
    parts = [f"a step takes {duration(amount(step.step_s))}"]
    if (fraction := amount(limit.fraction)) is not None:
        parts.append(f"{percent(fraction, 0)} of the speed at its ceilings")
    if shares := bound_shares(record):
        largest, share = max(shares, key=lambda entry: entry[1])
        parts.append(f"{percent(share, 0)} of it bound by {bound_name(largest)}")
    return f"{printable(record.benchmark, 80)}, {printable(record.implementation, 80)}: {', '.join(parts)}"


def headline(record: ProfileRecord) -> str:
    """Return the findings of a training step's profile in a few sentences."""
    step, limit = record.step.measured, record.step.computed.limits.all_phases
    parts = [
        f"A step of {count(record.global_batch_size)} samples takes {duration(amount(step.step_s))}: "
        f"{speed(amount(step.samples_per_s))}.",
        f"With every phase at its roofline ceiling the speed would be {speed(amount(limit.samples_per_s))}; the step "
        f"reaches {percent(amount(limit.fraction), 0)} of that.",
    ]
    if shares := bound_shares(record):
        largest, share = max(shares, key=lambda entry: entry[1])
        parts.append(f"Most of the step's time, {percent(share, 0)}, is in phases bound by {bound_name(largest)}.")
    return " ".join(parts)


def _spread_words(spread: float | None) -> str:
    return "" if spread is None else f", with the middle half of all blocks within {percent(spread)} of the median"


def conditions(record: ProfileRecord) -> tuple[str, ...]:
    """Return the conditions under which a profile was measured (device, threads …), and the accuracy of its
    numbers."""
    step = record.step.measured
    cost, how = percent(step.instrumentation_cost), "median over pairs of neighbouring blocks of steps"
    low, high = step.instrumentation_cost_interval
    if low is not None and high is not None:
        how += f"; 95 % interval {interval(percent(low), percent(high))}"
    times = (step.instrumented_step_s, step.fastest_instrumented_step_s, step.step_s, step.fastest_step_s)
    instrumented, fastest_instrumented, plain, fastest = (duration(amount(time_s)) for time_s in times)
    return (
        f"Profiled is the {record.implementation} implementation on {record.device}, {record.precision}, "
        f"{plural(record.num_threads, 'thread')}; times are medians over "
        f"{count(step.num_blocks * step.steps_per_block)} steps{_spread_words(step.step_spread)}.",
        f"Named phases cover {percent(amount(step.named_share))} of the step. Timing each phase makes a step {cost} "
        f"slower ({how}). The median time of a step is {instrumented} with the phases timed and {plain} without; a "
        f"step of the fastest block takes {fastest_instrumented} with the phases timed and {fastest} without (all "
        "measured).",
        "Times and ceilings are measured; FLOP, bytes, shares and fractions are computed. Bytes are compulsory fp32 "
        "traffic; data that stays in a cache can make a phase faster than memory would allow.",
        "A phase is bound by overhead if it takes more than twice its time at the roofline ceiling.",
        *(
            ("fp32 leaves a GPU's tensor cores unused, in the ceilings as well as in the step.",)
            if record.device.startswith("cuda") and record.precision == "fp32"
            else ()
        ),
        *((f"Measured {words}.",) if (words := load_words(record.loads)) else ()),
    )


def phases_table(record: ProfileRecord, id_: str = "phases") -> Table:
    return table_of(
        record.phases,
        (
            ("Phase", phase_label),
            (numeric("ms", "measured"), "measured.time_s", _milliseconds),
            (numeric("Share"), "computed.share", _if_amount(percent)),
            (numeric("GFLOP/s"), "computed.flop_per_s", _if_amount(_giga)),
            (numeric("GB/s"), "computed.bytes_per_s", _if_amount(_giga)),
            (numeric("FLOP/B"), "computed.flop_per_byte", _if_amount("{:.3g}".format)),
            (numeric("Ceiling", "reached"), "computed.ceiling_fraction", _whole_percent),
            ("Bound by", "computed.bound"),
        ),
        id_=id_,
        caption="Phases of one step; time measured, all else computed",
    )


def _if_amount(form: Callable[[float], str]) -> Callable[[float], str]:
    """Return a function that formats a number in a profile as `form` does. A number that is not positive, or is too
    small or too large to be drawn in a chart, is printed as missing."""
    return lambda value: MISSING if (known := amount(value)) is None else form(known)


_milliseconds = _if_amount(lambda time_s: f"{time_s * 1e3:,.3f}")
_whole_percent = _if_amount(partial(percent, digits=0))


def _giga(rate: float) -> str:
    return f"{rate / 1e9:.3g}" if rate < 1e12 else f"{rate / 1e9:,.0f}"


def limits_table(record: ProfileRecord, id_: str = "limits") -> Table:
    """Return the table of a training step's speed in samples/s: as measured, and as computed for each of its limits
    (matrix products alone, all phases …), with the share of the computed speed that the measured step reached."""
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
        ("Ceiling", "Size", "Best", "Median", "Spread", "Of what"),
        _ceilings(record),
        numbers=("Best", "Median", "Spread"),
        caption="Ceilings of this system, measured in the same process",
        id_=id_,
    )


def _ceilings(record: ProfileRecord) -> Iterator[tuple[str, ...]]:
    measured = record.ceilings.measured
    for product in (*measured.matmul, *measured.square):
        times = "" if product.num == 1 else f"{product.num} of "
        layers = product.used_by[:6] if isinstance(product, LayerProduct) else ()
        detail = ", ".join(printable(layer, 60) for layer in layers) or printable(product.layout, 60)
        size = f"{times}{product.m}×{product.k}×{product.n}"
        yield "matmul", size, *_rates(product.flop_per_s, "FLOP/s"), detail
    for copy in measured.copies:
        yield "copy", num_bytes(copy.bytes), *_rates(copy.bytes_per_s, "B/s"), "read and written"
    for name, gather in (("gather, uniform", measured.random_rows), ("gather, batches", measured.batch_rows)):
        detail = f"from {count(gather.table_rows)} rows, by {printable(gather.method, 40)}"
        yield name, f"{gather.row_bytes} B/row", *_rates(gather.rows_per_s, "rows/s"), detail
    transfer = measured.transfer
    # On a CPU the record has null here: there is no device to copy to, and nothing was measured.
    moved, detail = (num_bytes(transfer.bytes), "pinned copy") if transfer else (MISSING, "no device")
    yield "host to device", moved, *_rates(transfer.to_device_bytes_per_s if transfer else None, "B/s"), detail
    yield "device to host", moved, *_rates(transfer.to_host_bytes_per_s if transfer else None, "B/s"), detail


def _rates(rate: Rate | None, unit: str) -> tuple[str, str, str]:
    """Return texts on the trials in which a rate was measured: the best, the median, and the interquartile range as a
    share of the median."""
    if rate is None:
        return MISSING, MISSING, MISSING
    return per_second(rate.best, unit), per_second(rate.median, unit), percent(rate.spread)


def operators_table(record: ProfileRecord, id_: str = "operators") -> Table:
    measured = record.operators.measured
    share = amount(measured.outside_share)
    outside = "" if share is None else f"; {percent(share)} are outside of all operators"
    return table_of(
        measured.table,
        (
            ("Operator", operator_name),
            (numeric("Calls", "per step"), "calls_per_step", _if_amount("{:g}".format)),
            (numeric("Self, ms", "per step"), "self_s_per_step", _milliseconds),
            (numeric("Share"), "share", _if_amount(percent)),
            (numeric("FLOP"), "flop", _if_amount(si)),
            (numeric("Bytes"), "bytes", _if_amount(si)),
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


LIMIT_NAMES = {
    "matmul": "matrix products alone, each at its own shape",
    "matmul_median": "the same at the ceilings' medians",
    "matmul_best_shape": "matrix products alone, at the best shape",
    "all_phases": "every phase at its ceiling",
}
