"""Simpler models, each without a part of DLRM, that must miss the quality target calibrated with DLRM: a target that
one of them meets would be too easy.

They are trained by the reference implementation's loop, optimizer and evaluation; only the model differs.
"""

import torch
from torch import nn

from reference_models.dlrm.config import MLPWidths
from reference_models.dlrm.model import INITS
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.layers.mlp import build_embedding_bag, build_mlp
from reference_models.training.loop import Built, TrainingLoop
from reference_models.training.optimizers import build_dense_optimizer, build_optimizers


class DenseOnly(nn.Module):
    """Model without sparse features: DLRM's bottom and top MLP in sequence, on dense features only."""

    def __init__(self, config: MLPWidths, num_dense: int) -> None:
        super().__init__()
        self.bottom_mlp = build_mlp(num_dense, config.bottom_mlp, INITS[config.init], ends_in_logit=False)
        self.top_mlp = build_mlp(config.embedding_dim, config.top_mlp, INITS[config.init], ends_in_logit=True)

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.top_mlp(self.bottom_mlp(dense))
        return logits.squeeze(1)


class LogisticRegression(nn.Module):
    """Logistic regression: a weight per id and per dense feature, and a bias, without interactions. Starts from
    zero."""

    def __init__(self, num_dense: int, num_embeddings: tuple[int, ...], multi_hot: tuple[int, ...]) -> None:
        super().__init__()
        self.multi_hot = list(multi_hot)
        self.embedding_bags = nn.ModuleList([build_embedding_bag(rows, 1) for rows in num_embeddings])
        self.dense = nn.Linear(num_dense, 1)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        bags = torch.split(indices, self.multi_hot, dim=1)
        logits: torch.Tensor = self.dense(dense)
        for bag, ids in zip(self.embedding_bags, bags, strict=True):
            logits = logits + bag(ids)
        return logits.squeeze(1)


class DenseOnlyWorkload(TrainingLoop):
    """Workload (training on a dataset) of DLRM's two MLPs on the dense features only."""

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        with self.device:
            model = DenseOnly(self.spec.model, self.data.train.num_dense)
        return model, [build_dense_optimizer(self.spec.train, list(model.parameters()))]


class LogisticRegressionWorkload(TrainingLoop):
    """Workload (training on a dataset) of a logistic regression: a weight per id and per dense feature."""

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        train = self.data.train
        with self.device:
            model = LogisticRegression(train.num_dense, num_embeddings, train.multi_hot)
        optimizers = build_optimizers(
            self.spec.train,
            embedding_parameters=list(model.embedding_bags.parameters()),
            dense_parameters=list(model.dense.parameters()),
        )
        return model, optimizers


class FrozenEmbeddingsWorkload(ReferenceWorkload):
    """Workload (training on a dataset) of a DLRM whose embedding tables are not updated."""

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super().build_model(num_embeddings)
        for parameter in model.embedding_parameters():
            parameter.requires_grad_(False)
        return model, optimizers[1:]
