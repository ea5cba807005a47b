"""The optimized implementation: the reference's mathematics as fast as one device allows."""

from collections.abc import Mapping
from typing import Any

import torch

from reference_models.data.store.dataset import Batch
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused.choice import MatmulChoice, Precision
from reference_models.fused.cpu_kernels import CPUKernels
from reference_models.fused.kernel_check import checked_cpu_kernels
from reference_models.fused.matmul import Matmuls
from reference_models.fused.timing import choose
from reference_models.process.errors import ConfigError
from reference_models.training.loop import Built


class OptimizedWorkload(ReferenceWorkload):
    """Trains one `FusedDLRM`: merged tables, hand-written passes, products by choice, batches read ahead."""

    name = "optimized"
    reads_ahead = True
    model_class = FusedDLRM
    model: FusedDLRM

    def build(self) -> None:
        self._matmuls: Matmuls | None = None
        self._kernels = "torch"
        super().build()

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super().build_model(num_embeddings)
        if self._matmuls is None:
            self._matmuls = self._make_matmuls(self.spec.matmul)
        model.fuse(optimizers, self._matmuls, self._find_kernels if self.device.type == "cpu" else None)
        return model, optimizers

    def _find_kernels(self, dim: int, state_size: int) -> CPUKernels | None:
        found = checked_cpu_kernels(dim, state_size)
        self._kernels = f"torch: {found}" if isinstance(found, str) else "compiled"
        return None if isinstance(found, str) else found

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Add how tables are updated: by compiled kernels, or by torch's operators, and why."""
        return {**super().hyperparameters(), "kernels": self._kernels}

    def _make_matmuls(self, choice: MatmulChoice | None) -> Matmuls:
        return Matmuls(choice, dtype=torch.bfloat16 if self._autocast_bf16 else None)

    def warm_up(self) -> None:
        super().warm_up()
        choice = self.spec.matmul
        self._products = () if self._matmuls is None else tuple(self._matmuls.asked)
        if self._products and choice is not None and not choice.forms().keys() & set(self._products):
            raise ConfigError(
                "the choice of matrix products lists none of this step's: it was made for another model, batch size "
                f"or precision. Choose anew. The step's first product is: {self._products[0].label}."
            )

    def choose_matmul(self, previous: MatmulChoice | None) -> MatmulChoice:
        """Time the products that `build` warmed up: see `reference_models.fused.choice.ChoosesMatmul`."""
        precision: Precision = "bf16" if self._autocast_bf16 else "fp32"
        return choose(self._products, precision, previous)

    def use_matmul(self, choice: MatmulChoice | None) -> None:
        """Compute by another choice from the next step on."""
        self._matmuls = self._make_matmuls(choice)
        self.model.use(self._matmuls)

    def train_step(self, model: FusedDLRM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        return model.train_step(batch)

    def compute_logits(self, model: FusedDLRM, batch: Batch) -> torch.Tensor:
        return model.logits(batch)

    def go_on(self, step: int, generator: torch.Tensor) -> None:
        super().go_on(step, generator)
        self.model.num_steps = step

    def state(self) -> dict[str, Any]:
        self.model.count_steps()
        return super().state()
