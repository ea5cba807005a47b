"""Reads the energy of runs from run.json and of measurements from throughput.json: joules measured by a hardware
counter or a command, or the reason why energy was not measured."""

from collections import Counter
from collections.abc import Iterable

from reports.results.result import Result, Run
from reports.text.formatting import MISSING, printable
from rules.records.run import EnergyRecord, RunRecord

STEADY = 0.97
"""Ratio of a GPU's lowest to its highest sampled clock frequency. Below it, the clock is said to have moved during
measurement."""


def measured_j(energy: EnergyRecord | None) -> float | None:
    """Return the measured energy of a run or process in joules; None where it was not measured."""
    return (energy.energy_j or None) if energy is not None and energy.parts else None


def mean_energy_j(result: Result) -> float | None:
    """Return the mean measured energy of a result's converged runs, or of its processes, in joules; None unless the
    energy of every one of them was measured."""
    measured = [measured_j(getattr(each.record, "energy", None)) for each in result.samples]
    known = [energy_j for energy_j in measured if energy_j is not None]
    return sum(known) / len(known) if known and len(known) == len(measured) else None


def energy_per_sample_j(result: Result) -> float | None:
    """Return joules per sample: the mean energy divided by the mean samples, over a result's converged runs or over
    its processes.

    Energy of evaluations is included. None unless energy and samples are known for all runs or processes.
    """
    energy_j = mean_energy_j(result)
    samples = [
        each.log.samples_to_converge if isinstance(each, Run) else getattr(each.record, "num_samples", None)
        for each in result.samples
    ]
    known = [number for number in samples if number]
    return energy_j * len(known) / sum(known) if energy_j and known and len(known) == len(samples) else None


def energy_text(energy_j: float | None) -> str:
    if energy_j is None:
        return MISSING
    return f"{energy_j / 1e3:,.4g} kJ" if energy_j >= 1e3 else f"{energy_j:.4g} J"


def compare_energy(base: Result, new: Result) -> str:
    """Return in words the mean energy and the samples per joule of two results that are compared: 'energy, measured,
    means: base 12 kJ and 85 samples/J, new 10 kJ …'; '' unless energy and samples of both results are known."""
    words = [
        f"{name} {energy_text(mean_energy_j(side))} and {1 / per_sample_j:.3g} samples/J"
        for name, side in (("base", base), ("new", new))
        if (per_sample_j := energy_per_sample_j(side)) is not None
    ]
    return f"energy, measured, means: {', '.join(words)}" if len(words) == 2 else ""


def source_words(energy: EnergyRecord) -> str:
    """Return in words what measured the energy, and how often: 'RAPL (powercap): package-0, package-0 dram, read
    every 1 s'."""
    by_source: dict[str, Counter[str]] = {}
    for part in energy.parts:
        by_source.setdefault(part.source, Counter())[part.name] += 1
    every = f", read every {energy.sampling_interval_s:g} s" if energy.sampling_interval_s else ""
    sources = (
        f"{source}: {', '.join(name if number == 1 else f'{number} times {name}' for name, number in names.items())}"
        for source, names in by_source.items()
    )
    return "; ".join(sources) + every


def explain_ranks(records: Iterable[RunRecord | None]) -> str:
    """Return the remark that only rank 0 measured the energy of runs on several ranks, as earlier versions of
    dlrmbench did; '' if no run was measured in this way."""
    alone = any(
        record is not None
        and len(record.ranks) > 1
        and measured_j(record.energy) is not None
        and record.energy is not None
        and record.energy.num_ranks is None
        for record in records
    )
    return (
        "Energy: only of what rank 0 could read, since an earlier version of dlrmbench made the runs."
        if alone
        else ""
    )


def explain_clocks(records: Iterable[EnergyRecord | None]) -> str:
    """Return the remark that a GPU's clock frequency changed during measurement, with the remedy; '' if every GPU's
    clock stayed within the tolerance STEADY."""
    gpus = [gpu for energy in records if energy is not None for gpu in energy.gpus]
    clocks = [(gpu.sm_clock_mhz, gpu.max_sm_clock_mhz) for gpu in gpus if gpu.sm_clock_mhz is not None]
    moved = [clock for clock, _ in clocks if clock.lowest < STEADY * clock.highest]
    if not moved:
        return ""
    most = max((top for _, top in clocks if top is not None), default=None)
    lowest, highest = min(clock.lowest for clock in moved), max(clock.highest for clock in moved)
    beside = "" if most is None else f", of {most:g} at most"
    return (
        f"GPU clock: moved between {lowest:g} and {highest:g} MHz while it was measured{beside}; "
        "nvidia-smi --lock-gpu-clocks=MHZ,MHZ holds it."
    )


def explain_missing(records: Iterable[EnergyRecord | None]) -> str:
    """Return in a sentence the reason why energy was not measured, or only in part; empty where all of it was
    measured."""
    known = [energy for energy in records if energy is not None]
    if not known:
        return "Energy: not measured (the results hold no energy record)."
    reasons = sorted({f"{gap.what}: {gap.reason}" for energy in known for gap in energy.not_measured})
    if not reasons:
        return ""
    summary = "; ".join(printable(reason) for reason in reasons[:3])
    in_part = all(measured_j(energy) is not None for energy in known)
    return f"Energy: {'measured in part; ' if in_part else ''}not measured: {summary}"
