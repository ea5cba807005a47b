"""The law that normalised entropy follows over the training FLOP of several sizes of a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.facts.measured_sets import MeasuredSet
from reports.statistics.power_law import PowerLaw, fit_power_law, why_no_law
from rules.records.measured.quality import QualityRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One size of a model: training FLOP, computed, and normalised entropy and AUC of each seed, measured."""

    label: str
    training_flop: float
    entropies: tuple[float, ...]
    aucs: tuple[float, ...]

    @property
    def entropy(self) -> float:
        """The mean over seeds."""
        return sum(self.entropies) / len(self.entropies)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingLaw:
    """What was fitted to which sizes; or `why_not`. Laws with the same `data` are on one chart."""

    sizes: tuple[Size, ...]
    fitted: PowerLaw | None
    why_not: str
    data: tuple[object, ...]


def find_law(labels: Sequence[str], measured: Sequence[MeasuredSet | None], seed: int) -> ScalingLaw:
    """Fit the law to those configurations that were measured with the same number of seeds, the most that any has.

    `seed` is of the bootstrap.
    """
    known = [
        (label, found.record)
        for label, found in zip(labels, measured, strict=True)
        if found is not None and isinstance(found.record, QualityRecord)
    ]
    sizes = [
        Size(
            label=label,
            training_flop=float(record.processes[0].training_flop),
            entropies=tuple(process.normalised_entropy for process in record.processes),
            aucs=tuple(process.auc for process in record.processes),
        )
        for label, record in known
    ]
    most = max((len(size.entropies) for size in sizes), default=0)
    sizes = sorted((size for size in sizes if len(size.entropies) == most), key=lambda size: size.training_flop)
    flop = [size.training_flop for size in sizes]
    why_not = why_no_law(flop)
    return ScalingLaw(
        sizes=tuple(sizes),
        fitted=fit_power_law(flop, [size.entropies for size in sizes], seed) if why_not is None else None,
        why_not=why_not or "",
        data=(known[0][1].dataset_sha256, known[0][1].eval_samples) if known else (),
    )
