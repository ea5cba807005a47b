"""Energy as run.json and throughput.json record it: measured by RAPL or NVML, else the reason why not."""

from collections.abc import Iterable

from reports.text.formatting import printable
from rules.records.run import EnergyRecord


def measured_j(energy: EnergyRecord | None) -> float | None:
    """The measured energy in joules; None where nothing was measured."""
    return (energy.energy_j or None) if energy is not None and energy.parts else None


def source_words(energy: EnergyRecord) -> str:
    """'RAPL (powercap): package-0, package-0 dram, read every 1 s'."""
    by_source: dict[str, list[str]] = {}
    for part in energy.parts:
        by_source.setdefault(part.source, []).append(part.name)
    every = f", read every {energy.sampling_interval_s:g} s" if energy.sampling_interval_s else ""
    return "; ".join(f"{source}: {', '.join(names)}" for source, names in by_source.items()) + every


def explain_missing(records: Iterable[EnergyRecord | None]) -> str:
    """Why there is no energy, in a sentence; empty where all of it was measured."""
    known = [energy for energy in records if energy is not None]
    if not known:
        return "Energy: not measured (the results hold no record of it)."
    reasons = sorted({f"{gap.what}: {gap.reason}" for energy in known for gap in energy.not_measured})
    if not reasons:
        return ""
    summary = "; ".join(printable(reason) for reason in reasons[:3])
    in_part = all(measured_j(energy) is not None for energy in known)
    return f"Energy: {'measured in part; ' if in_part else ''}not measured: {summary}"
