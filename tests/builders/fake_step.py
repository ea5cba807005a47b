"""One training step on tensors without memory, of any size: what it allocates and calls, counted exactly."""

import warnings
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reference_models.config.sections import parse_train
from reference_models.data.registry import parse_data
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import parse_model
from reference_models.dlrm.cuda_graph import StepOnTensors
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.training.optimizers import build_optimizers


class Memory(TorchDispatchMode):
    """Live and peak bytes of the storages that were made while active, and calls by name."""

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = self.peak_bytes = self.largest_bytes = 0
        self.calls: Counter[str] = Counter()
        self._known: set[int] = set()

    def ignore(self, tensors: Sequence[torch.Tensor]) -> None:
        """Leave out what was there before."""
        self._known |= {tensor.untyped_storage()._cdata for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = [value for value in tree_leaves(out) if isinstance(value, torch.Tensor)]
        self.calls[func._schema.name] += 1
        for tensor in made:
            self._watch(tensor.untyped_storage())
        return out

    def _watch(self, storage: torch.UntypedStorage) -> None:
        key, num_bytes = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.live_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        self.largest_bytes = max(self.largest_bytes, num_bytes)

        def gone() -> None:
            self.live_bytes -= num_bytes
            self._known.discard(key)

        weakref.finalize(storage, gone)


@dataclass(frozen=True, slots=True)
class Trace:
    """Bytes that stay, and `Memory` of what was made while optimizers were built and while one step was trained."""

    weights_bytes: int
    state_bytes: int
    building: Memory
    training: Memory


def trace(sections: Mapping[str, Any], opt_name: str, batch_size: int, *, has_kernels: bool = False) -> Trace:
    """Trace building and one step, as CUDA captures it, of a model and data as definitions give them.

    `has_kernels`: as Triton's kernels update tables.

    Weights and activations are fake tensors of the CPU: autograd refuses those of CUDA without a driver.
    """
    data = parse_data(sections["data"])
    train = parse_train({"global_batch_size": batch_size, "opt_name": opt_name, "opt_base_learning_rate": 0.004})
    with FakeTensorMode(), warnings.catch_warnings(), torch.autograd.set_multithreading_enabled(False):
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        model = FusedDLRM(
            parse_model(sections["model"]),
            num_dense=data.num_dense,
            num_embeddings=data.num_embeddings,
            multi_hot=data.multi_hot,
        )
        building, training = Memory(), Memory()
        weights = [model.merged_weight, *model.dense_parameters()]
        building.ignore(weights)
        with building:
            optimizers = build_optimizers(
                train,
                embedding_parameters=model.embedding_parameters(),
                dense_parameters=model.dense_parameters(),
            )
            embedding = model.merge_embedding(optimizers[0], has_kernels=has_kernels)
        state_bytes = building.live_bytes
        step = StepOnTensors(model, embedding, optimizers, autocasts=False)
        plan = step.plan(batch_size)
        batch = Batch(
            torch.empty(batch_size, data.num_dense),
            torch.empty(batch_size, sum(data.multi_hot), dtype=torch.int64),
            torch.empty(batch_size),
        )
        state = [value for of in step._optimizers for entry in of.state.values() for value in entry.values()]
        training.ignore([*weights, *(value for value in state if isinstance(value, torch.Tensor))])
        training.ignore([plan.starts, batch.dense, batch.indices, batch.labels])
        training.ignore([] if plan.bags is None else [plan.bags])
        with training:
            step.train(batch, torch.empty(2))
        return Trace(sum(4 * weight.numel() for weight in weights), state_bytes, building, training)
