"""Measurements in several fresh processes, of any kind: extra/<kind>.json, read by the kind's record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.facts.origin import repetition_key, turns_of
from reports.facts.records import code_setting, read_record, read_run_set, settings_of
from reports.facts.sides import HARDWARE, Sample, Side
from reports.statistics.intervals import LogSummary, log_summary
from reports.text.formatting import epoch_ms, printable
from rules.errors import InputError
from rules.records.codec import Damage
from rules.records.kinds import KINDS
from rules.records.measure import Measure, Measurement
from rules.records.measured.throughput import ModelCosts
from rules.records.run import TrafficRecord
from rules.records.run_set import RunSetRecord
from rules.tree.result_set import real_path

_CLOCK_STEP_S = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredSet:
    """One measurement: `record` is what its processes found, `run_set` its set's, where it can be read."""

    folder: Path
    kind: str
    record: Measurement
    run_set: RunSetRecord | None

    @property
    def path(self) -> Path:
        """The measurement's file."""
        return self.folder / "extra" / f"{self.kind}.json"

    @property
    def measure(self) -> Measure:
        return self.record.measure

    @property
    def compared(self) -> str:
        """The name of what is compared: the kind, or where its files may measure several things 'kind.member'."""
        return self.kind if self.measure is self.record.MEASURE else f"{self.kind}.{self.measure.value}"

    @property
    def processes(self) -> tuple[Any, ...]:
        """The entries of its fresh processes, as the kind records them."""
        return self.record.repetitions()

    @property
    def values(self) -> tuple[float, ...]:
        """What is compared, one per process."""
        return tuple(float(getattr(process, self.measure.value)) for process in self.processes)

    @property
    def rates(self) -> tuple[float, ...]:
        """Samples per second, one per process of a measurement of throughput."""
        return tuple(process.num_samples / process.duration_s for process in self.processes)

    @property
    def throughput(self) -> LogSummary | None:
        """Of its rates; None where it does not count samples."""
        return log_summary(self.rates, step=self.clock_step) if self.measure.counts_samples else None

    @property
    def clock_step(self) -> float:
        """The grid of its rates: the clock's microsecond over what a process took, the mean over the processes."""
        steps = [_clock_step(process) for process in self.processes]
        return sum(steps) / len(steps) if steps else 0.0

    def mean(self, member: str) -> float | None:
        """Over the processes; None where one does not say it."""
        found = [getattr(process, member) for process in self.processes]
        return None if not found or any(value is None for value in found) else float(sum(found) / len(found))

    @property
    def data_kind(self) -> str | None:
        return getattr(self.record, "data_kind", None)

    @property
    def computed(self) -> ModelCosts | None:
        """What follows from the configuration alone."""
        return getattr(self.record, "computed", None)

    @property
    def traffic(self) -> tuple[TrafficRecord, ...]:
        """Of the processes that had several ranks and recorded it."""
        found = (getattr(process, "traffic", None) for process in self.processes)
        return tuple(traffic for traffic in found if traffic is not None)

    @property
    def benchmark(self) -> str | None:
        return self.run_set.benchmark.name if self.run_set else None

    @property
    def system(self) -> str | None:
        return self.run_set.system.name if self.run_set else None

    @property
    def label(self) -> str:
        """The name of its folder."""
        return printable(real_path(self.folder).name, 80)

    @property
    def title(self) -> str:
        """'dlrm_tiny on 1x-example'."""
        return self.label if self.run_set is None else printable(f"{self.benchmark} on {self.system}", 160)


def find_measured(folder: Path, kind: str, problems: list[str]) -> MeasuredSet | None:
    """What extra/<kind>.json says; None where there is none, or it is damaged, which is a problem."""
    record = read_record(folder / "extra" / f"{kind}.json", KINDS[kind], problems)
    if record is None:
        return None
    measured = MeasuredSet(folder=folder, kind=kind, record=record, run_set=read_run_set(folder, problems))
    name = measured.measure.value
    lacking = next((at for at, process in enumerate(measured.processes) if getattr(process, name) is None), None)
    if lacking is not None:
        expected = f"{measured.measure.name} of every process"
        problems.append(
            str(Damage(path=measured.path, member=f"processes[{lacking}].{name}", found="nothing", expected=expected))
        )
        return None
    return measured


def read_measured(folder: Path, kind: str) -> MeasuredSet:
    """As `find_measured`. Raises InputError where the file is missing or damaged."""
    problems: list[str] = []
    measured = find_measured(folder, kind, problems)
    if measured is None:
        why = problems[0] if problems else f"{printable(folder)}: there is no extra/{kind}.json."
        again = KINDS[kind].COMMAND or f"run --{kind}"
        raise InputError(f"{why} Measure again with 'dlrmbench {again}'.")
    return measured


def measured_side(measured: MeasuredSet) -> Side:
    """The side that a measurement makes: its processes are its runs."""
    run_set = measured.run_set
    fields = run_set.system.fields if run_set else {}
    named = {name: getattr(measured.record, name) for name in measured.record.ASKED}
    if measured.measure.counts_samples:
        named = {"benchmark": measured.benchmark} | named
    else:
        named["num_samples"] = getattr(measured.processes[0], "num_samples", None)
    return Side(
        label=measured.label,
        kind=measured.compared,
        status="own",
        benchmark=measured.benchmark,
        samples=tuple(_sample(measured, index) for index in range(len(measured.processes))),
        runs=(),
        system=measured.system,
        hardware=tuple((key, text) for key in HARDWARE if (text := fields.get(key))),
        settings=(
            *((name, printable(value)) for name, value in named.items() if value is not None),
            *settings_of(run_set),
            *code_setting([measured.record.code.sha256] if measured.record.code else ()),
        ),
        folder=measured.folder,
        turns=turns_of(measured.folder),
        repetition=repetition_key(run_set),
    )


def _sample(measured: MeasuredSet, index: int) -> Sample:
    """One process, with its seed where the set's record says it; a rate is on the grid of the clock."""
    seeds = measured.run_set.seeds if measured.run_set else ()
    seed, process = seeds[index] if index < len(seeds) else None, measured.processes[index]
    value, steps = measured.values[index], {}
    if measured.measure.counts_samples:
        value, steps = measured.rates[index], {measured.compared: _clock_step(process)}
    return Sample(
        seed=seed,
        values={measured.compared: value},
        steps=steps,
        started_ms=epoch_ms(getattr(process, "started_utc", None)),
        stopped_ms=epoch_ms(getattr(process, "ended_utc", None)),
    )


def _clock_step(process: Any) -> float:
    return min(_CLOCK_STEP_S / float(process.duration_s), 1.0)
