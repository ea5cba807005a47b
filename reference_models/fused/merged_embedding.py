"""All embedding tables in one tensor, the merged weight: one gather reads a batch's rows, one sorted update writes
them.

A table's ids are shifted by the number of rows of the tables before it. The update is exact and deterministic:
lookups are sorted by row (stably, so that duplicates keep the batch's order), each row's gradients are summed once,
and each row is written once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from reference_models.fused.cpu_kernels import WIDTHS, CPUKernels, TableLayout
from reference_models.fused.dense_kernels import read_bags
from reference_models.fused.sorted_update import update_sorted


def split_tables(storage: torch.Tensor, num_embeddings: Sequence[int]) -> list[torch.Tensor]:
    """Return the tables of a merged weight (one tensor [sum(rows), ...] of all tables) as views of that tensor, in
    order."""
    return list(torch.split(storage, list(num_embeddings)))


def join_tables(tables: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the tensor [sum(rows), ...] that holds all tables, if `tables` are its parts in order, without gaps;
    else None."""
    first = tables[0].detach()
    memory, rows = first.untyped_storage().data_ptr(), 0
    for table in tables:
        begins = table.untyped_storage().data_ptr() == memory and table.storage_offset() == rows * first[0].numel()
        if not begins or not table.is_contiguous() or table.shape[1:] != first.shape[1:]:
            return None
        rows += len(table)
    return first.as_strided((rows, *first.shape[1:]), first.stride())


def join_accumulators(optimizer: torch.optim.Optimizer, tables: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return one tensor of Adagrad's sums of squares of all tables, whose views `optimizer` holds; None for SGD,
    which has no sums."""
    if "sum" not in optimizer.state.get(tables[0], {}):
        return None
    merged = join_tables([optimizer.state[table]["sum"] for table in tables])
    assert merged is not None, "the sums of merged tables are merged"
    return merged


def find_run_starts(ordered: torch.Tensor) -> torch.Tensor:
    """Return the start of each run of equal rows in the sorted row numbers `ordered` [n]: int64 [distinct rows]."""
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first.nonzero().squeeze(1)


def sort_rows(rows: torch.Tensor, num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort row numbers [n] below `num_rows` stably on a CPU, as torch.sort does; return the sorted rows and the
    permutation.

    Torch sorts 32,768 or more integers by radix sort, which is several times as fast as its sort for fewer. From a
    quarter of that number on, rows are therefore padded to 32,768; the padding comes last in the sorted order.
    """
    n = len(rows)
    if not _RADIX_FROM // 4 <= n < _RADIX_FROM or "fbgemm" not in torch.backends.quantized.supported_engines:
        return torch.sort(rows, stable=True)
    filled = rows.new_full((_RADIX_FROM,), num_rows)
    filled[:n] = rows
    ordered, order = torch.sort(filled, stable=True)
    return ordered[:n], order[:n]


def choose_row_type(num_rows: int) -> torch.dtype:
    """Return the integer type of row numbers in a merged weight of `num_rows` rows: int32, which sorts in half the
    time, if the numbers fit; else int64."""
    return torch.int32 if num_rows <= _MAX_INT32 else torch.int64


class MergedEmbedding:
    """Embedding bags of all tables, read from, and updated in, the merged `weight` [sum(rows), d] of all tables.

    The shape of `accumulator`, the sums of squared gradients, sets the optimizer: [sum(rows), d] for Adagrad,
    [sum(rows), 1] for row-wise Adagrad, None for SGD. With `has_kernels`, `update_static` calls the operator of
    `reference_models.fused.sorted_update`. With `cpu_kernels`, `read` and `update` call compiled functions if d is
    one of the functions' widths and row numbers are int32. `row_type` is the integer type of row numbers, by default
    that of `choose_row_type`.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        accumulator: torch.Tensor | None,
        num_embeddings: Sequence[int],
        multi_hot: Sequence[int],
        *,
        has_kernels: bool = False,
        cpu_kernels: CPUKernels | None = None,
        row_type: torch.dtype | None = None,
    ) -> None:
        self.weight, self._accumulator, self._has_kernels = weight, accumulator, has_kernels
        device = weight.device
        rows, hot = torch.tensor(num_embeddings), torch.tensor(multi_hot)
        self._num_features = 1 + len(multi_hot)
        self._row_type = row_type or choose_row_type(len(weight))
        is_compiled = self._row_type == torch.int32 and weight.shape[1] in WIDTHS
        self._cpu_kernels = cpu_kernels if is_compiled else None
        shifts = rows.cumsum(0) - rows
        self._shifts = shifts.repeat_interleave(hot, output_size=sum(multi_hot)).to(device)
        # Bags of one sample: an empty one, which leaves room for the dense vector, then one per sparse feature.
        self._bag_starts = torch.cat([torch.zeros(1, dtype=torch.int64), hot.cumsum(0) - hot]).to(device)
        limits = torch.cat([self._bag_starts, hot.sum(0, keepdim=True).to(device)])
        self._bag_limits = limits.to(torch.int32)
        self._layout = TableLayout(
            self._bag_limits, shifts, rows, self._shifts, rows.repeat_interleave(hot, output_size=sum(multi_hot))
        )
        self._bag_of_lookup = (
            torch.arange(1, self._num_features, dtype=torch.int32)
            .repeat_interleave(hot, output_size=sum(multi_hot))
            .to(device)
        )

    def plan(self, num_samples: int) -> "LookupPlan":
        """Return the tensors that reading and updating tables need, and that depend only on the batch size."""
        samples = torch.arange(num_samples, device=self.weight.device).unsqueeze(1)
        if self._cpu_kernels is not None:
            num_lookups = num_samples * len(self._shifts)
            return LookupPlan(scratch=torch.empty(5, num_lookups, dtype=torch.int32))
        bags = None if self._has_kernels else (samples * self._num_features + self._bag_of_lookup).flatten()
        return LookupPlan(
            starts=(samples * len(self._shifts) + self._bag_starts).flatten().to(self._row_type),
            bags=bags,
        )

    def merge_ids(self, indices: torch.Tensor) -> torch.Tensor:
        """Return the row numbers, in the merged weight of all tables, of the ids `indices` [B, H]: [B * H]. With
        compiled functions, which find the rows themselves, the ids are returned as int64 [B, H]."""
        if self._cpu_kernels is not None:
            return indices.to(torch.int64).contiguous()
        rows = torch.empty(indices.shape, dtype=self._row_type, device=indices.device)
        return torch.add(indices, self._shifts, out=rows).flatten()

    def read(self, rows: torch.Tensor, plan: "LookupPlan", dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the sums of bags of table rows, [B, 1 + num_sparse, d]. Feature 0 is zero: the dense vector is
        written there later. The sums have type `dtype`, by default the weights' type."""
        dtype = dtype or self.weight.dtype
        if self._has_kernels:
            return read_bags(rows, self._bag_limits, self.weight, len(rows) // len(self._shifts), dtype)
        if self._cpu_kernels is not None:
            return self._cpu_kernels.read(rows, self._layout, self.weight).to(dtype)
        assert plan.starts is not None, "there for all but compiled passes"
        pooled = torch.embedding_bag(self.weight, rows, plan.starts, mode=_SUM)[0]
        return pooled.view(-1, self._num_features, self.weight.shape[1]).to(dtype)

    def update(self, rows: torch.Tensor, plan: "LookupPlan", gradients: torch.Tensor, lr: float, eps: float) -> None:
        """Update the tables once by `gradients` [B, 1 + num_sparse, d] of the sums of bags that `read` returned."""
        if self._cpu_kernels is not None:
            assert plan.scratch is not None, "there for compiled passes"
            ordered = self._cpu_kernels.sort(rows, self._layout, plan.scratch)
            self._cpu_kernels.update(ordered, gradients.contiguous(), self.weight, self._accumulator, lr, eps)
            return
        assert plan.bags is not None, "kernels update in tensors of fixed shapes"
        ordered, order = sort_rows(rows, len(self.weight))
        starts = find_run_starts(ordered)
        bags, touched = plan.bags.index_select(0, order), ordered.index_select(0, starts).long()
        # Piece by piece, so that a row's gradient is still in the cache when the row is updated.
        num_rows = max(1, _CACHED // self.weight.shape[1])
        edges = [*starts[::num_rows].tolist(), len(bags)]
        pieces = zip(pairwise(edges), torch.split(starts, num_rows), torch.split(touched, num_rows), strict=True)
        for (start, stop), starts_here, touched_here in pieces:
            gradient = self._sum_duplicates(gradients, bags[start:stop], starts_here - start)
            self._apply(touched_here, gradient, lr, eps)

    def update_static(
        self, rows: torch.Tensor, plan: "LookupPlan", gradients: torch.Tensor, lr: torch.Tensor, eps: float
    ) -> None:
        """Update the tables as `update` does, in tensors whose shapes do not depend on the ids, as CUDA graphs
        require.

        There are as many sums of gradients as lookups, although fewer rows may be touched. The sums beyond the number
        of touched rows are zero, and adding them changes nothing. Triton's kernels, where they are used, compute only
        the sums of touched rows. `gradients` may be of a narrower type than the tables.
        """
        ordered, order = torch.sort(rows, stable=True)
        if self._has_kernels:
            update_sorted(
                ordered, order, self._bag_of_lookup, gradients.contiguous(), self.weight, self._accumulator, lr, eps
            )
            return
        assert plan.bags is not None, "there for all but kernels"
        gradients = gradients.to(self.weight.dtype)
        changes = torch.zeros_like(ordered)
        torch.ne(ordered[1:], ordered[:-1], out=changes[1:])
        places = torch.arange(len(rows), device=rows.device)
        starts = torch.searchsorted(changes.cumsum(0), places)
        touched = ordered[torch.where(starts < len(rows), starts, places)]
        gradient = self._sum_duplicates(gradients, plan.bags[order], starts)
        if self._accumulator is not None:
            squares = gradient * gradient
            if self._accumulator.shape[1] < gradient.shape[1]:
                squares = squares.mean(1, keepdim=True)
            self._accumulator.index_add_(0, touched, squares)
            gradient = gradient / self._accumulator.index_select(0, touched).sqrt_().add_(eps)
        self.weight.index_add_(0, touched, gradient * -lr)

    def _sum_duplicates(self, gradients: torch.Tensor, bags: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Return the sum of the gradients of each table row that a batch looks up, [len(starts), d]. Lookups are
        sorted by row: those of row j begin at lookup `starts[j]`. Sorted lookup i has the gradient of bag
        `bags[i]`."""
        return torch.embedding_bag(gradients.view(-1, self.weight.shape[1]), bags, starts, mode=_SUM)[0]

    def _apply(self, touched: torch.Tensor, gradient: torch.Tensor, lr: float, eps: float) -> None:
        """Update each of the n table rows `touched` once by its summed `gradient` [n, d], which is overwritten."""
        if self._accumulator is not None and self._accumulator.shape[1] < gradient.shape[1]:
            sums = self._accumulator.squeeze(1)  # numbers are found faster than rows of one
            norm = torch.linalg.vector_norm(gradient, dim=1)
            total = sums.index_select(0, touched).addcmul_(norm, norm, value=1 / gradient.shape[1])
            sums.index_copy_(0, touched, total)
            gradient.div_(total.sqrt_().add_(eps).unsqueeze(1))
        elif self._accumulator is not None:
            total = self._accumulator.index_select(0, touched).addcmul_(gradient, gradient)
            self._accumulator.index_copy_(0, touched, total)
            gradient.div_(total.sqrt_().add_(eps))
        self.weight.index_copy_(0, touched, self.weight.index_select(0, touched).sub_(gradient, alpha=lr))


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """Tensors for reading and updating tables with one batch size: the start of each bag's lookups, and the bag of
    each lookup. None where kernels or compiled functions compute them themselves."""

    starts: torch.Tensor | None = None
    bags: torch.Tensor | None = None
    scratch: torch.Tensor | None = None
    """Memory in which compiled functions sort lookups, int32 [5, lookups]; None without compiled functions."""


_MAX_INT32 = 2**31 - 1
_RADIX_FROM = 32_768
"""Least number of integers that torch sorts by FBGEMM's radix sort: at::internal::GRAIN_SIZE in ATen's
SortingKernel.cpp."""
_CACHED = 1 << 18
"""Maximum number of elements of a gradient that torch's operators update at a time (a piece), so that a piece stays
in a core's cache. An update of the whole gradient at once takes as long at a row width of 16. At a width of 128 it
takes 1.5 times as long, which is about 1 % of DCNv2's step (AMD EPYC, family 25 model 1). Compiled functions need no
pieces."""
_SUM = 0
"""Value of torch.embedding_bag's argument `mode` for "sum"."""
