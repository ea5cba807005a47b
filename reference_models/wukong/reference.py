"""The reference implementation of Wukong, and what calibration holds it against: stock PyTorch, one process."""

from reference_models.dlrm.baselines import FrozenEmbeddingsWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.wukong.model import Wukong


class WukongWorkload(ReferenceWorkload):
    """Trains one Wukong, by modules, autograd and torch.optim."""

    model_class = Wukong


class FrozenWukongWorkload(FrozenEmbeddingsWorkload):
    """Trains the model without updating its tables."""

    model_class = Wukong
