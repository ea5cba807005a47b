"""One training step on tensors without memory, of any size: what it allocates, moves and calls, counted exactly."""

import warnings
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from kernel_bytes import Runs
from step_traffic import FREE, Traffic
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reference_models.config.sections import parse_train
from reference_models.data.registry import parse_data
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import parse_model
from reference_models.dlrm.cuda_graph import NUM_SLOTS
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.fused.matmul import Matmuls
from reference_models.training.optimizers import build_optimizers


class Memory(TorchDispatchMode):
    """Live and peak bytes of the storages that were made while active, calls by name, and how many compute."""

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = self.peak_bytes = self.largest_bytes = self.num_kernels = 0
        self.calls: Counter[str] = Counter()
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        there = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        out = func(*args, **(kwargs or {}))
        self.calls[func._schema.name] += 1
        self.num_kernels += not func.is_view and func._schema.name not in FREE and func.namespace != "prim"
        known = {tensor.untyped_storage()._cdata for tensor in there}
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in known:
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
    device_bytes: int
    """Peak of all that was made: weights, state, a step's buffers and its temporaries. Without CUDA's own."""
    traffic: Traffic
    """Of the step; of tables updated by kernels only where `runs` were given."""


def trace(
    sections: Mapping[str, Any],
    opt_name: str,
    batch_size: int,
    *,
    has_kernels: bool = False,
    dtype: torch.dtype | None = None,
    runs: Runs | None = None,
) -> Trace:
    """Trace building and one step, as CUDA captures it, of a model and data as definitions give them.

    `has_kernels`: as Triton's kernels compute; `dtype` is that of products. Weights and activations are fake tensors
    of the CPU, as the operators are the same.
    """
    data = parse_data(sections["data"])
    train = parse_train({"global_batch_size": batch_size, "opt_name": opt_name, "opt_base_learning_rate": 0.004})
    device, building, training, traffic = Memory(), Memory(), Memory(), Traffic(runs)
    with FakeTensorMode(), warnings.catch_warnings(), device:
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        model = FusedDLRM(
            parse_model(sections["model"]),
            num_dense=data.num_dense,
            num_embeddings=data.num_embeddings,
            multi_hot=data.multi_hot,
        )
        weights_bytes = sum(weight.nbytes for weight in (model.merged_weight, *model.dense_parameters()))
        with building:
            optimizers = build_optimizers(
                train,
                embedding_parameters=model.embedding_parameters(),
                dense_parameters=model.dense_parameters(),
            )
        state_bytes = building.live_bytes
        model.fuse(optimizers, Matmuls(dtype=dtype, keeps_results=False, has_kernels=has_kernels))
        model.prepare(batch_size)
        batch, *_others = [
            Batch(
                torch.empty(batch_size, data.num_dense),
                torch.empty(batch_size, sum(data.multi_hot), dtype=torch.int32),
                torch.empty(batch_size),
            )
            for _ in range(NUM_SLOTS)
        ]
        rates = torch.empty(2)
        with training:
            if has_kernels and runs is None:
                model.train_on_tensors(batch, rates)
            else:
                with traffic:
                    model.train_on_tensors(batch, rates)
        return Trace(weights_bytes, state_bytes, building, training, device.peak_bytes, traffic)
