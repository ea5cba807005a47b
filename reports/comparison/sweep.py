"""A sweep's facts: every configuration of sweep.json with what its runs or processes measured.

sweep.json is as untrusted as any file of a result: its folders are names inside the sweep, wrong types read as not
known, and a configuration without results is shown as such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from reports.comparison.comparison import Comparison, compare_sides
from reports.facts.energy import Energy, read_energy
from reports.facts.facts import SetFacts, gather
from reports.facts.profile_record import ProfileRecord, read_profile
from reports.facts.sides import Sample, Side, side_of
from reports.facts.untrusted import as_list, as_mapping, items_of, positive_of, read_json, text_of, whole_of
from reports.statistics.intervals import LogSummary, log_summary
from reports.text.formatting import printable
from rules.errors import InputError

SWEEP_FILE = "sweep.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process of a throughput measurement."""

    seed: int | None
    num_samples: float | None
    duration_s: float | None
    peak_bytes: float | None
    energy: Energy | None

    @property
    def samples_per_s(self) -> float | None:
        return self.num_samples / self.duration_s if self.num_samples and self.duration_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepRow:
    """One configuration. Computed per sample: `training_flop`, `embedding_bytes`; None is not known.

    `num_runs` counts finished runs, or processes of a throughput measurement; `num_planned` those asked for.
    """

    index: int
    label: str
    values: tuple[str, ...]
    failure: str | None
    num_planned: int | None
    facts: SetFacts | None = None
    processes: tuple[Process, ...] = ()
    data_kind: str | None = None
    training_flop: float | None = None
    embedding_bytes: float | None = None
    comparison: Comparison | None = None
    profile: ProfileRecord | None = None
    profile_failure: str | None = None

    @property
    def num_runs(self) -> int:
        return len(self.facts.runs) if self.facts else len(self.processes)

    @property
    def num_converged(self) -> int:
        return sum(run.result.converged for run in self.facts.runs) if self.facts else len(self.processes)

    @property
    def score_s(self) -> float | None:
        return self.facts.result.score_s if self.facts else None

    @property
    def time_to_train(self) -> LogSummary | None:
        """Of the runs that converged; the others have no time."""
        return log_summary(run.time_s for run in self.facts.runs if run.result.converged) if self.facts else None

    @property
    def throughput(self) -> LogSummary | None:
        if self.facts:
            return log_summary(r.result.throughput_samples_per_s for r in self.facts.runs if r.result.converged)
        return log_summary(process.samples_per_s for process in self.processes)

    @property
    def samples_to_converge(self) -> LogSummary | None:
        if self.facts is None:
            return None
        return log_summary(run.result.samples_to_converge for run in self.facts.runs if run.result.converged)

    @property
    def peak_bytes(self) -> float | None:
        """The largest memory of any process: the accelerator's where there is one, else the process's own."""
        attempts = [run.attempt for run in self.facts.runs if run.attempt] if self.facts else []
        known = [one.peak_device_bytes or one.peak_rss_bytes for one in attempts]
        known += [process.peak_bytes for process in self.processes]
        return max((value for value in known if value is not None), default=None)

    @property
    def energies(self) -> tuple[Energy | None, ...]:
        if self.facts:
            return tuple(run.attempt.energy if run.attempt else None for run in self.facts.runs)
        return tuple(process.energy for process in self.processes)

    @property
    def energy_per_sample_j(self) -> float | None:
        """Measured energy over samples of all runs; None unless all of them have it."""
        if self.facts:
            pairs = [(run.attempt.energy if run.attempt else None, _trained(run)) for run in self.facts.runs]
        else:
            pairs = [(process.energy, process.num_samples) for process in self.processes]
        if not pairs or any(energy is None or energy.energy_j is None or not samples for energy, samples in pairs):
            return None
        return sum(energy.energy_j or 0.0 for energy, _ in pairs if energy) / sum(
            samples or 0.0 for _, samples in pairs
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepFacts:
    """One sweep. `axes` are keys with their values as they were written; rows are in the matrix' order."""

    name: str
    folder: str
    mode: Literal["to_target", "throughput"]
    num_steps: int | None
    command: str | None
    axes: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[SweepRow, ...]
    problems: tuple[str, ...]

    def at(self, values: Sequence[str]) -> SweepRow | None:
        return next((row for row in self.rows if row.values == tuple(values)), None)


def read_sweep_facts(folder: Path, *, second_opinion: bool = False, known: Sequence[SetFacts] = ()) -> SweepFacts:
    """Everything known about the sweep in `folder`. Raises InputError where sweep.json is no sweep's.

    Sets that are `known` already are not judged again.
    """
    problems: list[str] = []
    content = read_json(folder / SWEEP_FILE, problems)
    records = [as_mapping(record) for record in as_list(content.get("configurations"))]
    axes = tuple(
        (text_of(axis, "key", 80) or "unnamed", tuple(printable(value, 60) for value in as_list(axis.get("values"))))
        for axis in map(as_mapping, as_list(content.get("axes")))
    )
    if not records or not axes:
        why = problems[0] if problems else "holds no axes or no configurations"
        raise InputError(f"{folder / SWEEP_FILE}: {why}. Give the folder that 'dlrmbench sweep' made.")
    mode: Literal["to_target", "throughput"] = (
        "throughput" if "throughput" in (content.get("kind"), content.get("mode")) else "to_target"
    )
    planned = whole_of(content, "num_runs")
    folders = [_inside(folder, record.get("folder")) for record in records]
    facts = _gather_sets(folders, second_opinion, known) if mode == "to_target" else {}
    rows = []
    for index, (record, set_folder) in enumerate(zip(records, folders, strict=True)):
        chosen = dict(items_of(record.get("values")))
        row = SweepRow(
            index=index,
            label=text_of(record, "label") or f"configuration {index + 1}",
            values=tuple(printable(chosen.get(key, "—"), 60) for key, _ in axes),
            failure=_failure(record),
            num_planned=planned,
            facts=facts.get(set_folder) if set_folder else None,
            profile=read_profile(set_folder / "extra" / "profile.json", problems) if set_folder else None,
            profile_failure=text_of(record, "profile_failure", 300),
        )
        rows.append(_with_processes(row, set_folder, problems) if mode == "throughput" and set_folder else row)
    return SweepFacts(
        name=text_of(content, "name") or folder.name,
        folder=printable(folder),
        mode=mode,
        num_steps=whole_of(as_mapping(content.get("options")), "num_steps") or whole_of(content, "throughput_steps"),
        command=text_of(content, "command", 4000),
        axes=axes,
        rows=_compare(rows),
        problems=tuple(problems),
    )


def _failure(record: Mapping[str, Any]) -> str | None:
    failure = as_mapping(record.get("failure"))
    return (text_of(failure, "reason", 300) or "failed without a reason") if failure else None


def _inside(folder: Path, name: object) -> Path | None:
    """A plain name below `folder`, and a folder that is really there (no link out of it)."""
    if not isinstance(name, str) or not name or name in (".", "..") or "/" in name or "\0" in name:
        return None
    path = folder / name
    return path if path.is_dir() and not path.is_symlink() else None


def _gather_sets(
    folders: Sequence[Path | None], second_opinion: bool, known: Sequence[SetFacts]
) -> dict[Path, SetFacts]:
    found: dict[Path, SetFacts] = {}
    by_root: dict[Path, list[SetFacts]] = {}
    for one in known:
        if one.result_set.root is not None:
            by_root.setdefault(one.result_set.root.resolve(), []).append(one)
    for folder in folders:
        if folder is None or not any(folder.glob("results/*/*/result_*.txt")):
            continue
        sets = by_root.get(folder.resolve()) or gather([folder], second_opinion=second_opinion)
        if len(sets) == 1:
            found[folder] = sets[0]
    return found


def _with_processes(row: SweepRow, folder: Path, problems: list[str]) -> SweepRow:
    content = read_json(folder / "extra" / "throughput.json", problems)
    if not content:
        return row
    run_set = read_json(folder / "extra" / "run_set.json", problems)
    seeds = as_list(run_set.get("seeds"))
    computed = as_mapping(content.get("computed"))
    processes = []
    for index, entry in enumerate(map(as_mapping, as_list(content.get("processes")))):
        seed = seeds[index] if index < len(seeds) else None
        processes.append(
            Process(
                seed=seed if isinstance(seed, int) and not isinstance(seed, bool) else None,
                num_samples=positive_of(entry, "num_samples"),
                duration_s=positive_of(entry, "duration_s"),
                peak_bytes=positive_of(entry, "peak_device_bytes") or positive_of(entry, "peak_rss_bytes"),
                energy=read_energy(entry.get("energy")),
            )
        )
    return replace(
        row,
        processes=tuple(processes),
        data_kind=text_of(content, "data_kind"),
        training_flop=positive_of(computed, "training_flop_per_sample"),
        embedding_bytes=positive_of(computed, "embedding_bytes_per_sample"),
    )


def _compare(rows: Sequence[SweepRow]) -> tuple[SweepRow, ...]:
    """Each row with its comparison against the first that has results; all of them are one family of tests."""
    sides = {row.index: side for row in rows if (side := _side(row)) is not None}
    if len(sides) < 2:
        return tuple(rows)
    (first, base), *others = sides.items()
    compared = dict(zip(dict(others), compare_sides(base, list(dict(others).values())), strict=True))
    return tuple(row if row.index == first else replace(row, comparison=compared.get(row.index)) for row in rows)


def _side(row: SweepRow) -> Side | None:
    if row.facts is not None:
        return replace(side_of(row.facts), label=row.label)
    samples = tuple(
        Sample(
            seed=process.seed,
            time_to_train_s=None,
            train_s=process.duration_s,
            num_samples=process.num_samples,
            time_step=0.0,
            samples_step=0.0,
            clock_step=1e-6 / process.duration_s,
        )
        for process in row.processes
        if process.duration_s and process.num_samples
    )
    if not samples:
        return None
    return Side(
        label=row.label, kind="throughput", status="unknown", benchmark=None, samples=samples, runs=(),
        num_runs=len(samples), system=None, hardware=(), settings=(),
    )  # fmt: skip


def _trained(run: Any) -> float | None:
    """Samples trained in the timed part, whether or not the run converged."""
    evaluations = run.result.evaluations
    last = evaluations[-1].samples_count if evaluations else None
    return float(last) if last else run.result.samples_to_converge
