"""Energy as run.json and throughput.json record it: measured by RAPL or NVML, else the reason why not."""

from collections.abc import Iterable
from dataclasses import dataclass

from reports.facts.untrusted import as_list, as_mapping, positive_of, text_of
from reports.text.formatting import printable


@dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """Of one timed part. `energy_j` is None where nothing was measured; `missing` says what was not, and why."""

    energy_j: float | None
    duration_s: float | None
    sampling_interval_s: float | None
    parts: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]

    @property
    def source(self) -> str:
        """'RAPL (powercap): package-0, package-0 dram, read every 1 s'."""
        by_source: dict[str, list[str]] = {}
        for name, source in self.parts:
            by_source.setdefault(source, []).append(name)
        every = f", read every {self.sampling_interval_s:g} s" if self.sampling_interval_s else ""
        return "; ".join(f"{source}: {', '.join(names)}" for source, names in by_source.items()) + every


def read_energy(value: object) -> Energy | None:
    """The record of one run or process; None where there is none."""
    content = as_mapping(value)
    if not content:
        return None
    parts = [as_mapping(part) for part in as_list(content.get("parts"))]
    gaps = [as_mapping(gap) for gap in as_list(content.get("not_measured"))]
    return Energy(
        energy_j=positive_of(content, "energy_j") if parts else None,
        duration_s=positive_of(content, "duration_s"),
        sampling_interval_s=positive_of(content, "sampling_interval_s"),
        parts=tuple((text_of(part, "name") or "unnamed", text_of(part, "source") or "unknown") for part in parts),
        missing=tuple(f"{text_of(gap, 'what') or 'energy'}: {text_of(gap, 'reason') or 'no reason'}" for gap in gaps),
    )


def explain_missing(records: Iterable[Energy | None]) -> str:
    """Why there is no energy, in a sentence; empty where all of it was measured."""
    known = [one for one in records if one is not None]
    if not known:
        return "Energy: not measured (the results hold no record of it)."
    reasons = sorted({reason for one in known for reason in one.missing})
    if not reasons:
        return ""
    told = "; ".join(printable(reason) for reason in reasons[:3])
    measured = all(one.energy_j is not None for one in known)
    return f"Energy: {'measured in part; ' if measured else ''}not measured: {told}"
