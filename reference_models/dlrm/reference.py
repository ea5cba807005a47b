"""Reference implementation of DLRM in stock PyTorch, on one device in one process, written to be read first."""

from reference_models.dlrm.model import DLRM
from reference_models.training.loop import Built, TrainingLoop
from reference_models.training.optimizers import build_optimizers


# Each model's reference.py has a class of this name, and each optimized.py an OptimizedWorkload: users' code imports
# them by module and name, and no module but tests imports those of two models.
class ReferenceWorkload(TrainingLoop):
    """Workload that trains a DLRM by torch's modules, autograd and torch.optim."""

    name = "reference"
    model_class: type[DLRM] = DLRM

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        train = self.data.train
        with self.device:
            model = self.model_class(
                self.spec.model,
                num_dense=train.num_dense,
                num_embeddings=num_embeddings,
                multi_hot=train.multi_hot,
            )
        optimizers = build_optimizers(
            self.spec.train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        )
        return model, optimizers
