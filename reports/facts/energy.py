"""Energy as run.json and throughput.json record it: measured by RAPL or NVML, else the reason why not."""

from collections import Counter
from collections.abc import Iterable

from reports.text.formatting import printable
from rules.records.run import EnergyRecord, RunRecord


def measured_j(energy: EnergyRecord | None) -> float | None:
    """The measured energy in joules; None where nothing was measured."""
    return (energy.energy_j or None) if energy is not None and energy.parts else None


def source_words(energy: EnergyRecord) -> str:
    """'RAPL (powercap): package-0, package-0 dram, read every 1 s'."""
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
    """Say that energy is rank 0's alone where several ranks ran and an earlier version measured; else empty."""
    alone = any(
        record is not None
        and len(record.ranks) > 1
        and measured_j(record.energy) is not None
        and record.energy is not None
        and record.energy.num_ranks is None
        for record in records
    )
    return "Energy: of what rank 0 could read alone; an earlier version made these runs." if alone else ""


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
