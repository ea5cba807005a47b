"""Fits scaling laws: normalised entropy over the training FLOP of several sizes of a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.results.result import Result
from reports.statistics.power_law import (
    LACK_OF_FIT,
    Floats,
    PowerLaw,
    are_alike,
    fit_power_law,
    values_at,
    why_no_law,
)
from rules.records.measured.quality import QualityRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One size of a model: its computed training FLOP, and the normalised entropy and quality measured with each
    seed."""

    label: str
    training_flop: float
    entropies: tuple[float, ...]
    qualities: tuple[float, ...]
    quality_name: str
    """Name of the benchmark's metric, such as 'AUC'."""

    @property
    def entropy(self) -> float:
        """Mean normalised entropy, over all seeds, of one model size."""
        return sum(self.entropies) / len(self.entropies)


@dataclass(frozen=True, kw_only=True, slots=True)
class LawData:
    """Properties that scaling laws must share to be compared: data, training samples, and evaluation samples."""

    dataset_sha256: str | None
    num_samples: int
    eval_samples: int

    def why_unlike(self, other: "LawData") -> str:
        """Return in words the first difference between the data of this scaling law and the data of `other`, because
        of which the laws must not be compared: '1,000 training samples, not 2,000'. '' for equal data."""
        if self.dataset_sha256 is None or other.dataset_sha256 is None:
            return "its dataset is not on record"
        if self.dataset_sha256 != other.dataset_sha256:
            return "other data"
        if self.num_samples != other.num_samples:
            return f"{self.num_samples:,} training samples, not {other.num_samples:,}"
        if self.eval_samples != other.eval_samples:
            return f"{self.eval_samples:,} evaluation samples, not {other.eval_samples:,}"
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingLaw:
    """Scaling law fitted to several sizes of a model. If none could be fitted, `fitted` is None and `why_not` is the
    reason.

    `data` identifies the dataset: laws with equal `data` are drawn on one chart. It is None where nothing was
    measured. `seed` is the random seed of the bootstrap. `num_beaten` is the number of configurations left out
    because another configuration with equal training FLOP, for example with another learning rate, was better.
    """

    sizes: tuple[Size, ...]
    fitted: PowerLaw | None
    why_not: str
    data: LawData | None
    seed: int
    num_beaten: int = 0

    def resampled_at(self, compute: float) -> Floats | None:
        """Return the normalised entropy that the law gives at `compute` FLOP, one value per bootstrap resample of
        seeds. None if there is only one seed."""
        flop, entropies = [size.training_flop for size in self.sizes], [size.entropies for size in self.sizes]
        return values_at(compute, flop, entropies, self.seed)


def find_law(labels: Sequence[str], measured: Sequence[Result | None], seed: int) -> ScalingLaw:
    """Fit a scaling law to the configurations that were measured. Only those with the largest number of seeds are
    used.

    If the training FLOP of several configurations are equal within 10 % (for example, if only the learning rate
    differs), only the best of them is used. In the returned law, `fitted` is None if the sizes do not follow a law.
    `seed` is the random seed of the bootstrap.
    """
    known = [
        (label, found.measured)
        for label, found in zip(labels, measured, strict=True)
        if found is not None and isinstance(found.measured, QualityRecord)
    ]
    sizes = [
        Size(
            label=label,
            training_flop=float(record.processes[0].training_flop),
            entropies=tuple(process.normalised_entropy for process in record.processes),
            qualities=tuple(getattr(process, record.measure.value) for process in record.processes),
            quality_name=record.measure.name,
        )
        for label, record in known
    ]
    most = max((len(size.entropies) for size in sizes), default=0)
    whole = sorted((size for size in sizes if len(size.entropies) == most), key=lambda size: size.entropy)
    best: list[Size] = []
    for size in whole:
        if not any(are_alike(size.training_flop, other.training_flop) for other in best):
            best.append(size)
    sizes = sorted(best, key=lambda size: size.training_flop)
    flop = [size.training_flop for size in sizes]
    data = [_data_of(record) for _, record in known]
    unlike = [other.why_unlike(data[0]) for other in data[1:] if other != data[0]]
    why_not = f"its configurations differ by more than size ({unlike[0]})" if unlike else why_no_law(flop)
    fitted = fit_power_law(flop, [size.entropies for size in sizes], seed) if why_not is None else None
    if fitted is not None and fitted.misfit_chance is not None and fitted.misfit_chance < LACK_OF_FIT:
        why_not = (
            f"the sizes do not follow one: their means lie {_largest_gap(fitted, sizes):.2g} from the best, more "
            f"than seeds explain (F test of lack of fit, chance {fitted.misfit_chance:.1g})"
        )
        fitted = None
    return ScalingLaw(
        sizes=tuple(sizes),
        fitted=fitted,
        why_not=why_not or "",
        data=data[0] if data else None,
        seed=seed,
        num_beaten=len(whole) - len(sizes),
    )


def _largest_gap(fitted: PowerLaw, sizes: Sequence[Size]) -> float:
    return max(abs(size.entropy - fitted.at(size.training_flop)) for size in sizes)


def _data_of(record: QualityRecord) -> LawData:
    return LawData(
        dataset_sha256=record.dataset_sha256,
        num_samples=record.processes[0].num_samples,
        eval_samples=record.eval_samples,
    )
