"""Makes the section on every run and attempt that was started, including failed ones, so that no run can be left out
unseen."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from reports.charts.order import RunSpan, order_figure
from reports.document.blocks import (
    Block,
    Cell,
    Chart,
    Fold,
    Prose,
    Table,
    TableColumn,
    in_portions,
    numeric,
    table_of,
)
from reports.document.page import PageSection
from reports.facts.energy import energy_text, measured_j
from reports.page.figures.detail import detail_words, detailed
from reports.page.figures.times import column_unit, fate_words
from reports.page.sections.verdict import runs_words
from reports.parts.cells import sorted_cell
from reports.results.records import Attempt
from reports.results.resolution import smoothed_samples
from reports.results.result import Result, Run
from reports.text.formatting import (
    MISSING,
    SECONDS,
    TimeUnit,
    byte_unit,
    count,
    duration,
    epoch_ms,
    epochs,
    learning_rate,
    plural,
    printable,
    quality,
    short_digest,
    throughput,
    time_unit,
    utc,
)
from rules.records.run import EnergyRecord, RunRecord

MAX_ROWS = 60
MAX_ORDER_CHARTS = 12
MAX_SPANS = 60


def runs_section(group: Sequence[Result], id_: str) -> PageSection:
    """Return the section on all runs. They share one table if it has at most MAX_ROWS rows or there is only one
    configuration; else each configuration has a folded table."""
    shown = detailed(group)
    lead = "All started runs are listed, also failed and interrupted ones."
    if words := detail_words(group):
        lead = f"{words} Every run of these configurations is listed, also those that failed or were interrupted."
    cleared = {run.log.cache_clear for result in group for run in result.runs}
    if len(cleared) == 1 and (said := next(iter(cleared))):
        lead += f" Page cache before each run, as logged: '{printable(said, 120)}'."
    blocks: list[Block] = [Prose(text=lead)]
    if len(group) == 1 or sum(len(result.runs) + len(result.unfinished) for result in shown) <= MAX_ROWS:
        blocks.append(runs_table(shown, f"{id_}-runs-table"))
    else:
        blocks += in_portions(
            [
                Fold(
                    summary=f"{result.label}: {runs_words(result, 'run')}",
                    blocks=(runs_table([result], f"set{result.index + 1}-runs"),),
                    id=f"set{result.index + 1}",
                )
                for result in shown
            ]
        )
    charts = [order_chart(result, f"set{result.index + 1}-order") for result in group[:MAX_ORDER_CHARTS]]
    drawn = [(result, chart) for result, chart in zip(group, charts, strict=False) if chart is not None]
    if len(group) == 1:
        blocks += [chart for _, chart in drawn]
    elif drawn:
        named = tuple(block for entry, chart in drawn for block in (Prose(text=entry.label, kind="status"), chart))
        blocks.append(Fold(summary="When the runs were made: order, gaps and overlaps", blocks=named))
    return PageSection(id=f"{id_}-runs", heading="All runs and attempts", name="Runs", blocks=tuple(blocks))


def order_chart(result: Result, id_: str) -> Chart | None:
    """Return the chart of when a set's runs and attempts were made, as bars over clock time; None where fewer than
    two start times are known."""
    spans = sorted(_spans(result), key=lambda span: span.start_s)[:MAX_SPANS]
    if len(spans) < 2:
        return None
    extent_s = max(span.stop_s or span.start_s for span in spans) - spans[0].start_s
    lead, title = _order_lead(spans, extent_s), "Order of the runs"
    description = f"One bar per run or attempt on the clock. {lead}"
    return Chart(
        figure=order_figure(spans, time_unit([extent_s]), id_=id_, title=title, description=description),
        heading=title,
        lead=lead,
        table_note="The table of all runs lists the start and status of each run.",
    )


def _spans(result: Result) -> Iterator[RunSpan]:
    for run in result.runs:
        if run.log.started_ms is not None:
            start_s, took_s = run.log.started_ms / 1e3, run.log.time_to_train_s
            stop_s = None if took_s is None else start_s + took_s
            kind: Literal["failed", "done"] = "failed" if run.fate == "failed" else "done"
            yield RunSpan(label=f"run {run.label}", start_s=start_s, stop_s=stop_s, kind=kind)
    for attempt in result.unfinished:
        record = attempt.record
        start_ms, stop_ms = (epoch_ms(record.started_utc), epoch_ms(record.ended_utc)) if record else (None, None)
        if start_ms is not None:
            stop_s = None if stop_ms is None else max(stop_ms, start_ms) / 1e3
            label = f"run {attempt.run_index}, try {attempt.attempt}"
            yield RunSpan(label=label, start_s=start_ms / 1e3, stop_s=stop_s, kind="unfinished")


def _order_lead(spans: Sequence[RunSpan], extent_s: float) -> str:
    gaps = [after.start_s - before.stop_s for before, after in pairwise(spans) if before.stop_s is not None]
    overlapping = sum(gap < 0 for gap in gaps)
    attempts = sum(span.kind == "unfinished" for span in spans)
    made = plural(len(spans) - attempts, "run") + (
        f" and {plural(attempts, 'unfinished attempt')}" if attempts else ""
    )
    text = f"{made} were made within {duration(extent_s)}. "
    if overlapping:
        return text + f"{plural(overlapping, 'run')} began before the previous run had ended."
    return text + (f"No two runs overlap; the longest gap between runs is {duration(max(gaps))}." if gaps else "")


class _RunRow(NamedTuple):
    """Row of the table of runs: a run that left a log, or an attempt that left no result."""

    result: Result
    entry: Run | Attempt
    is_first: bool

    @property
    def run(self) -> Run | None:
        return self.entry if isinstance(self.entry, Run) else None

    @property
    def record(self) -> RunRecord | None:
        return self.entry.record

    @property
    def seed(self) -> int | None:
        return self.run.log.seed if self.run else self.record.seed if self.record else None

    @property
    def started_ms(self) -> float | None:
        return self.run.log.started_ms if self.run else epoch_ms(self.record.started_utc) if self.record else None


def runs_table(sets: Sequence[Result], id_: str) -> Table:
    """Return the table of all runs: per configuration first the runs that left a log, then the attempts that left no
    result."""
    lines = [line for result in sets for line in _lines(result)]
    runs = [line.run for line in lines if line.run]
    records = [run.record for run in runs if run.record]
    unit, day, many = column_unit(sets), _common_day(lines), len(sets) > 1
    memory = byte_unit(value for record in records for value in (record.peak_rss_bytes, record.peak_device_bytes))
    number = memory.number
    # A value that all runs share is in the verdict table.
    has_settings = len({(run.log.global_batch_size, run.log.learning_rate) for run in runs}) > 1
    has_peak = any(record.peak_rss_bytes for record in records)
    has_device = any(record.peak_device_bytes for record in records)
    has_energy = any(record.energy and record.energy.parts for record in records)
    has_caches = len({run.log.cache_clear for run in runs}) > 1
    has_smoothed = any(smoothed_samples(run.log) is not None for run in runs)
    return table_of(
        lines,
        (
            ("Run", lambda line: _name_cell(line, is_anchor=many and line.is_first)),
            ("Configuration" if many else None, "result.label"),
            ("Status", _status_cell),
            (numeric("Time to train", unit.name), "run", lambda run: _time_cell(run, unit)),
            (numeric("Epochs"), "run.log.epochs_to_converge", epochs),
            (
                numeric("Samples", "interpolated") if has_smoothed else None,
                "run.log",
                lambda log: count(smoothed_samples(log)),
            ),
            (numeric(f"Final {sets[0].metric.label}"), "run.log.final_quality", quality),
            (numeric("Samples/s"), "run.log.throughput_samples_per_s", throughput),
            (numeric("Evaluation", unit.name), "run.log.eval_s", unit.number),
            (numeric("Init", "s, untimed"), "run.log.init_s", SECONDS.number),
            (numeric("Seed"), "seed", lambda seed: printable(seed, 40)),
            (numeric("Batch size") if has_settings else None, "run.log.global_batch_size", count),
            (numeric("Learning rate") if has_settings else None, "run.log.learning_rate", learning_rate),
            (numeric("Peak memory", memory.name) if has_peak else None, "record.peak_rss_bytes", number),
            (numeric("Device memory", memory.name) if has_device else None, "record.peak_device_bytes", number),
            (numeric("Energy", "measured") if has_energy else None, "run.record.energy", _energy_cell),
            (TableColumn(name="Started", help="UTC"), lambda line: _started(line).removeprefix(f"{day} ")),
            (
                "Cache clear" if has_caches else None,
                "run.log",
                lambda log: printable(log.cache_clear or "not logged", 120),
            ),
            ("Log sha256", lambda line: short_digest(line.run.log.log_sha256) if line.run else "no result"),
        ),
        id_=id_,
        caption="All runs and attempts" + (f", started on {day} (UTC)" if day else ""),
        is_sortable=len(lines) > 1,
        style="runs long-names" if many and any(len(result.label) > 24 for result in sets) else "runs",
    )


def _lines(result: Result) -> Iterator[_RunRow]:
    entries: tuple[Run | Attempt, ...] = (*result.runs, *result.unfinished)
    for index, entry in enumerate(entries):
        yield _RunRow(result, entry, is_first=index == 0)


def _name_cell(line: _RunRow, *, is_anchor: bool) -> Cell:
    entry, id_ = line.entry, f"set{line.result.index + 1}" if is_anchor else ""
    if isinstance(entry, Run):
        return Cell(text=f"run {entry.label}", sort=entry.label, id=id_)
    return Cell(text=f"run {entry.run_index}, attempt {entry.attempt}", sort=str(entry.run_index), id=id_)


def _energy_cell(energy: EnergyRecord) -> Cell:
    return sorted_cell(energy_text(energy_j := measured_j(energy)), energy_j)


def _started(line: _RunRow) -> str:
    """Return the start time of a run to the second, as text that sorts by time; the column's heading names the time
    zone."""
    if line.started_ms is None and line.run is None and line.record:
        return line.record.started_utc or MISSING
    return utc(line.started_ms).removesuffix(" UTC")


def _status_cell(line: _RunRow) -> Cell:
    run, record = line.run, line.record
    if run is None:
        status = "no record" if record is None else record.status + (f": {record.reason}" if record.reason else "")
        return Cell(text=f"✕ {status}", kind="bad")
    words = fate_words(run, line.result)
    if run.fate == "failed":
        reason = run.log.abort_reason or run.log.status
        return Cell(text=f"✕ {words}" + (f" ({printable(reason, 80)})" if reason else ""), kind="bad")
    repeated = f"the same run as in {run.repeats}" if run.repeats else ""
    return Cell(text=f"{'○' if run.is_dropped else '●'} {words}", sub=repeated)


def _time_cell(run: Run, unit: TimeUnit) -> Cell:
    """Return the cell of a run's time to train; for a run that did not converge an empty time, and below it the time
    at which the run stopped."""
    took_s = run.log.time_to_train_s
    stopped = run.time_s is None and took_s is not None
    return Cell(text=unit.number(run.time_s), sub=f"stopped at {unit.number(took_s)}" if stopped else "")


def _common_day(lines: Sequence[_RunRow]) -> str:
    """Return the day on which all runs in the table started, for the table's caption; '' where they started on
    several days, or a start is unknown."""
    days = {utc(line.started_ms).partition(" ")[0] for line in lines if line.run or line.record}
    return days.pop() if len(days) == 1 and MISSING not in days else ""
