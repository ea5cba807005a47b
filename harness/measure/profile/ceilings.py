"""What this system can do at best, as measured beside the step that is held against it (no torch)."""

from collections.abc import Mapping
from dataclasses import dataclass

from reference_models.costs.phases import Matmul


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Something per second over repetitions of one operation. The ceiling is `best`; `median` tells its spread."""

    best: float
    median: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MatmulCeiling:
    """FLOP/s of `num` products [m, k] x [k, n] in the fastest of several memory layouts."""

    num: int
    m: int
    k: int
    n: int
    layout: str
    flop_per_s: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyCeiling:
    """Bytes per second, read and written together, of copying between two buffers that are `bytes` together."""

    bytes: int
    bytes_per_s: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class GatherCeiling:
    """Rows per second of `row_bytes` each, fetched at random from a table of `table_rows`."""

    ids: str
    method: str
    table_rows: int
    row_bytes: int
    rows_per_s: Rate

    @property
    def bytes_per_s(self) -> float:
        return self.rows_per_s.best * self.row_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferCeiling:
    """Bytes per second of pinned copies between host and device."""

    bytes: int
    to_device_bytes_per_s: Rate
    to_host_bytes_per_s: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceilings:
    """All ceilings of one profile. `copies` grow in size, from inside the caches to memory."""

    matmul: Mapping[tuple[int, int, int, int], MatmulCeiling]
    """By `Matmul.shape`: the model's own products."""
    square: tuple[MatmulCeiling, ...]
    """Large square products, where matrix multiplication is fastest."""
    copies: tuple[CopyCeiling, ...]
    random_rows: GatherCeiling
    """Ids drawn uniformly from all tables."""
    batch_rows: GatherCeiling
    """The ids of real batches: popular rows stay in the caches."""
    transfer: TransferCeiling | None
    """None where there is no device beside the host."""

    @property
    def best_matmul(self) -> MatmulCeiling:
        return max((*self.matmul.values(), *self.square), key=lambda one: one.flop_per_s.best)

    @property
    def memory_bytes_per_s(self) -> float:
        """Of copying between the largest buffers, which no cache holds."""
        return self.copies[-1].bytes_per_s.best

    @property
    def ridge_flop_per_byte(self) -> float:
        """Work of fewer FLOP per byte is bound by memory, of more by matrix multiplication."""
        return self.best_matmul.flop_per_s.best / self.memory_bytes_per_s

    def matmul_s(self, product: Matmul, *, at_median: bool = False) -> float:
        """Seconds of one product in the fastest layout that was found for its shape."""
        rate = self.matmul[product.shape].flop_per_s
        return product.flop / (rate.median if at_median else rate.best)

    def move_s(self, num_bytes: float) -> float:
        """Seconds to move so many bytes, at the best rate of any measured size that is not smaller."""
        large_enough = [one for one in self.copies if one.bytes >= num_bytes] or [self.copies[-1]]
        return num_bytes / max(one.bytes_per_s.best for one in large_enough)

    def gather_s(self, rows: float) -> float:
        """Seconds to fetch so many rows by ids as the batches have them."""
        return rows / self.batch_rows.rows_per_s.best
