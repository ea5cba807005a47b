"""The training steps that ours is held against: stock PyTorch, and torchrec with FBGEMM, on the same batches.

Settings are those that were fastest: dense Adagrad fused; torchrec's FusedEmbeddingBagCollection (the table update is
part of its backward pass) rather than DistributedModelParallel; `tbe` is that collection's kernel itself below a
dense part that torch.compile makes of the reference's modules. Their inputs (KeyedJaggedTensors, ids by feature with
offsets) are made before the clock starts, where ours pays for shifting ids within the step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jobs import Job
from torch import nn

from reference_models.data.store.dataset import Batch
from reference_models.dlrm.fused_step import FusedDLRM, FusedPass
from reference_models.dlrm.model import DLRM, INITS, build_interaction
from reference_models.fused.choice import MatmulChoice, Precision
from reference_models.fused.kernel_check import checked_cpu_kernels
from reference_models.fused.matmul import Matmuls
from reference_models.fused.timing import choose
from reference_models.layers.mlp import build_mlp
from reference_models.training.optimizers import SparseAdagrad, build_optimizers

Step = Callable[[int], torch.Tensor]
"""Trains on batch number i and returns its loss."""


@dataclass(frozen=True, slots=True)
class ChosenStep:
    """A step of ours, and how its products are computed, which was timed before."""

    train: Step
    choice: MatmulChoice
    model: FusedDLRM

    def __call__(self, i: int) -> torch.Tensor:
        return self.train(i)

    def describe(self) -> str:
        """'61 % in onednn (9 products), 39 % in mm (13)', by the seconds measured when they were chosen."""
        times: dict[str, list[float]] = {}
        for chosen in self.choice.products:
            times.setdefault(chosen.form, []).append(chosen.seconds[chosen.form])
        total_s = sum(map(sum, times.values()))
        parts = sorted(times.items(), key=lambda entry: -sum(entry[1]))
        return ", ".join(f"{sum(some) / total_s:.0%} in {form} ({len(some)} products)" for form, some in parts)


def ours(job: Job, batches: list[Batch]) -> Step:
    """The optimized step, each product in the form that is fastest here: chosen by timing, as before a run."""
    return _ours(job, batches, "fp32", None)


def bf16(job: Job, batches: list[Batch]) -> Step:
    """The optimized step with operands in bf16. Raises RuntimeError where those would be emulated."""
    info = Path("/proc/cpuinfo")
    if not info.exists() or {"avx512_bf16", "amx_bf16"}.isdisjoint(info.read_text().split()):
        raise RuntimeError("this CPU has neither avx512_bf16 nor amx_bf16")
    return _ours(job, batches, "bf16", torch.bfloat16)


def _ours(job: Job, batches: list[Batch], precision: Precision, dtype: torch.dtype | None) -> Step:
    torch.manual_seed(0)
    model = FusedDLRM(job.model, **_sizes(job))
    dim = job.model.embedding_dim
    found = checked_cpu_kernels(dim, {"rowwise_adagrad": 1, "adagrad": dim, "sgd": 0}[job.train.opt_name])
    kernels = None if isinstance(found, str) else found
    asked = Matmuls(dtype=dtype, cpu_kernels=kernels)
    model.fuse(
        build_optimizers(
            job.train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        ),
        asked,
    )
    FusedPass(model, job.train.global_batch_size, trains=True)  # asks for the forms of its products
    choice = choose(asked.asked, precision, None, cpu_kernels=kernels)
    model.use(Matmuls(choice, dtype=dtype, cpu_kernels=kernels))
    return ChosenStep(lambda i: model.train_step(batches[i]), choice, model)


def eager(job: Job, batches: list[Batch]) -> Step:
    """nn.EmbeddingBag with sparse gradients; torch.optim, but for row-wise Adagrad, which torch.optim lacks."""
    torch.manual_seed(0)
    model = DLRM(job.model, **_sizes(job))
    lr, eps = job.train.opt_base_learning_rate, job.train.optimizer.get("opt_adagrad_epsilon", 0.0)
    optimizers: list[torch.optim.Optimizer]
    if job.train.opt_name == "rowwise_adagrad":
        sparse = SparseAdagrad(
            model.embedding_parameters(), lr=lr, lr_decay=0.0, initial_accumulator_value=0.0, eps=eps, rowwise=True
        )
        optimizers = [sparse, _dense_adagrad(model.dense_parameters(), lr, eps)]
    elif job.train.opt_name == "adagrad":
        sparse_adagrad = torch.optim.Adagrad(model.embedding_parameters(), lr=lr, eps=eps)
        optimizers = [sparse_adagrad, _dense_adagrad(model.dense_parameters(), lr, eps)]
    else:
        optimizers = [torch.optim.SGD(model.embedding_parameters(), lr=lr)]
        optimizers += [torch.optim.SGD(model.dense_parameters(), lr=lr, fused=True)]

    def step(i: int) -> torch.Tensor:
        batch = batches[i]
        logits = model(batch.dense, batch.indices)
        return _finish(nn.functional.binary_cross_entropy_with_logits(logits, batch.labels), optimizers)

    return step


def torchrec(job: Job, batches: list[Batch]) -> Step:
    """torchrec's DLRM or DLRM_DCN with its embeddings in one fused FBGEMM collection."""
    from torchrec.models.dlrm import DLRM as DLRM_DOT
    from torchrec.models.dlrm import DLRM_DCN
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    torch.manual_seed(0)
    keys = [f"f{i}" for i in range(job.data.num_sparse)]
    dim, lr = job.model.embedding_dim, job.train.opt_base_learning_rate
    eps = job.train.optimizer.get("opt_adagrad_epsilon", 0.0)
    configs = [
        EmbeddingBagConfig(name=f"t{i}", embedding_dim=dim, num_embeddings=rows, feature_names=[keys[i]])
        for i, rows in enumerate(job.num_embeddings)
    ]
    options: dict[str, Any] = {
        "dense_in_features": job.data.num_dense,
        "dense_arch_layer_sizes": list(job.model.bottom_mlp),
        "over_arch_layer_sizes": list(job.model.top_mlp),
        "embedding_bag_collection": EmbeddingBagCollection(tables=configs, device=torch.device("meta")),
    }
    if job.model.interaction == "dcn":
        model = DLRM_DCN(
            **options, dcn_num_layers=job.model.dcn_num_layers, dcn_low_rank_dim=job.model.dcn_low_rank_dim
        )
    else:
        model = DLRM_DOT(**options)
    kinds = {"rowwise_adagrad": RowWiseAdagrad, "adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD}
    model.sparse_arch.embedding_bag_collection = FusedEmbeddingBagCollection(
        tables=configs,
        optimizer_type=kinds[job.train.opt_name],
        optimizer_kwargs={"lr": lr} if job.train.opt_name == "sgd" else {"lr": lr, "eps": eps},
        device=torch.device("cpu"),
    )
    dense = [p for name, p in model.named_parameters() if "embedding_bag_collection" not in name]
    optimizer = (
        torch.optim.SGD(dense, lr=lr, fused=True) if job.train.opt_name == "sgd" else _dense_adagrad(dense, lr, eps)
    )
    inputs = []
    for batch in batches:
        columns = torch.split(batch.indices, list(job.data.multi_hot), dim=1)
        lengths = torch.tensor(job.data.multi_hot).repeat_interleave(len(batch.labels))
        values = torch.cat([column.flatten() for column in columns])
        inputs.append(KeyedJaggedTensor(keys=keys, values=values, lengths=lengths))

    def step(i: int) -> torch.Tensor:
        inputs[i].unsync()
        logits = model(batches[i].dense, inputs[i]).squeeze(1)
        return _finish(nn.functional.binary_cross_entropy_with_logits(logits, batches[i].labels), [optimizer])

    return step


class _DensePart(nn.Module):
    """The reference's model without tables: logits [B] of dense [B, num_dense] and pooled rows [B, tables * d]."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        init, num_tables = INITS[job.model.init], job.data.num_sparse
        self.bottom_mlp = build_mlp(job.data.num_dense, job.model.bottom_mlp, init, ends_in_logit=False)
        self.interaction = build_interaction(job.model, num_features=1 + num_tables)
        self.top_mlp = build_mlp(self.interaction.out_features, job.model.top_mlp, init, ends_in_logit=True)

    def forward(self, dense: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom_mlp(dense)
        vectors = torch.cat([bottom, pooled], dim=1).view(len(bottom), -1, bottom.shape[1])
        logits: torch.Tensor = self.top_mlp(self.interaction(vectors))
        return logits.squeeze(1)


def tbe(job: Job, batches: list[Batch]) -> Step:
    """FBGEMM's table-batched embeddings, updated in their backward pass, and a compiled dense part."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    torch.manual_seed(0)
    lr, eps = job.train.opt_base_learning_rate, job.train.optimizer.get("opt_adagrad_epsilon", 0.0)
    kinds = {
        "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        "adagrad": EmbOptimType.EXACT_ADAGRAD,
        "sgd": EmbOptimType.EXACT_SGD,
    }
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, job.model.embedding_dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for rows in job.num_embeddings],
        optimizer=kinds[job.train.opt_name],
        learning_rate=lr,
        eps=eps,
        pooling_mode=PoolingMode.SUM,
    )
    for weight in tables.split_embedding_weights():
        nn.init.uniform_(weight, -(len(weight) ** -0.5), len(weight) ** -0.5)
    part = _DensePart(job)
    compiled = torch.compile(part)
    parameters = list(part.parameters())
    optimizer = (
        torch.optim.SGD(parameters, lr=lr, fused=True)
        if job.train.opt_name == "sgd"
        else _dense_adagrad(parameters, lr, eps)
    )
    inputs = []
    for batch in batches:
        columns = torch.split(batch.indices, list(job.data.multi_hot), dim=1)
        lengths = torch.tensor(job.data.multi_hot).repeat_interleave(len(batch.labels))
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        inputs.append((torch.cat([column.flatten() for column in columns]), offsets))

    def step(i: int) -> torch.Tensor:
        logits = compiled(batches[i].dense, tables(*inputs[i]))
        return _finish(nn.functional.binary_cross_entropy_with_logits(logits, batches[i].labels), [optimizer])

    return step


def _finish(loss: torch.Tensor, optimizers: list[torch.optim.Optimizer]) -> torch.Tensor:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


def _dense_adagrad(parameters: list[nn.Parameter], lr: float, eps: float) -> torch.optim.Adagrad:
    return torch.optim.Adagrad(parameters, lr=lr, eps=eps, fused=True)


def _sizes(job: Job) -> dict[str, Any]:
    return {
        "num_dense": job.data.num_dense,
        "num_embeddings": job.num_embeddings,
        "multi_hot": job.data.multi_hot,
    }


PEERS: dict[str, Callable[[Job, list[Batch]], Step]] = {
    "ours": ours,
    "bf16": bf16,
    "eager": eager,
    "torchrec": torchrec,
    "tbe": tbe,
}
