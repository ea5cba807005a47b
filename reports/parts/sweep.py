"""Makes the table of a sweep over all its configurations, with notes, and its rows as plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from reports.comparison.factor import FACTORS
from reports.comparison.sweep import SweepFacts, SweepRow
from reports.comparison.wording import change_text, rejected_words, sentence, speed, with_sign
from reports.document.blocks import Cell, Shown, Table, TableColumn, numeric, table_of
from reports.facts.energy import explain_missing, source_words
from reports.facts.profile import bound_shares
from reports.parts.cells import by_value, ends_of, mean_columns
from reports.parts.measured import measure_of, measured_columns, measured_notes, measured_record
from reports.statistics.intervals import AT_LEAST_NAME, LogSummary
from reports.text.formatting import (
    MISSING,
    TimeUnit,
    count,
    num_bytes,
    percent,
    plural,
    printable,
    throughput,
    time_unit,
)


def sweep_table(sweep: SweepFacts, id_: str, *, is_narrow: bool = False) -> Table:
    """Return the table of a sweep, one row per configuration. The terminal shows the table in a wide form, the page
    in a narrow form.

    In the narrow form, the section of a setting ('train' of 'train.global_batch_size') stands below the setting's
    name, and an interval stands below its mean.
    """
    axes = [
        (_axis_column(key, is_narrow=is_narrow), lambda row, at=at: _axis_cell(row, at))
        for at, (key, _) in enumerate(sweep.axes)
    ]
    columns = [*axes, *_columns(sweep, is_narrow=is_narrow)]
    caption = f"{printable(sweep.name)}: {plural(len(sweep.rows), 'configuration')}"
    table = table_of(sweep.rows, columns, id_=id_, caption=caption, is_sortable=len(sweep.rows) > 1, style="sweep")
    # A column without any value is left out to save width; the notes below the table say why it has none.
    kept = [at for at in range(len(columns)) if at < len(axes) or any(row[at].text != MISSING for row in table.rows)]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[at] for at in kept), rows=rows)


def _axis_column(key: str, *, is_narrow: bool) -> TableColumn:
    section, _, name = printable(key).partition(".")
    column = numeric(name, section) if is_narrow and name else numeric(printable(key))
    return replace(column, names_row=True)


def _axis_cell(row: SweepRow, at: int) -> Cell:
    """Return the cell with a configuration's value of the varied setting with index `at`; the cell of the first
    setting has the note INVALID below it if the rules reject the configuration's runs."""
    return Cell(text=row.values[at], sub="INVALID" if at == 0 and row.is_refused else "")


def _columns(sweep: SweepFacts, *, is_narrow: bool) -> Iterator[Shown[SweepRow]]:
    """Yield the columns of a sweep's table that follow the columns of the varied settings. If runs train to a target
    quality, score and time come first. Then come the measured quantities, then numbers of runs and verdicts."""
    unit = times_unit(sweep)
    if sweep.is_of_runs:
        score = numeric(f"Score, {unit.name}", "Olympic mean")
        yield score, lambda row: Cell(text=unit.number(row.score_s), kind="strong")
        time = numeric(f"Time to train, {unit.name}", "geometric mean of converged runs")
        found = [row.time_to_train for row in sweep.rows]
        yield from mean_columns(
            time, "time_to_train", unit.number, found, interval=(AT_LEAST_NAME, unit.name), is_narrow=is_narrow
        )
        yield numeric("Samples to converge", "geometric mean"), "samples_to_converge.geometric_mean", count
    if (measure := measure_of(sweep)) is not None:
        columns = measured_columns(measure, is_narrow=is_narrow)
        yield from ((column, lambda row, show=show: show(row.result)) for column, show in columns)
    else:
        rate, found = numeric("Samples/s", "geometric mean"), [row.throughput for row in sweep.rows]
        yield from mean_columns(
            rate, "throughput", throughput, found, interval=("95 % interval", "samples/s"), is_narrow=is_narrow
        )
        yield numeric("Peak memory", "of a process"), "peak_bytes", by_value(num_bytes)
        yield numeric("J/sample", "measured"), "energy_per_sample_j", "{:.3g}".format
        yield numeric("GFLOP/s", "computed FLOP × measured samples/s"), _gflop_per_s, "{:.3g}".format
        yield numeric("FLOP/byte", "computed; of embedding rows"), _flop_per_byte, "{:.3g}".format
    if any(row.profile for row in sweep.rows):
        yield TableColumn(name="Bound by", help="share of the profiled step"), bound_words
    yield numeric("Runs"), lambda row: f"{row.num_converged} / {row.num_planned or MISSING}"
    sign = with_sign if is_narrow else str
    yield "Against the baseline", lambda row: Cell(text=sign(brief_verdict(row)), note=sign(against_first(row)))


def _gflop_per_s(row: SweepRow) -> float | None:
    (flop, _), speed = row.per_sample, row.throughput
    return flop * speed.geometric_mean * 1e-9 if flop and speed else None


def _flop_per_byte(row: SweepRow) -> float | None:
    flop, rows_bytes = row.per_sample
    return flop / rows_bytes if flop and rows_bytes else None


def bound_words(row: SweepRow) -> str:
    """Return what bounds a training step, such as memory, for how much of its time; what bounds less than a tenth is
    left out: 'gather 61 %, compute 30 %'."""
    if row.profile is None:
        return MISSING
    shares = sorted(bound_shares(row.profile), key=lambda entry: -entry[1])
    return ", ".join(f"{name} {percent(share, 0)}" for name, share in shares if share >= 0.1) or MISSING


def against_first(row: SweepRow) -> str:
    """Return a configuration's verdict against the sweep's baseline in a sentence. For the baseline itself return
    'baseline'; for a configuration that failed or was not measured, say so."""
    if row.failure:
        return f"failed: {row.failure}"
    if row.num_runs == 0:
        return "not measured"
    return sentence(row.comparison) if row.comparison is not None else "baseline"


def brief_verdict(row: SweepRow) -> str:
    """Return a configuration's verdict against the sweep's baseline in a few words, for a table column. A
    configuration that failed, that was not measured, or that is the baseline has a word for that instead."""
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
    text = text if row.comparison.verdict in text else f"{row.comparison.verdict}: {text}"
    return f"{text}{rejected_words(row.comparison)}"


def sweep_notes(sweep: SweepFacts) -> tuple[str, ...]:
    """Return the notes printed with the table of a sweep: how means and verdicts were computed, what failed, and how
    energy was measured."""
    if (measure := measure_of(sweep)) is not None:
        return (*measured_notes(measure, sweep), *sweep.problems)
    means, of_grid = "Samples/s are geometric means of the processes", ""
    if sweep.is_of_runs:
        others = "Times, samples and samples/s are geometric means of the runs that converged"
        means = f"The score is the Olympic mean of the times to train. {others}"
        of_grid = (
            f" The target is seen to be met only at an evaluation, so the {AT_LEAST_NAME}s of times to train and "
            "samples to converge are also widened: by the spacing of evaluations, divided by the number of runs."
        )
    notes = [f"{means}; the intervals of these means are Student's t on the logarithms.{of_grid}"]
    if any(row.comparison for row in sweep.rows):
        notes.append(
            "Verdicts are against the baseline, which is the first configuration with results; all verdicts are one "
            "family of tests (Holm)."
        )
    if not sweep.is_of_runs:
        steps = f"{count(sweep.num_steps)} steps per process" if sweep.num_steps else "a number of steps not recorded"
        notes.append(f"Throughput over {steps} after a warm-up; no run trained to a target, so there is no score.")
        if any(row.data_kind in ("made_up", "synthetic") for row in sweep.rows):
            notes.append(
                "The data was synthetic and in memory, so times exclude reading input. Ids follow a power law."
            )
        notes.append("FLOP and bytes are computed from the configuration.")
        if not any(row.profile for row in sweep.rows):
            notes[-1] += " 'sweep --profile' measures what bounds a step, such as memory."
    notes += [f"{row.label} failed: {row.failure}" for row in sweep.rows if row.failure]
    notes += [f"{row.label} was not profiled: {row.profile_failure}" for row in sweep.rows if row.profile_failure]
    energies = [energy for row in sweep.rows for energy in row.energies]
    if why := explain_missing(energies):
        notes.append(why)
    sources = sorted({source_words(energy) for energy in energies if energy and energy.parts})
    if sources:
        notes.append(f"Energy is measured by {printable('; '.join(sources))}, and includes other processes' work.")
    return (*notes, *sweep.problems)


def times_unit(sweep: SweepFacts) -> TimeUnit:
    return time_unit(row.time_to_train.geometric_mean if row.time_to_train else None for row in sweep.rows)


def rows_as_records(sweep: SweepFacts) -> Sequence[dict[str, object]]:
    """Return a sweep's configurations as plain values in SI units, for JSON and CSV; None means unknown."""
    return [_record(sweep, row) for row in sweep.rows]


def _record(sweep: SweepFacts, row: SweepRow) -> dict[str, object]:
    low_s, high_s = ends_of(row.result.interval if row.result else None)
    flop, rows_bytes = row.per_sample
    return {
        **{key: value for (key, _), value in zip(sweep.axes, row.values, strict=True)},
        "num_runs": row.num_runs,
        "num_converged": row.num_converged if sweep.is_of_runs else None,
        "score_s": row.score_s,
        "low_s": low_s,
        "high_s": high_s,
        **_mean_record("time_to_train", "_s", row.time_to_train),
        **_mean_record("samples_to_converge", "", row.samples_to_converge),
        **_mean_record("throughput", "_samples_per_s", row.throughput),
        "throughput_cv": row.throughput.coefficient_of_variation if row.throughput else None,
        "peak_bytes": row.peak_bytes,
        "energy_per_sample_j": row.energy_per_sample_j,
        "training_flop_per_sample": flop,
        "embedding_bytes_per_sample": rows_bytes,
        **measured_record(measure_of(sweep), row.result),
        "data_kind": row.data_kind,
        "bound_by": bound_words(row) if row.profile else None,
        "overall_verdict": row.comparison.verdict if row.comparison else None,
        "failure": row.failure,
    }


def _mean_record(name: str, unit: str, summary: LogSummary | None) -> dict[str, float | None]:
    low, high = ends_of(summary.interval if summary else None)
    mean = summary.geometric_mean if summary else None
    return {f"{name}{unit}": mean, f"{name}_low{unit}": low, f"{name}_high{unit}": high}
