"""Optimized implementation of DLRM: the same mathematics as the reference implementation, faster on one device."""

from collections.abc import Mapping
from typing import Any

import torch

from reference_models.data.store.dataset import Batch, OpenedDataset
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused.choice import MatmulChoice, Precision
from reference_models.fused.cpu_kernels import CPUKernels
from reference_models.fused.kernel_check import checked_cpu_kernels
from reference_models.fused.matmul import Matmuls
from reference_models.fused.merged_embedding import choose_row_type
from reference_models.fused.timing import choose
from reference_models.process.errors import ConfigError
from reference_models.training.loop import Built

SWITCHED_OFF = "runtime.kernels is off"
"""Reason, as the log states it, why torch's operators are used instead of compiled kernels: the user switched these
off."""


class OptimizedWorkload(ReferenceWorkload):
    """Workload that trains a `FusedDLRM`: all tables in one weight, hand-written passes, matrix products by the
    kernels that were fastest when timed, and batches read ahead by a thread."""

    name = "optimized"
    reads_ahead = True
    model_class = FusedDLRM
    model: FusedDLRM

    def build(self) -> None:
        self._forget()
        super().build()

    def prepare_shapes(self, data: OpenedDataset) -> None:
        self._forget()
        super().prepare_shapes(data)

    def _forget(self) -> None:
        self._matmuls: Matmuls | None = None
        self._compiled: CPUKernels | str | None = None

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super().build_model(num_embeddings)
        if self._matmuls is None:
            self._matmuls = self._make_matmuls(self.spec.matmul)
        # The warm-up copy's rows have the model's type, too: its kernels are loaded before a graph is captured.
        row_type = choose_row_type(sum(self.data.train.num_embeddings))
        model.fuse(optimizers, self._matmuls, row_type)
        return model, optimizers

    @property
    def _cpu_kernels(self) -> CPUKernels | str:
        """Functions compiled from C for the step's passes, or the reason, in words, why torch's operators are used
        instead. Compiled and checked at the first use only."""
        if self.device.type != "cpu":
            return f"the compiled passes are for CPUs, not for {self.device.type}"
        if self.spec.runtime.kernels == "off":
            return SWITCHED_OFF
        if self._compiled is None:
            dim = self.spec.model.embedding_dim
            sums = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": dim}[self.spec.train.opt_name]
            self._compiled = checked_cpu_kernels(dim, sums)
        return self._compiled

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Return a dict from keys of the log to the run's settings.

        One key, `kernels`, says what does the work around matrix products: compiled functions, or torch's operators
        and the reason why compiled functions are not used.
        """
        found = self._cpu_kernels
        missing = () if self._matmuls is None else self._matmuls.missing
        kernels = f"torch: {found}" if isinstance(found, str) else "compiled"
        kernels += f"; without the chosen {', '.join(missing)}" if missing else ""
        return {**super().hyperparameters(), "kernels": kernels}

    def _make_matmuls(self, choice: MatmulChoice | None) -> Matmuls:
        found = self._cpu_kernels
        dtype = torch.bfloat16 if self._autocast_bf16 else None
        return Matmuls(choice, dtype=dtype, cpu_kernels=None if isinstance(found, str) else found)

    def warm_up(self) -> None:
        super().warm_up()
        choice = self.spec.matmul
        self._products = () if self._matmuls is None else tuple(self._matmuls.asked)
        if self._products and choice is not None and not choice.forms().keys() & set(self._products):
            raise ConfigError(
                "the choice of matrix products lists none of this step's: it was made for another model, batch "
                f"size or precision. Choose anew. The step's first product is: {self._products[0].label}."
            )

    def choose_matmul(self, previous: MatmulChoice | None) -> MatmulChoice:
        """Time each matrix product of the step by every available kernel; return the fastest kernel of each product.

        The warm-up in `build` has listed the products. `previous` is an earlier choice; its kernels are kept where
        they are hardly slower than the fastest.

        See `reference_models.fused.choice.ChoosesMatmul`.
        """
        precision: Precision = "bf16" if self._autocast_bf16 else "fp32"
        kernels = None if self._matmuls is None else self._matmuls.cpu_kernels
        return choose(self._products, precision, previous, cpu_kernels=kernels)

    def use_matmul(self, choice: MatmulChoice | None) -> None:
        """Compute, from the next step on, each matrix product by the kernel that timing chose for it and that
        `choice` lists."""
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
