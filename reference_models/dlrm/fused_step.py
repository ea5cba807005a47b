"""Training step of DLRM and DLRM-DCNv2 with hand-written forward pass, backward pass and update, without autograd."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import MLPWidths
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.phases import DLRMPhase
from reference_models.fused.dense_parameters import Apply, DenseParameter, Gradient, update_together
from reference_models.fused.interaction import FusedInteraction, fuse_interaction
from reference_models.fused.layers import fuse_mlp, padded_input, passes
from reference_models.fused.matmul import Matmuls
from reference_models.fused.merged_embedding import LookupPlan, MergedEmbedding, join_accumulators, split_tables

UpdateTables = Callable[[torch.Tensor, LookupPlan, torch.Tensor], None]
"""Function that updates the embedding tables. Its arguments are the numbers of the rows looked up, the LookupPlan
(tensors for pooling and sorting that depend only on the batch size), and the gradient of the pooled rows (bags)."""


class FusedDLRM(DLRM):
    """DLRM with hand-written forward and backward passes; its weights and optimizer state are laid out for these
    passes.

    To all other code it is a DLRM: names and values of weights, and the forward pass by autograd, are the same.
    """

    def __init__(
        self, config: MLPWidths, *, num_dense: int, num_embeddings: Sequence[int], multi_hot: Sequence[int]
    ) -> None:
        weight = torch.empty(sum(num_embeddings), config.embedding_dim)
        super().__init__(
            config,
            num_dense=num_dense,
            num_embeddings=num_embeddings,
            multi_hot=multi_hot,
            tables=split_tables(weight, num_embeddings),
        )
        self.merged_weight, self.num_embeddings, self.num_dense = weight, num_embeddings, num_dense
        self.num_steps = 0
        self._passes: dict[tuple[int, bool], FusedPass] = {}

    @torch.no_grad()
    def fuse(
        self,
        optimizers: list[torch.optim.Optimizer],
        matmuls: Matmuls | None = None,
        row_type: torch.dtype | None = None,
    ) -> None:
        """Lay out the model's weights and optimizer states for the hand-written passes; the modules of the model then
        hold views of these weights.

        `optimizers` are two: the tables' optimizer and the dense weights' optimizer. `matmuls` says how matrix
        products, and the work around them, are computed; by default in the weights' type and by torch's operators.
        `row_type` is the integer type of row numbers; by default it follows from the tables' size. It is given for
        the small copy of the model that is used for warm-up, which must have the full tables' type.
        """
        self.matmuls = Matmuls() if matmuls is None else matmuls
        self.optimizers = optimizers
        sparse, dense = optimizers
        accumulator = join_accumulators(sparse, self.embedding_parameters())
        self.embedding = MergedEmbedding(
            self.merged_weight,
            accumulator,
            self.num_embeddings,
            self.multi_hot,
            has_kernels=self.matmuls.has_kernels,
            cpu_kernels=self.matmuls.cpu_kernels,
            row_type=row_type,
        )
        self.bottom = fuse_mlp(self.bottom_mlp, dense, self.matmuls, pads_input=True)
        self.feature_type = self.merged_weight.dtype
        if self.matmuls.dtype is not None and not self.matmuls.keeps_results:
            self.feature_type = self.matmuls.dtype
        like = self.merged_weight.new_empty(0, self.merged_weight.shape[1], dtype=self.feature_type)
        self.middle = self._fuse_interaction(like, dense)
        self.top = fuse_mlp(self.top_mlp, dense, self.matmuls, pads_input=self.middle.pads_output)

    def _fuse_interaction(self, like: torch.Tensor, optimizer: torch.optim.Optimizer) -> FusedInteraction:
        """Return the interaction with hand-written passes; `like` is an empty tensor of the data type and width of
        the vectors that enter the interaction."""
        return fuse_interaction(self.interaction, 1 + len(self.num_embeddings), like, optimizer, self.matmuls)

    def use(self, matmuls: Matmuls) -> None:
        """Compute matrix products as `matmuls` says from the next step on; weights and tensors keep the types that
        `fuse` set."""
        self.matmuls = matmuls
        self._passes.clear()

    @torch.no_grad()
    def train_step(self, batch: Batch) -> torch.Tensor:
        """Train on one batch at the learning rates in the optimizers; return the batch's mean loss."""
        self.num_steps += 1
        sparse_rates, dense_rates = map(self.rates, self.optimizers)
        embedding = self.embedding

        def update_tables(rows: torch.Tensor, plan: LookupPlan, gradients: torch.Tensor) -> None:
            embedding.update(rows, plan, gradients.to(embedding.weight.dtype), *sparse_rates)

        def update_weight(parameter: DenseParameter, gradient: torch.Tensor) -> None:
            parameter.update(gradient, *dense_rates, self.matmuls.cpu_kernels)

        return self._over(len(batch.labels), trains=True).train(batch, update_tables, update_weight)

    @torch.no_grad()
    def train_on_tensors(self, batch: Batch, rates: torch.Tensor) -> torch.Tensor:
        """Train on one batch at the learning rates [2] of embeddings and dense weights; return the batch's loss.

        `prepare` must have been called with the batch size. A CUDA graph can capture the step, since shapes do not
        depend on the ids and the host waits for no value. The caller counts the steps in the model's `num_steps`.
        """
        sparse_eps, dense_eps = (optimizer.param_groups[0].get("eps", 0.0) for optimizer in self.optimizers)

        def update_tables(rows: torch.Tensor, plan: LookupPlan, gradients: torch.Tensor) -> None:
            self.embedding.update_static(rows, plan, gradients, rates[0], sparse_eps)

        def keep_gradient(parameter: DenseParameter, gradient: torch.Tensor) -> None:
            gradients.append((parameter, gradient))

        gradients: list[Gradient] = []
        loss = self._over(len(batch.labels), trains=True).train(batch, update_tables, keep_gradient)
        self.enter(DLRMPhase.DENSE_OPTIMIZER)
        update_together(gradients, rates[1], dense_eps)
        return loss

    @torch.no_grad()
    def prepare(self, num_samples: int) -> None:
        """Allocate the buffers of the forward and backward pass for a training batch size, before its first step."""
        self._over(num_samples, trains=True)

    @torch.no_grad()
    def logits(self, batch: Batch) -> torch.Tensor:
        """Return the logits [B] of a batch, without gradients; the next call overwrites the tensor."""
        return self._over(len(batch.labels), trains=False).forward(batch)

    def rates(self, optimizer: torch.optim.Optimizer) -> tuple[float, float]:
        """Return an optimizer's learning rate in the current step, after Adagrad's own decay, and its epsilon."""
        group = optimizer.param_groups[0]
        return group["lr"] / (1 + (self.num_steps - 1) * group.get("lr_decay", 0.0)), group.get("eps", 0.0)

    def count_steps(self) -> None:
        """Write the number of training steps so far into the optimizers' state."""
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                if "step" in state:
                    is_tensor = isinstance(state["step"], torch.Tensor)
                    state["step"] = torch.tensor(float(self.num_steps)) if is_tensor else self.num_steps

    def _over(self, num_samples: int, *, trains: bool) -> "FusedPass":
        if (num_samples, trains) not in self._passes:
            self._passes[num_samples, trains] = FusedPass(self, num_samples, trains=trains)
        return self._passes[num_samples, trains]


class FusedPass:
    """Forward and backward pass of a DLRM, with buffers, for one batch size."""

    def __init__(self, model: FusedDLRM, num_samples: int, *, trains: bool) -> None:
        self._model, self._num_samples = model, num_samples
        weight = model.embedding.weight
        narrow = weight.new_empty(0, dtype=model.matmuls.dtype)
        self._dense = padded_input(narrow, num_samples, model.num_dense)
        self._plan = model.embedding.plan(num_samples)
        self._bottom = passes(model.bottom, num_samples, model.matmuls, trains=trains, needs_dx=False)
        self._interaction = model.middle.over(num_samples, model.matmuls, trains=trains)
        self._top = passes(model.top, num_samples, model.matmuls, trains=trains, needs_dx=True)
        self._dy = narrow.new_empty(num_samples if trains else 0, weight.shape[1])

    def forward(self, batch: Batch) -> torch.Tensor:
        model = self._model
        model.enter(DLRMPhase.BOTTOM_MLP_FORWARD)
        self._dense[:, : model.num_dense] = batch.dense
        x = self._dense
        for layer in self._bottom:
            x = layer.forward(x)
        model.enter(DLRMPhase.EMBEDDING_FORWARD)
        self._rows = model.embedding.merge_ids(batch.indices)
        features = model.embedding.read(self._rows, self._plan, model.feature_type)
        model.enter(DLRMPhase.INTERACTION_FORWARD)
        features[:, 0] = x
        x = self._interaction.forward(features)
        model.enter(DLRMPhase.TOP_MLP_FORWARD)
        for layer in self._top:
            x = layer.forward(x)
        return x.squeeze(1)

    def train(self, batch: Batch, update_tables: UpdateTables, update_weight: Apply) -> torch.Tensor:
        model = self._model

        def applying(phase: DLRMPhase) -> Apply:
            """Enter the phase `phase`. Return a function that updates a dense weight: it enters the phase
            DENSE_OPTIMIZER for the update, and then returns to `phase`."""
            model.enter(phase)

            def apply(parameter: DenseParameter, gradient: torch.Tensor) -> None:
                model.enter(DLRMPhase.DENSE_OPTIMIZER)
                update_weight(parameter, gradient)
                model.enter(phase)

            return apply

        logits = self.forward(batch)
        model.enter(DLRMPhase.LOSS)
        labels = batch.labels.to(logits.dtype)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        dy: torch.Tensor | None = torch.sigmoid(logits).sub_(labels).div_(self._num_samples).unsqueeze(1)
        apply = applying(DLRMPhase.TOP_MLP_BACKWARD)
        for layer in reversed(self._top):
            assert dy is not None
            dy = layer.backward(dy, apply)
        assert dy is not None
        dfeatures = self._interaction.backward(dy, applying(DLRMPhase.INTERACTION_BACKWARD))
        model.enter(DLRMPhase.SPARSE_OPTIMIZER)
        update_tables(self._rows, self._plan, dfeatures)
        apply = applying(DLRMPhase.BOTTOM_MLP_BACKWARD)
        dy = self._dy.copy_(dfeatures[:, 0])
        for layer in reversed(self._bottom):
            assert dy is not None
            dy = layer.backward(dy, apply)
        return loss
