"""Serving (answering queries) by the forward pass of a model's training loop, for models without serving code of
their own.

Weights are those of training, in fp32, and `runtime.precision` means the same as in training. Batches are read, and
logits computed, as in evaluation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from reference_models.data.synthetic.config import has_signal
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess, World
from reference_models.serving.queries import read_queries, refuse_batch
from reference_models.serving.servable import Weights, refuse_other_weights, with_samples, workload_weights
from reference_models.serving.weight_bytes import ServedBytes
from reference_models.training.loop import TrainingLoop
from reference_models.training.metrics import find_metric
from reference_models.training.workload import Workload, WorkloadSpec

_WARM_UP_SIZES = (1, 64)


class ServedForward:
    """Model that answers queries (batches to score) by the forward pass of its training loop."""

    def __init__(
        self,
        name: str,
        load: Callable[[WorkloadSpec, World], Workload],
        spec: WorkloadSpec,
        weights: Weights | None = None,
    ) -> None:
        """Build and warm up the workload that `load` makes, and keep its model for serving.

        `name` is the implementation's name in messages. The model has the given `weights`; if they are None, initial
        weights drawn with the seed. Raises ConfigError if the workload cannot be served, or if the weights are of
        another model. Torch's generators are restored afterwards.
        """
        workload = load(with_samples(spec), SingleProcess())
        if not isinstance(workload, TrainingLoop):
            raise ConfigError(
                f"implementation {name!r} cannot be served: it is no TrainingLoop "
                "(reference_models/training/loop.py), and its ModelSpec has no `serve`."
            )
        self._loop, self._data = workload, spec.data
        with torch.random.fork_rng(devices=[]):
            workload.build()
        held = workload_weights(workload)
        if weights is not None:
            refuse_other_weights(weights, held)
            with torch.no_grad():
                for key, weight in held.items():
                    weight.copy_(weights[key])
        tables = [group["params"] for each in workload.optimizers[:-1] for group in each.param_groups]
        table_bytes = sum(weight.nbytes for group in tables for weight in group)
        total_bytes = sum({weight.data_ptr(): weight.nbytes for weight in held.values()}.values())
        self.served_bytes = ServedBytes(table_bytes=table_bytes, dense_bytes=total_bytes - table_bytes)
        workload.optimizers = []  # and their state, which serving does not need
        workload.model.eval()
        for size in _WARM_UP_SIZES:
            batch = workload.make_synthetic_batch(workload.data.eval.num_embeddings, size)
            refuse_batch(batch, name)
            self.answer(batch)

    def answer(self, batch: Any) -> torch.Tensor:
        """Return a query's logits, float32 on the CPU, in memory that later calls do not overwrite: [B], or [B, T, K]
        for T tasks of K classes."""
        with torch.inference_mode():
            return self._loop.compute_logits(self._loop.model, batch).float().cpu()

    def queries(self, sizes: Sequence[int]) -> list[Any]:
        """Return a query (a batch) of each size, in order, from the evaluation split, which begins again at its
        end."""
        split = self._loop.data.eval
        return read_queries(
            lambda start, stop: self._loop.read_batch(split, "eval", start, stop), split.num_samples, sizes
        )

    def quality(self) -> Any:
        """Return the model's metrics over the evaluation split, as training computes them; None where labels are
        random, so that a model cannot learn them."""
        return self._loop.evaluate_with(find_metric(self._loop.metric).measure) if has_signal(self._data) else None
