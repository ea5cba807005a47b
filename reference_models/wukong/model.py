"""Wukong as a click model: DLRM's tables and MLPs, with the stack of factorization machines between them."""

from reference_models.dlrm.model import DLRM, INITS
from reference_models.wukong.config import WukongConfig
from reference_models.wukong.stack import WukongStack


class Wukong(DLRM):
    """Click model: a DLRM whose interaction is a `WukongStack`; tables, bottom and top MLP are DLRM's."""

    def _build_interaction(self, config: WukongConfig, num_features: int) -> WukongStack:
        return WukongStack(
            num_features,
            config.embedding_dim,
            config.num_layers,
            num_fmb=config.num_fmb,
            num_lcb=config.num_lcb,
            rank=config.rank,
            mlp=config.fmb_mlp,
            init=INITS[config.init],
        )
