"""Measurements of throughput alone, as `run --throughput` leaves them: extra/throughput.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.facts.records import config_texts, read_record, read_run_set, software_of
from reports.facts.sides import HARDWARE, Sample, Side
from reports.text.formatting import printable
from rules.errors import InputError
from rules.records.run import TrafficRecord
from rules.records.run_set import RunSetRecord
from rules.records.throughput import ProcessRecord, ThroughputRecord

_FILE = Path("extra") / "throughput.json"
_CLOCK_STEP_S = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputSet:
    """One measurement, and the record of its set where that can be read."""

    folder: Path
    record: ThroughputRecord
    run_set: RunSetRecord | None

    @property
    def benchmark(self) -> str | None:
        return self.run_set.benchmark.name if self.run_set else None

    @property
    def system(self) -> str | None:
        return self.run_set.system.name if self.run_set else None

    @property
    def rates(self) -> tuple[float, ...]:
        """Samples per second, one per fresh process."""
        return tuple(process.num_samples / process.duration_s for process in self.record.processes)

    @property
    def traffic(self) -> tuple[TrafficRecord, ...]:
        """Of the processes that had several ranks."""
        return tuple(process.traffic for process in self.record.processes if process.traffic is not None)


def read_throughput(folder: Path) -> ThroughputSet:
    """What extra/throughput.json says. Raises InputError where it holds no measurement."""
    problems: list[str] = []
    record = read_record(folder / _FILE, ThroughputRecord, problems)
    if record is None:
        why = problems[0] if problems else f"{printable(folder / _FILE)}: no such file."
        raise InputError(f"{why} Measure again with 'dlrmbench run --throughput STEPS'.")
    return ThroughputSet(folder=folder, record=record, run_set=read_run_set(folder, problems))


def throughput_side(folder: Path) -> Side:
    """The side that a measurement makes: its processes are its runs."""
    measured = read_throughput(folder)
    run_set = measured.run_set
    samples = process_samples(measured.record.processes, run_set)
    fields = run_set.system.fields if run_set else {}
    named = (("benchmark", measured.benchmark), ("data_kind", measured.record.data_kind))
    return Side(
        label=printable(folder.resolve().name, 80),
        kind="throughput",
        status="own",
        benchmark=measured.benchmark,
        samples=samples,
        runs=(),
        num_runs=len(samples),
        system=measured.system,
        hardware=tuple((key, text) for key in HARDWARE if (text := fields.get(key))),
        settings=(
            *((name, value) for name, value in named if value is not None),
            *((key, value) for key, (value, _) in config_texts(run_set).items()),
            *software_of(run_set),
        ),
    )


def process_samples(processes: Sequence[ProcessRecord], run_set: RunSetRecord | None) -> tuple[Sample, ...]:
    """One sample per process, with its seed where the set's record says it."""
    seeds = run_set.seeds if run_set else ()
    return tuple(
        Sample(
            seed=seeds[index] if index < len(seeds) else None,
            time_to_train_s=None,
            train_s=process.duration_s,
            num_samples=float(process.num_samples),
            time_step=0.0,
            samples_step=0.0,
            clock_step=min(_CLOCK_STEP_S / process.duration_s, 1.0),
        )
        for index, process in enumerate(processes)
    )
