"""Every run and attempt that was started, also those that failed: nothing is chosen for the reader."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.document.blocks import Block, Cell, Column, Fold, Prose, Table, in_portions
from reports.document.page import PageSection
from reports.facts.energy import measured_j
from reports.facts.facts import RunFacts, SetFacts
from reports.page.figures.chronology import order_chart
from reports.page.figures.cost import energy_text
from reports.page.figures.times import column_unit, fate_words, sorted_cell
from reports.text.formatting import (
    MISSING,
    SECONDS,
    ByteUnit,
    TimeUnit,
    byte_unit,
    count,
    epoch_ms,
    epochs,
    learning_rate,
    plural,
    printable,
    quality,
    short_digest,
    throughput,
    utc,
)

MAX_ROWS = 60
MAX_ORDER_CHARTS = 12


def runs_section(group: Sequence[SetFacts], id_: str) -> PageSection:
    """One table where it can be read at once, else one per configuration behind its summary."""
    lead = "Every run that was started is listed, also those that failed or were interrupted."
    cleared = {run.result.cache_clear for facts in group for run in facts.runs}
    if len(cleared) == 1 and (said := next(iter(cleared))):
        lead += f" Data cache before each: {printable(said, 120)}."
    blocks: list[Block] = [Prose(text=lead)]
    if len(group) == 1 or sum(len(facts.runs) + len(facts.unfinished) for facts in group) <= MAX_ROWS:
        blocks.append(runs_table(group, f"{id_}-runs-table"))
    else:
        blocks += in_portions(
            [
                Fold(
                    summary=f"{facts.label}: {_counts(facts)}",
                    blocks=(runs_table([facts], f"set{facts.index + 1}-runs"),),
                    id=f"set{facts.index + 1}",
                )
                for facts in group
            ]
        )
    charts = [order_chart(facts, f"set{facts.index + 1}-order") for facts in group[:MAX_ORDER_CHARTS]]
    drawn = [(facts, chart) for facts, chart in zip(group, charts, strict=False) if chart is not None]
    if len(group) == 1:
        blocks += [chart for _, chart in drawn]
    elif drawn:
        blocks.append(
            Fold(
                summary="When the runs were made: order, gaps and overlaps",
                blocks=tuple(
                    block for entry, chart in drawn for block in (Prose(text=entry.label, kind="status"), chart)
                ),
            )
        )
    return PageSection(id=f"{id_}-runs", heading="All runs and attempts", name="Runs", blocks=tuple(blocks))


def _counts(facts: SetFacts) -> str:
    failed = sum(run.fate == "failed" for run in facts.runs)
    texts = [plural(len(facts.runs), "run")]
    texts += [f"{failed} did not converge"] if failed else []
    texts += [f"{plural(len(facts.unfinished), 'attempt')} without a result"] if facts.unfinished else []
    return ", ".join(texts)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    """What a runs table has beside its fixed columns."""

    unit: TimeUnit
    configuration: bool
    setting: bool
    peak: bool
    device: bool
    energy: bool
    cache: bool
    memory: ByteUnit
    day: str


def runs_table(sets: Sequence[SetFacts], id_: str) -> Table:
    """Committed runs, then the attempts that left no result, configuration by configuration."""
    runs = [run for facts in sets for run in facts.runs]
    settings = {(run.result.global_batch_size, run.result.learning_rate) for run in runs}
    shown = _Shown(
        unit=column_unit(sets),
        configuration=len(sets) > 1,
        # One value for all stands in the verdict table.
        setting=len(settings) > 1,
        peak=any(run.record and run.record.peak_rss_bytes for run in runs),
        device=any(run.record and run.record.peak_device_bytes for run in runs),
        energy=any(run.record and run.record.energy and run.record.energy.parts for run in runs),
        cache=len({run.result.cache_clear for run in runs}) > 1,
        memory=byte_unit(
            value for run in runs if run.record for value in (run.record.peak_rss_bytes, run.record.peak_device_bytes)
        ),
        day=_common_day(sets),
    )
    columns = [
        Column(name="Run"),
        *([Column(name="Configuration")] if shown.configuration else []),
        Column(name="Status"),
        Column(name="Time to train", is_number=True, help=shown.unit.name),
        Column(name="Epochs", is_number=True),
        Column(name="Final AUC", is_number=True),
        Column(name="Samples/s", is_number=True),
        Column(name="Evaluation", is_number=True, help=shown.unit.name),
        Column(name="Init", is_number=True, help="s, untimed"),
        Column(name="Seed", is_number=True),
    ]
    if shown.setting:
        columns += [Column(name="Batch size", is_number=True), Column(name="Learning rate", is_number=True)]
    columns += [Column(name="Peak memory", is_number=True, help=shown.memory.name)] if shown.peak else []
    columns += [Column(name="Device memory", is_number=True, help=shown.memory.name)] if shown.device else []
    columns += [Column(name="Energy", is_number=True, help="measured")] if shown.energy else []
    columns.append(Column(name="Started", help="UTC"))
    columns += [Column(name="Cache clear")] if shown.cache else []
    columns.append(Column(name="Log sha256"))
    rows = []
    for facts in sets:
        rows += [
            _run_row(facts, run, shown, id_=f"set{facts.index + 1}" if number == 0 and shown.configuration else "")
            for number, run in enumerate(facts.runs)
        ]
        rows += [_attempt_row(facts, number, shown) for number in range(len(facts.unfinished))]
    return Table(
        id=id_,
        caption="All runs and attempts" + (f", started on {shown.day} (UTC)" if shown.day else ""),
        columns=tuple(columns),
        rows=tuple(rows),
        is_sortable=len(rows) > 1,
        style="runs long-names" if shown.configuration and any(len(facts.label) > 24 for facts in sets) else "runs",
    )


def _run_row(facts: SetFacts, run: RunFacts, shown: _Shown, *, id_: str) -> tuple[Cell, ...]:
    result, record, unit = run.result, run.record, shown.unit
    cells = [
        Cell(text=f"run {run.label}", sort=run.label, id=id_),
        *([Cell(text=facts.label)] if shown.configuration else []),
        _status_cell(facts, run),
        Cell(text=unit.number(run.time_s), sub=_stopped(run, unit)),
        Cell(text=epochs(result.epochs_to_converge)),
        Cell(text=quality(result.final_quality)),
        Cell(text=throughput(result.throughput_samples_per_s)),
        Cell(text=unit.number(result.eval_s)),
        Cell(text=SECONDS.number(result.init_s)),
        Cell(text=MISSING if result.seed is None else printable(result.seed, 40)),
    ]
    if shown.setting:
        cells += [Cell(text=count(result.global_batch_size)), Cell(text=learning_rate(result.learning_rate))]
    cells += [_bytes_cell(record.peak_rss_bytes if record else None, shown)] if shown.peak else []
    cells += [_bytes_cell(record.peak_device_bytes if record else None, shown)] if shown.device else []
    if shown.energy:
        energy_j = measured_j(record.energy) if record else None
        cells.append(sorted_cell(energy_text(energy_j), energy_j))
    cells.append(_moment_cell(result.started_ms, shown))
    if shown.cache:
        cells.append(Cell(text=printable(result.cache_clear, 120) if result.cache_clear else "not logged"))
    cells.append(Cell(text=short_digest(result.log_sha256)))
    return tuple(cells)


def _attempt_row(facts: SetFacts, number: int, shown: _Shown) -> tuple[Cell, ...]:
    attempt = facts.unfinished[number]
    record, status, seed = attempt.record, "no record", MISSING
    if record is not None:
        status = record.status + (f": {record.reason}" if record.reason else "")
        seed = MISSING if record.seed is None else str(record.seed)
    started = record.started_utc if record else None
    moment = epoch_ms(started)
    cells = [
        Cell(
            text=f"run {attempt.run_index}, attempt {attempt.attempt}",
            sort=str(attempt.run_index),
            id=f"set{facts.index + 1}" if number == 0 and shown.configuration and not facts.runs else "",
        ),
        *([Cell(text=facts.label)] if shown.configuration else []),
        Cell(text=f"✕ {status}", kind="bad"),
        *(Cell(text=MISSING) for _ in range(6)),
        Cell(text=seed),
        *(Cell(text=MISSING) for _ in range(2 if shown.setting else 0)),
    ]
    cells += [_bytes_cell(record.peak_rss_bytes if record else None, shown)] if shown.peak else []
    cells += [_bytes_cell(record.peak_device_bytes if record else None, shown)] if shown.device else []
    cells += [Cell(text=MISSING)] if shown.energy else []
    cells.append(Cell(text=started or MISSING) if moment is None else _moment_cell(moment, shown))
    cells += [Cell(text=MISSING)] if shown.cache else []
    cells.append(Cell(text="no result"))
    return tuple(cells)


def _status_cell(facts: SetFacts, run: RunFacts) -> Cell:
    words = fate_words(run, facts)
    if run.fate == "failed":
        reason = run.result.abort_reason or run.result.status
        return Cell(text=f"✕ {words}" + (f" ({printable(reason, 80)})" if reason else ""), kind="bad")
    return Cell(text=f"{'○' if run.is_dropped else '●'} {words}")


def _stopped(run: RunFacts, unit: TimeUnit) -> str:
    """What a run took that has no time to train."""
    took_s = run.result.time_to_train_s
    return f"stopped at {unit.number(took_s)}" if run.time_s is None and took_s is not None else ""


def _common_day(sets: Sequence[SetFacts]) -> str:
    """The day on which everything started, which the caption then says; else empty."""
    moments = [run.result.started_ms for facts in sets for run in facts.runs]
    moments += [
        epoch_ms(attempt.record.started_utc) for facts in sets for attempt in facts.unfinished if attempt.record
    ]
    days = {utc(moment).partition(" ")[0] for moment in moments}
    return days.pop() if len(days) == 1 and MISSING not in days else ""


def _moment_cell(time_ms: float | None, shown: _Shown) -> Cell:
    """The unit stands in the column's heading; the text sorts as it is written, to the second."""
    return Cell(text=utc(time_ms).removesuffix(" UTC").removeprefix(f"{shown.day} "))


def _bytes_cell(value: float | None, shown: _Shown) -> Cell:
    return Cell(text=shown.memory.number(value))
