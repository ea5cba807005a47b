"""How many bytes the operators of a step read and write, whatever caches save of them; on fake tensors, too."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from kernel_bytes import Runs, cross_bytes, find_runs, read_bytes, update_bytes
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reference_models.data.synthetic.config import ZIPF_EXPONENT
from reference_models.data.synthetic.dataset import zipf_ranks
from reference_models.fused.kernel_sizes import choose_sizes

BEFORE = {"fp32": 195_256_984_308, "bf16": 189_885_886_716}
"""Bytes by this count of the step of commit 5f93909, which its defects slowed: dlrm_dcnv2, row-wise Adagrad, batch
65,536, by what was then `reference_models.dlrm.captured_step.StepOnTensors.train` on fake tensors."""
OVERWRITING = {"aten::copy_", "aten::zero_", "aten::fill_"}
FREE = {"aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"}


class Traffic(TorchDispatchMode):
    """Bytes by operator. An operand counts once, as large as it is, and what is written in place counts twice.

    Rows that are gathered or scattered count as they are asked for, not as the table that they are in. A sort is
    a radix sort of 8 bits a pass, which reads and writes keys and places of 8 bytes. Triton's operators count by
    their own formulas, the update by `runs` of its ids.
    """

    def __init__(self, runs: Runs | None = None) -> None:
        super().__init__()
        self.by_operator: Counter[str] = Counter()
        self._runs = runs

    @property
    def num_bytes(self) -> int:
        return sum(self.by_operator.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name
        if not func.is_view and name not in FREE and not name.startswith("prim::"):
            named = {entry.name: value for entry, value in zip(func._schema.arguments, args, strict=False)}
            named |= kwargs or {}
            special = SPECIAL.get(name)
            moved = generic_bytes(func, named, out) if special is None else special(named, out, self._runs)
            self.by_operator[name] += moved
        return out


def size(value: Any) -> int:
    """Bytes of a tensor, or of all in a list; what is only expanded is not there."""
    return sum(
        tensor.element_size()
        * math.prod(n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
        for tensor in tree_leaves(value)
        if isinstance(tensor, torch.Tensor)
    )


def generic_bytes(func: Any, named: dict[str, Any], out: Any) -> int:
    moved, is_inplace = 0, False
    for argument in func._schema.arguments:
        value = named.get(argument.name)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        is_inplace |= is_written
        is_read = not is_written or (not argument.kwarg_only and func._schema.name not in OVERWRITING)
        moved += size(value) * (is_read + is_written)
    return moved if is_inplace else moved + size(out)


def rows_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    """Of gathering: the rows that are asked for and the result, which is as large, and the indices."""
    return 2 * size(out) + size(named.get("index", named.get("indices")))


def bags_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    weight, indices = named["weight"], named["indices"]
    gathered = indices.numel() * weight.shape[1] * weight.element_size()
    return gathered + size(indices) + size(named["offsets"]) + size(out[0])


def add_rows_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    return size(named["index"]) + 3 * size(named["source"])


def sort_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    keys = named["self"]
    return keys.numel() * (keys.element_size() + 2 * keys.element_size() * (keys.element_size() + 8))


def update_sorted_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    assert runs is not None and runs.num_lookups == len(named["ordered"]), "the update counts by its ids"
    assert runs.block == named["block"], "and by the blocks that cut their runs"
    state = named["state"]
    return update_bytes(
        runs,
        named["weight"].shape[1],
        key_bytes=named["ordered"].element_size(),
        gradient_bytes=named["gradients"].element_size(),
        state_size=0 if state is None else state.shape[1],
        pieces=named["pieces"],
    )


def read_bags_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    rows, to = named["rows"], named["out"]
    return read_bytes(
        len(to), to.shape[1], len(rows), to.shape[2], key_bytes=rows.element_size(), out_bytes=to.element_size()
    )


def cross_gradients_bytes(named: dict[str, Any], out: Any, runs: Runs | None) -> int:
    dy, samples = named["dy"], named["samples"]
    return cross_bytes(*dy.shape, dy.element_size(), adds=named["adds"], samples=samples)


SPECIAL: dict[str, Callable[[dict[str, Any], Any, Runs | None], int]] = {
    "aten::index_select": rows_bytes,
    "aten::index": rows_bytes,
    "aten::embedding_bag": bags_bytes,
    "aten::_embedding_bag": bags_bytes,
    "aten::_embedding_bag_forward_only": bags_bytes,
    "aten::index_add_": add_rows_bytes,
    "aten::sort": sort_bytes,
    "dlrmbench::update_sorted": update_sorted_bytes,
    "dlrmbench::read_bags": read_bags_bytes,
    "dlrmbench::cross_gradients": cross_gradients_bytes,
}


def draw_runs(
    num_embeddings: Sequence[int], multi_hot: Sequence[int], batch_size: int, block: int | None = None
) -> Runs:
    """Draw a batch's ids as synthetic data does, sort them, and find their runs.

    `block` is by default that of so many lookups.
    """
    generator = np.random.default_rng(0)
    shifts = np.cumsum(num_embeddings) - num_embeddings
    columns = [
        zipf_ranks(generator.random((batch_size, hot)), rows, ZIPF_EXPONENT) + shift
        for rows, hot, shift in zip(num_embeddings, multi_hot, shifts, strict=True)
    ]
    ordered = torch.from_numpy(np.concatenate(columns, axis=1).ravel()).to(torch.int32).sort()[0]
    return find_runs(ordered, block or choose_sizes(num_lookups=len(ordered)).block)


def times(runs: Runs, factor: int) -> Runs:
    """What a batch `factor` times as large has at most: its rows repeat more often, not less."""
    return Runs(runs.num_lookups * factor, runs.num_rows * factor, runs.block, runs.cut * factor)
