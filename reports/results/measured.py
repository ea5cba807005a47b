"""Reads results from the files extra/<kind>.json: measurements by fresh processes, of any kind but runs that train to
a target quality."""

from pathlib import Path
from typing import Any

from reports.results.provenance import interleaving_of, name_of, repetition_key
from reports.results.records import read_record, read_run_set
from reports.results.result import Repetition, Result, System
from reports.statistics.intervals import Interval, LogSummary, log_summary, mean_interval
from reports.text.formatting import epoch_ms, printable
from rules.errors import InputError
from rules.records.codec import Damage
from rules.records.kinds import find_record_type
from rules.records.measure import Measurement
from rules.records.run_set import RunSetRecord


def find_measured(folder: Path, kind: str, problems: list[str]) -> Result | None:
    """Read the measurement of a kind (such as throughput) in a folder. None if its file is missing or damaged; damage
    is added to `problems`."""
    path = folder / "extra" / f"{kind}.json"
    record = read_record(path, find_record_type(kind), problems)
    if record is None:
        return None
    asked = read_run_set(folder, problems)
    name = record.measure.value
    lacking = next((at for at, each in enumerate(record.repetitions()) if getattr(each, name) is None), None)
    if lacking is not None:
        expected = f"{record.measure.name} of every process"
        problems.append(
            str(Damage(path=path, member=f"processes[{lacking}].{name}", found="nothing", expected=expected))
        )
        return None
    return make_measured(folder, kind, record, asked)


def read_measured(folder: Path, kind: str) -> Result:
    """Read the measurement of a kind (such as throughput) in a folder. Raises InputError if its file is missing or
    damaged."""
    problems: list[str] = []
    measured = find_measured(folder, kind, problems)
    if measured is None:
        why = problems[0] if problems else f"{printable(folder)}: there is no extra/{kind}.json."
        again = find_record_type(kind).COMMAND or f"run --{kind}"
        raise InputError(f"{why} Measure again with 'dlrmbench {again}'.")
    return measured


def make_measured(folder: Path, kind: str, record: Measurement, asked: RunSetRecord | None) -> Result:
    """Make the result of a measurement, with a repetition for each process that measured."""
    measure, processes = record.measure, record.repetitions()
    compared = kind if measure is record.MEASURE else f"{kind}.{measure.value}"
    seeds = asked.seeds if asked else ()
    benchmark = asked.benchmark.name if asked else None
    told = {
        name: benchmark if name == "benchmark" else getattr(record if hasattr(record, name) else processes[0], name)
        for name in record.ASKED
    }
    return Result(
        label=name_of(folder),
        source="records",
        kind=kind,
        quantities=(compared,),
        place=folder,
        status="own",
        benchmark=benchmark,
        repetitions=tuple(
            _repetition(process, index, seeds[index] if index < len(seeds) else None, record, compared)
            for index, process in enumerate(processes)
        ),
        system=System(name=asked.system.name, fields=tuple(asked.system.fields.items())) if asked else System(),
        stated=tuple((name, printable(value)) for name, value in told.items() if value is not None),
        asked=asked,
        turns=interleaving_of(folder),
        repetition=repetition_key(asked),
        measured=record,
    )


def _repetition(process: Any, index: int, seed: int | None, record: Measurement, compared: str) -> Repetition:
    """Return a `Repetition` for one process of a measurement, with its seed if the run set's record has it."""
    return Repetition(
        label=str(index),
        seed=seed,
        values={compared: float(getattr(process, record.measure.value))},
        steps={compared: _step(process)},
        started_ms=epoch_ms(getattr(process, "started_utc", None)),
        stopped_ms=epoch_ms(getattr(process, "ended_utc", None)),
        record=process,
    )


def value_step(result: Result) -> float:
    """Return the mean resolution of the values that a measurement's processes measured, as a fraction of the values.
    The resolution of a value can be, for example, that of the clock."""
    assert result.measured is not None
    steps = [_step(process.record) for process in result.repetitions]
    return sum(steps) / len(steps) if steps else 0.0


def compared_values(result: Result) -> tuple[float, ...]:
    """Return the values of the quantity that a measurement compares, one per process that has a value."""
    name = result.quantities[0]
    return tuple(sample.values[name] for sample in result.samples if name in sample.values)


def rate_summary(result: Result) -> LogSummary | None:
    """Summarize the rates in samples/s of a measurement of throughput; None for another kind of result."""
    if result.measured is None or result.quantities != ("throughput",):
        return None
    return log_summary(compared_values(result), step=value_step(result))


def centre_of(result: Result) -> tuple[float | None, Interval | None]:
    """Return the mean of a measurement's compared values over processes, and its interval, both by logarithms where
    ratios are compared."""
    if result.measure.scale == "difference":
        return result.mean(result.measure.value), mean_interval(result.measured_values)
    if result.num_runs == 1:  # the value as measured, without rounding by a logarithm
        return compared_values(result)[0], None
    summary = log_summary(compared_values(result), step=value_step(result))
    return (summary.geometric_mean, summary.interval) if summary else (None, None)


def title_of(result: Result) -> str:
    """Return a measurement's title, its benchmark and system: 'dlrm_tiny on 1x-example'."""
    if result.asked is None:
        return result.label
    return printable(f"{result.benchmark} on {result.system.name}", 160)


def _step(process: Any) -> float:
    """Return the resolution of the value that one process measured, as a fraction of the value; 0 where the process's
    record has none. The resolution can be, for example, that of the clock."""
    return float(getattr(process, "resolution", 0.0))
