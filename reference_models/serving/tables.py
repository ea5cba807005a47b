"""Embedding tables for serving, forward pass only, in the precisions in which inference stores rows.

- fp32, fp16: rows as numbers of that type. Rows in fp16 are summed in float32, and the sum is rounded to fp16.
- int8, int4: each number of a row as a code, 0 to 255 or 0 to 15, in equal steps from the row's least value to its
  largest. The step and the least value are stored with the codes: in float32 for int8, in fp16 for int4. These are
  FBGEMM's row formats, which torch's own operators read; sums are float32.

All tables are one block of rows, read by one call. The call reads the bags of all samples table by table, so that a
table that fits into a cache stays there. For 165 samples of 32 tables with 120 ids each, this took 4.2 ms on one
thread of a Xeon with AMX. Reading sample by sample took 11.5 ms, an `nn.EmbeddingBag` per table 5.7 ms. For one
sample, this took 0.066 ms, and an `nn.EmbeddingBag` per table 0.45 ms.
"""

from collections.abc import Sequence

import torch

_MAX_INT32 = 2**31 - 1
_MAX_PLANS = 64
_SUM = 0
"""Value of torch.embedding_bag's argument `mode` for "sum"."""


class ServedTables:
    """Embedding tables for serving, stored in `precision`: sums of bags of rows of `weight` float32
    [sum(num_embeddings), d]."""

    def __init__(
        self, weight: torch.Tensor, num_embeddings: Sequence[int], multi_hot: Sequence[int], precision: str
    ) -> None:
        self.rows = pack_rows(weight, precision)
        self._precision, self._dim = precision, weight.shape[1]
        self._multi_hot = tuple(multi_hot)
        self._device = weight.device
        fits = len(weight) <= _MAX_INT32 and self._device.type == "cpu"
        self._row_type = torch.int32 if fits else torch.int64
        sizes = torch.tensor(num_embeddings)
        self._shifts = (sizes.cumsum(0) - sizes).to(self._device, self._row_type)
        self._plans: dict[int, torch.Tensor] = {}

    def read(self, indices: torch.Tensor) -> torch.Tensor:
        """Return the sums of embedding rows [num_tables, B, d] of ids int64 [B, sum(multi_hot)]: in fp16 where rows
        are stored in fp16, else in float32."""
        rows, starts = self._merge_ids(indices), self._starts(len(indices))
        if self._precision == "int8":
            pooled = torch.ops.quantized.embedding_bag_byte_rowwise_offsets(self.rows, rows, starts)
        elif self._precision == "int4":
            pooled = torch.ops.quantized.embedding_bag_4bit_rowwise_offsets(self.rows, rows, starts)[:, : self._dim]
        else:
            pooled = torch.embedding_bag(self.rows, rows, starts, mode=_SUM)[0]
        sums: torch.Tensor = pooled.reshape(len(self._multi_hot), len(indices), self._dim)
        return sums

    def _merge_ids(self, indices: torch.Tensor) -> torch.Tensor:
        """Return the row numbers that ids have in one block of all tables' rows. They are ordered by table, then
        sample, then id."""
        num_samples, num_ids = indices.shape
        rows = torch.empty(indices.numel(), dtype=self._row_type, device=self._device)
        if len(set(self._multi_hot)) == 1:
            hot = self._multi_hot[0]
            by_table = indices.view(num_samples, num_ids // hot, hot).transpose(0, 1)
            rows.view(-1, num_samples, hot).copy_(by_table).add_(self._shifts.view(-1, 1, 1))
            return rows
        sizes = [num_samples * hot for hot in self._multi_hot]
        columns = torch.split(indices, list(self._multi_hot), dim=1)
        for ids, shift, place in zip(columns, self._shifts, torch.split(rows, sizes), strict=True):
            place.view(ids.shape).copy_(ids).add_(shift)
        return rows

    def _starts(self, num_samples: int) -> torch.Tensor:
        """Return the index at which each bag's ids begin among all ids. The result is cached, since it depends only
        on the number of samples."""
        starts = self._plans.get(num_samples)
        if starts is None:
            lengths = torch.tensor(self._multi_hot).repeat_interleave(num_samples)
            starts = (lengths.cumsum(0) - lengths).to(self._device, self._row_type)
            if len(self._plans) < _MAX_PLANS:
                self._plans[num_samples] = starts
        return starts


def pack_rows(weight: torch.Tensor, precision: str) -> torch.Tensor:
    """Return embedding rows as stored in `precision`: float32 or fp16 [rows, d], or uint8 [rows, row_bytes]."""
    packed: torch.Tensor = weight.half() if precision == "fp16" else weight
    if precision == "int8":
        packed = torch.ops.quantized.embedding_bag_byte_prepack(weight)
    if precision == "int4":
        # Two codes share a byte; an odd row is padded by a value of its own, which does not change its range.
        even = torch.cat([weight, weight[:, -1:]], dim=1) if weight.shape[1] % 2 else weight
        packed = torch.ops.quantized.embedding_bag_4bit_prepack(even)
    return packed
