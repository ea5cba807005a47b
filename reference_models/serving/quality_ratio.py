"""Quality of a model served in reduced precision, relative to fp32, and MLPerf Inference's accuracy classes."""

from dataclasses import dataclass
from typing import Any, Literal

MLPerfClass = Literal["99.9 %", "99 %", "below"]


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityRatio:
    """Ratios of a model's quality in reduced precision to its quality in fp32, with the same weights on the same
    samples."""

    entropy_ratio: float
    """Ratio of the normalised entropy in reduced precision to that in fp32; above 1 is worse."""
    auc_ratio: float | None = None
    """Ratio of the AUC in reduced precision to that in fp32; None where the model has another metric than the AUC."""
    accuracy_ratio: float | None = None

    @property
    def mlperf_class(self) -> MLPerfClass | None:
        """MLPerf Inference's accuracy class for DLRM that the model meets by its AUC: "99.9 %" or "99 %" of the AUC
        in fp32, or "below"; None without an AUC."""
        if self.auc_ratio is None:
            return None
        if self.auc_ratio >= 0.999:
            return "99.9 %"
        return "99 %" if self.auc_ratio >= 0.99 else "below"


def compare_quality(found: Any, fp32: Any) -> QualityRatio:
    """Return the ratios of the quality metrics `found` in reduced precision to those of `fp32`, both measured by a
    `MetricFunction`.

    A ratio is exactly 1 if both precisions give the same scores. The ratio of AUC or accuracy is None if the metric
    was not measured, or is 0 in fp32.
    """
    shares = {
        f"{name}_ratio": getattr(found, name) / getattr(fp32, name)
        for name in ("auc", "accuracy")
        if getattr(fp32, name, 0.0) > 0
    }
    return QualityRatio(entropy_ratio=found.normalised_entropy / fp32.normalised_entropy, **shares)
