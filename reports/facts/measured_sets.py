"""Measurements in several fresh processes, of any kind: extra/<kind>.json, read by the kind's record."""

from dataclasses import dataclass
from pathlib import Path

from reports.facts.records import config_texts, read_record, read_run_set, software_of
from reports.facts.sides import HARDWARE, Sample, Side
from reports.text.formatting import printable
from rules.errors import InputError
from rules.records.kinds import KINDS
from rules.records.measure import Measure, Measurement
from rules.records.run_set import RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredSet:
    """One measurement: `record` is what its processes found, `run_set` its set's, where it can be read."""

    folder: Path
    kind: str
    record: Measurement
    run_set: RunSetRecord | None

    @property
    def measure(self) -> Measure:
        return self.record.MEASURE

    @property
    def values(self) -> tuple[float, ...]:
        """What is compared, one per process."""
        return tuple(float(getattr(process, self.measure.value)) for process in self.record.repetitions())

    def mean(self, member: str) -> float | None:
        """Over the processes; None where one does not say it."""
        found = [getattr(process, member) for process in self.record.repetitions()]
        return None if not found or any(value is None for value in found) else float(sum(found) / len(found))

    @property
    def title(self) -> str:
        """'dlrm_tiny on 1x-example'."""
        if self.run_set is None:
            return printable(self.folder.resolve().name, 80)
        return printable(f"{self.run_set.benchmark.name} on {self.run_set.system.name}", 160)


def read_measured(folder: Path, kind: str) -> MeasuredSet:
    """What extra/<kind>.json says. Raises InputError where it is missing or damaged."""
    problems: list[str] = []
    path = folder / "extra" / f"{kind}.json"
    record = read_record(path, KINDS[kind], problems)
    if record is None:
        why = problems[0] if problems else f"{printable(path)}: no such file."
        raise InputError(f"{why} Measure again with 'dlrmbench run --{kind}'.")
    return MeasuredSet(folder=folder, kind=kind, record=record, run_set=read_run_set(folder, problems))


def measured_side(folder: Path, kind: str) -> Side:
    """The side that a measurement makes: its processes are its runs."""
    measured = read_measured(folder, kind)
    run_set, samples = measured.run_set, _samples(measured)
    fields = run_set.system.fields if run_set else {}
    named = {name: getattr(measured.record, name, None) for name in ("data_kind", "dataset_sha256", "eval_samples")}
    named["num_samples"] = getattr(measured.record.repetitions()[0], "num_samples", None)
    return Side(
        label=printable(folder.resolve().name, 80),
        kind=kind,
        measure=measured.measure,
        status="own",
        benchmark=run_set.benchmark.name if run_set else None,
        samples=samples,
        runs=(),
        num_runs=len(samples),
        system=run_set.system.name if run_set else None,
        hardware=tuple((key, text) for key in HARDWARE if (text := fields.get(key))),
        settings=(
            *((name, printable(value)) for name, value in named.items() if value is not None),
            *((key, value) for key, (value, _) in config_texts(run_set).items()),
            *software_of(run_set),
        ),
    )


def _samples(measured: MeasuredSet) -> tuple[Sample, ...]:
    """One per process, with its seed where the set's record says it."""
    seeds = measured.run_set.seeds if measured.run_set else ()
    return tuple(
        Sample(
            seed=seeds[index] if index < len(seeds) else None,
            time_to_train_s=None,
            train_s=None,
            num_samples=None,
            time_step=0.0,
            samples_step=0.0,
            clock_step=0.0,
            value=value,
        )
        for index, value in enumerate(measured.values)
    )
