"""What reduced precision costs in quality: ratios to fp32, and the classes by which MLPerf Inference knows them."""

from dataclasses import dataclass
from typing import Literal

from reference_models.training.metrics import QualityMetrics

MLPerfClass = Literal["99.9 %", "99 %", "below"]


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityRatio:
    """The quality of one evaluation over that of the same weights in fp32, on the same samples."""

    auc_ratio: float
    entropy_ratio: float
    """Ratio of normalised entropies; above 1 is worse."""

    @property
    def mlperf_class(self) -> MLPerfClass:
        """Which of MLPerf Inference's accuracy targets for DLRM the AUC meets: 99.9 % or 99 % of fp32's."""
        if self.auc_ratio >= 0.999:
            return "99.9 %"
        return "99 %" if self.auc_ratio >= 0.99 else "below"


def compare_quality(found: QualityMetrics, fp32: QualityMetrics) -> QualityRatio:
    """Divide `found` by `fp32`; both ratios are exactly 1 where the scores are the same."""
    return QualityRatio(
        auc_ratio=found.auc / fp32.auc, entropy_ratio=found.normalised_entropy / fp32.normalised_entropy
    )
