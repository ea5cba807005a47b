"""A sweep's part of the page: one table over all configurations, and charts of each quantity over the axes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from reports.charts.sweep import places, sweep_figure
from reports.charts.xy import Dot
from reports.comparison.factor import FACTORS
from reports.comparison.sweep import SweepFacts, SweepRow
from reports.comparison.wording import change_text, sentence, speed, with_sign
from reports.document.blocks import Block, Cell, Chart, Column, Prose, Table, numeric, table_of
from reports.document.page import PageSection
from reports.facts.energy import explain_missing, source_words
from reports.facts.profile import bound_shares
from reports.page.figures.serving import serving_blocks
from reports.page.figures.times import bounds_text, sorted_cell
from reports.page.sections.measured import (
    in_unit,
    measure_of,
    measured_columns,
    measured_ends,
    measured_notes,
    measured_record,
)
from reports.statistics.intervals import AT_LEAST_NAME, LogSummary
from reports.text.formatting import (
    MISSING,
    TimeUnit,
    count,
    num_bytes,
    percent,
    plural,
    printable,
    si,
    throughput,
    time_unit,
)
from rules.records.measure import Measure

_Estimate = tuple[float, tuple[float, float] | None]
"""A value and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What a chart draws of each row, and how it is printed."""

    key: str
    title: str
    unit: str
    words: Callable[[float], str]
    estimate: Callable[[SweepRow], _Estimate | None]
    is_ratio: bool = True


def sweep_section(sweep: SweepFacts, index: int = 0) -> PageSection:
    """Everything the page says about one sweep; `index` makes its ids unique on the page."""
    id_ = f"sweep{index + 1}"
    failed = sum(bool(row.failure) for row in sweep.rows)
    done = sum(bool(row.num_runs) for row in sweep.rows)
    what = "time to train" if sweep.is_of_runs else sweep.kind
    axes = " × ".join(f"{printable(key)} ({len(values)})" for key, values in sweep.axes)
    lead = (
        f"{plural(len(sweep.rows), 'configuration')} over {axes}, their runs interleaved in time with shared seeds; "
        f"{done} measured{f', {failed} failed' if failed else ''}."
    )
    heading = f"Sweep: {what} over {', '.join(printable(key) for key, _ in sweep.axes)}"
    blocks: tuple[Block, ...] = (
        Prose(text=f"{lead} {sweep.closing}".rstrip()),
        _for_page(sweep_table(sweep, f"{id_}-table"), len(sweep.axes)),
        *(Prose(text=note, kind="note") for note in sweep_notes(sweep)),
        *(
            _chart(sweep, quantity, f"{id_}-{quantity.key}")
            for quantity in _quantities(sweep)
            if any(map(quantity.estimate, sweep.rows))
        ),
        *serving_blocks([row.measured for row in sweep.rows if row.measured is not None], id_),
    )
    return PageSection(id=id_, heading=heading, name=heading, blocks=blocks)


def _for_page(table: Table, num_axes: int) -> Table:
    """Make a sweep's table narrower, with sections of keys and intervals on second lines, and sign its factors."""
    is_bounds = [" % interval, " in column.name for column in table.columns]
    kept = [at for at, holds in enumerate(is_bounds) if not holds]
    with_bounds = [at for at in kept if at + 1 < len(is_bounds) and is_bounds[at + 1]]
    columns = list(table.columns)
    for at in range(num_axes):
        section, _, key = columns[at].name.partition(".")
        columns[at] = replace(columns[at], name=key or section, help=section if key else "")
    for at in with_bounds:
        interval = columns[at + 1].name.partition(",")[0]
        columns[at] = replace(columns[at], help=f"{columns[at].help}, {interval}")
    rows = []
    for cells in map(list, table.rows):
        for at in with_bounds:
            bounds = cells[at + 1].text
            cells[at] = replace(cells[at], sub="" if bounds == MISSING else bounds)
        cells[-1] = replace(cells[-1], text=with_sign(cells[-1].text), note=with_sign(cells[-1].note))
        rows.append(tuple(cells[at] for at in kept))
    return replace(table, columns=tuple(columns[at] for at in kept), rows=tuple(rows))


def sweep_table(sweep: SweepFacts, id_: str) -> Table:
    """One row per configuration; the same on the page and in the terminal."""
    axes = [(numeric(printable(key)), lambda row, at=at: row.values[at]) for at, (key, _) in enumerate(sweep.axes)]
    columns = [*axes, *_columns(sweep)]
    caption = f"{printable(sweep.name)}: {plural(len(sweep.rows), 'configuration')}"
    table = table_of(sweep.rows, columns, id_=id_, caption=caption, is_sortable=len(sweep.rows) > 1, style="sweep")
    # A column without a single value only takes width; the notes say why there is none.
    kept = [at for at in range(len(columns)) if at < len(axes) or any(row[at].text != MISSING for row in table.rows)]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[at] for at in kept), rows=rows)


def _columns(sweep: SweepFacts) -> Iterator[tuple[str | Column, Callable[[SweepRow], object]]]:
    """What a kind of sweep shows of a configuration."""
    unit = _unit(sweep)
    if sweep.is_of_runs:
        yield (
            numeric(f"Score, {unit.name}", "Olympic mean"),
            lambda row: Cell(text=unit.number(row.score_s), kind="strong"),
        )
        yield from _mean_columns(
            numeric(f"Time to train, {unit.name}", "geometric mean of converged runs"),
            f"{AT_LEAST_NAME}, {unit.name}", lambda row: row.time_to_train, unit.number,
        )  # fmt: skip
        yield (
            numeric("Samples to converge", "geometric mean"),
            lambda row: count(row.samples_to_converge.geometric_mean if row.samples_to_converge else None),
        )
    if (measure := measure_of(sweep)) is not None:
        yield from ((column, lambda row, show=show: show(row.measured)) for column, show in measured_columns(measure))
    else:
        yield from _mean_columns(
            numeric("Samples/s", "geometric mean"), "95 % interval, samples/s", lambda row: row.throughput, throughput
        )
        yield (
            numeric("Peak memory", "of a process"),
            lambda row: sorted_cell(num_bytes(row.peak_bytes), row.peak_bytes),
        )
        yield numeric("J/sample", "measured"), lambda row: _small(row.energy_per_sample_j)
    if sweep.counts_samples:
        yield numeric("GFLOP/s", "computed FLOP × measured samples/s"), _gflop_per_s
        yield numeric("FLOP/byte", "computed; of embedding rows"), _flop_per_byte
    if any(row.profile for row in sweep.rows):
        yield Column(name="Bound by", help="share of the profiled step"), bound_words
    yield numeric("Runs"), lambda row: f"{row.num_converged} / {row.num_planned or MISSING}"
    yield "Against the first", lambda row: Cell(text=brief_verdict(row), note=against_first(row))


def _mean_columns(
    mean: Column, interval: str, summary: Callable[[SweepRow], LogSummary | None], show: Callable[[float], str]
) -> Iterator[tuple[Column, Callable[[SweepRow], str]]]:
    """Show a geometric mean, and its `interval`, with its unit."""
    yield mean, lambda row: show(found.geometric_mean) if (found := summary(row)) else MISSING
    yield (
        numeric(interval, "of that mean"),
        lambda row: bounds_text(found.interval if (found := summary(row)) else None, show),
    )


def _gflop_per_s(row: SweepRow) -> str:
    (flop, _), speed = row.per_sample, row.throughput
    return _small(flop * speed.geometric_mean * 1e-9 if flop and speed else None)


def _flop_per_byte(row: SweepRow) -> str:
    flop, rows_bytes = row.per_sample
    return _small(flop / rows_bytes if flop and rows_bytes else None)


def bound_words(row: SweepRow) -> str:
    """'gather 61 %, compute 30 %': what bounds the phases of a step, those of a tenth of its time and more."""
    if row.profile is None:
        return MISSING
    shares = sorted(bound_shares(row.profile), key=lambda entry: -entry[1])
    return ", ".join(f"{name} {percent(share, 0)}" for name, share in shares if share >= 0.1) or MISSING


def against_first(row: SweepRow) -> str:
    """The verdict in a sentence; a failed configuration says why it failed."""
    if row.failure:
        return f"failed: {row.failure}"
    if row.num_runs == 0:
        return "not measured"
    return sentence(row.comparison) if row.comparison is not None else "the first"


def brief_verdict(row: SweepRow) -> str:
    """As `against_first`, in a few words for a column."""
    whole = row.comparison.whole if row.comparison else None
    if row.failure:
        return "failed"
    if row.comparison is None or row.num_runs == 0:
        return against_first(row)
    if whole is not None and whole.name not in FACTORS:
        return f"{row.comparison.verdict}: {change_text(whole) or MISSING}"
    if whole is None or whole.time_ratio is None:
        return f"{row.num_converged} of {plural(row.num_runs, 'run')} converged"
    text = speed(whole.time_ratio)
    return text if row.comparison.verdict in text else f"{row.comparison.verdict}: {text}"


def sweep_notes(sweep: SweepFacts) -> tuple[str, ...]:
    """What must be known beside the table."""
    if (measure := measure_of(sweep)) is not None:
        return (*measured_notes(measure, sweep), *sweep.problems)
    means = (
        "The score is the Olympic mean; the other times, samples and samples/s are geometric means of the runs that "
        "converged"
        if sweep.is_of_runs
        else "Samples/s are geometric means of the processes"
    )
    of_grid = f", of times and samples at least as wide as the evaluations' grid asks ({AT_LEAST_NAME}s)"
    notes = [f"{means}; their intervals are Student's t on the logarithms{of_grid if sweep.is_of_runs else ''}."]
    if any(row.comparison for row in sweep.rows):
        notes.append(
            "Verdicts are against the first configuration with results; all of them are one family of tests (Holm)."
        )
    if sweep.counts_samples:
        steps = f"{count(sweep.num_steps)} steps per process" if sweep.num_steps else "a number of steps not recorded"
        notes.append(f"Throughput over {steps} after a warm-up; nothing was trained to a target, nothing is a score.")
        if any(row.data_kind in ("made_up", "synthetic") for row in sweep.rows):
            notes.append(
                "The data was synthetic and in memory: reading input is not in these times. Ids follow a power law."
            )
        text = "" if any(row.profile for row in sweep.rows) else " 'sweep --profile' says what bounds a step."
        notes.append(f"FLOP and bytes are computed from the configuration.{text}")
    notes += [f"{row.label} failed: {row.failure}" for row in sweep.rows if row.failure]
    notes += [f"{row.label} was not profiled: {row.profile_failure}" for row in sweep.rows if row.profile_failure]
    why = explain_missing(energy for row in sweep.rows for energy in row.energies)
    notes += [why] if why else []
    sources = sorted(
        {source_words(energy) for row in sweep.rows for energy in row.energies if energy and energy.parts}
    )
    notes += (
        [f"Energy measured by {printable('; '.join(sources))}; other processes' work is in it."] if sources else []
    )
    return (*notes, *sweep.problems)


def _quantities(sweep: SweepFacts) -> list[_Quantity]:
    if (measure := measure_of(sweep)) is not None:
        words = partial(in_unit, unit=measure.unit)
        estimate = partial(_of_processes, measure=measure)
        return [_Quantity(sweep.kind, measure.title, measure.name, words, estimate, measure.scale == "ratio")]
    speed = _Quantity("throughput", "Throughput", "samples/s", si, lambda row: _of_mean(row.throughput))
    if not sweep.is_of_runs:
        return [speed, _Quantity("memory", "Peak memory", "GiB", "{:.3g}".format, _peak_gib)]
    unit = _unit(sweep)
    return [
        _Quantity(
            "time", "Time to train", unit.name, "{:.4g}".format, lambda row: _of_mean(row.time_to_train, unit.seconds)
        ),
        speed,
        _Quantity("samples", "Samples to converge", "samples", si, lambda row: _of_mean(row.samples_to_converge)),
    ]


def _peak_gib(row: SweepRow) -> _Estimate | None:
    return (row.peak_bytes / 2**30, None) if row.peak_bytes else None


def _of_mean(summary: LogSummary | None, scale: float = 1.0) -> _Estimate | None:
    """A geometric mean, in units of `scale`."""
    if summary is None:
        return None
    bounds = summary.interval
    return summary.geometric_mean / scale, (bounds.low / scale, bounds.high / scale) if bounds else None


def _of_processes(row: SweepRow, measure: Measure) -> _Estimate | None:
    mean = row.measured.mean(measure.value) if row.measured else None
    return None if mean is None else (mean, measured_ends(row.measured))


def _chart(sweep: SweepFacts, quantity: _Quantity, id_: str) -> Chart:
    """One quantity over the axis with the most values, a panel per combination of the others."""
    along = max(range(len(sweep.axes)), key=lambda number: len(sweep.axes[number][1]))
    key, positions = sweep.axes[along]
    others = [axis for number, axis in enumerate(sweep.axes) if number != along]
    panels = []
    for chosen in product(*(values for _, values in others)):
        points = []
        for x, position in zip(places(positions), positions, strict=True):
            values = [*chosen[:along], position, *chosen[along:]]
            points.append(_point(x, sweep.at(values), quantity))
        name = ", ".join(f"{_short(other)} {value}" for (other, _), value in zip(others, chosen, strict=True))
        panels.append((name, points))
    title = f"{quantity.title} over {_short(key)}"
    lead = _lead(sweep, quantity)
    figure = sweep_figure(
        panels, (printable(key), positions), (f"{quantity.title}, {quantity.unit}", quantity.words),
        is_ratio=quantity.is_ratio, id_=id_, title=title, description=f"{title}. {lead}",
    )  # fmt: skip
    return Chart(
        figure=figure,
        heading=title,
        lead=lead,
        table_note="The table of this sweep has the numbers.",
    )


def _point(x: float, row: SweepRow | None, quantity: _Quantity) -> Dot:
    if row is None:
        return Dot(x=x, y=None, hint="not in this sweep")
    value, ends = quantity.estimate(row) or (0.0, None)
    if value <= 0:
        return Dot(x=x, y=None, hint=f"{row.label}: {row.failure or 'no value'}")
    return Dot(x=x, y=value, ends=ends, hint=f"{row.label}: {quantity.words(value)} {quantity.unit}")


def _lead(sweep: SweepFacts, quantity: _Quantity) -> str:
    known = [(found[0], row) for row in sweep.rows if (found := quantity.estimate(row)) and found[0]]
    if not known:
        return "No configuration has a value."
    (low, least), (high, most) = min(known, key=lambda entry: entry[0]), max(known, key=lambda entry: entry[0])
    if len(known) == 1:
        return f"One value: {quantity.words(low)} {quantity.unit}."
    if quantity.words(low) == quantity.words(high):
        return f"{quantity.words(low)} {quantity.unit} in each of {plural(len(known), 'configuration')}."
    if not quantity.is_ratio:
        apart = f"{quantity.words(high - low)} apart"
    else:
        apart = f"a factor of {high / low:.3g}" if high / low >= 1.1 else f"{percent(high / low - 1)} more"
    return (
        f"From {quantity.words(low)} {quantity.unit} ({least.label}) to {quantity.words(high)} {quantity.unit} "
        f"({most.label}): {apart}."
    )


def _short(key: str) -> str:
    return printable(key.partition(".")[2] or key)


def _unit(sweep: SweepFacts) -> TimeUnit:
    return time_unit(row.time_to_train.geometric_mean if row.time_to_train else None for row in sweep.rows)


def _small(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def rows_as_records(sweep: SweepFacts) -> Sequence[dict[str, object]]:
    """Rows as plain values in SI units, for json and csv; None is not known."""
    return [_record(sweep, row) for row in sweep.rows]


def _record(sweep: SweepFacts, row: SweepRow) -> dict[str, object]:
    bounds, (flop, rows_bytes) = row.facts.interval if row.facts else None, row.per_sample
    return {
        **{key: value for (key, _), value in zip(sweep.axes, row.values, strict=True)},
        "num_runs": row.num_runs,
        "num_converged": row.num_converged if sweep.is_of_runs else None,
        "score_s": row.score_s,
        "score_low_s": bounds.low if bounds else None,
        "score_high_s": bounds.high if bounds else None,
        **_mean_record("time_to_train", "_s", row.time_to_train),
        **_mean_record("samples_to_converge", "", row.samples_to_converge),
        **_mean_record("throughput", "_samples_per_s", row.throughput),
        "throughput_cv": row.throughput.coefficient_of_variation if row.throughput else None,
        "peak_bytes": row.peak_bytes,
        "energy_per_sample_j": row.energy_per_sample_j,
        "training_flop_per_sample": flop,
        "embedding_bytes_per_sample": rows_bytes,
        **measured_record(measure_of(sweep), row.measured),
        "data_kind": row.data_kind,
        "bound_by": bound_words(row) if row.profile else None,
        "verdict": row.comparison.verdict if row.comparison else None,
        "failure": row.failure,
    }


def _mean_record(name: str, unit: str, summary: LogSummary | None) -> dict[str, float | None]:
    bounds = summary.interval if summary else None
    return {
        f"{name}{unit}": summary.geometric_mean if summary else None,
        f"{name}_low{unit}": bounds.low if bounds else None,
        f"{name}_high{unit}": bounds.high if bounds else None,
    }
