"""Triton's kernels under its interpreter, in a process of its own: TRITON_INTERPRET=1 holds for all of a process.

`python interpreted_kernels.py update|bytes|example` prints a JSON list, for tests of the kernels.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

from reference_models.fused import sorted_update
from reference_models.fused.kernel_check import example_distance
from reference_models.fused.merged_embedding import MergedEmbedding

TABLES, MULTI_HOT = (40, 1, 7, 3), (1, 1, 5, 2)
STATES = {"sgd": lambda dim: 0, "rowwise_adagrad": lambda dim: 1, "adagrad": lambda dim: dim}


class Traffic:
    """Bytes that kernels load and store."""

    def __init__(self) -> None:
        self.num_bytes = 0


@contextmanager
def counting() -> Iterator[Traffic]:
    """Count what the interpreter's kernels load and store while inside; what is masked is neither."""
    traffic, builder = Traffic(), interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def counted_load(self: Any, ptrs: Any, mask: Any, *others: Any, **options: Any) -> Any:
        loaded = load(self, ptrs, mask, *others, **options)
        traffic.num_bytes += int(np.count_nonzero(mask.data)) * ptrs.get_element_ty().primitive_bitwidth // 8
        return loaded

    def counted_store(self: Any, ptrs: Any, value: Any, mask: Any, *others: Any, **options: Any) -> Any:
        traffic.num_bytes += int(np.count_nonzero(mask.data)) * ptrs.get_element_ty().primitive_bitwidth // 8
        return store(self, ptrs, value, mask, *others, **options)

    builder.create_masked_load, builder.create_masked_store = counted_load, counted_store
    try:
        yield traffic
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store


def case(optimizer: str, dim: int, seed: int, batch: int = 13) -> tuple[MergedEmbedding, MergedEmbedding, Any]:
    """Two embeddings of the same numbers, by kernels and plain, and a generator for what they are updated by."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(sum(TABLES), dim, generator=generator)
    size = STATES[optimizer](dim)
    state = torch.rand(sum(TABLES), size, generator=generator) if size else None
    kernels = MergedEmbedding(
        weight.clone(), None if state is None else state.clone(), TABLES, MULTI_HOT, has_kernels=True
    )
    return kernels, MergedEmbedding(weight, state, TABLES, MULTI_HOT), generator


def draw(generator: torch.Generator, batch: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    limits = torch.tensor(TABLES).repeat_interleave(torch.tensor(MULTI_HOT))
    indices = (torch.rand(batch, len(limits), generator=generator) * limits).long()
    return indices, torch.randn(batch, 1 + len(TABLES), dim, generator=generator)


def distance(first: torch.Tensor | None, second: torch.Tensor | None) -> float:
    """The largest difference, relative to numbers above one."""
    return (
        0.0 if first is None or second is None else float(((first - second) / second.abs().clamp(min=1)).abs().max())
    )


def hold_to_plain_form() -> Iterator[dict[str, Any]]:
    """Three steps of each case by both forms; the second half of the cases has keys of 64 bits."""
    for optimizer, (dim, block) in product(STATES, ((16, 1), (16, 2), (6, 4), (6, 64), (6, 4096))):
        sorted_update.BLOCK = block
        kernels, plain, generator = case(optimizer, dim, seed=block)
        again, _, _ = case(optimizer, dim, seed=block)
        worst = 0.0
        for step in range(3):
            indices, gradients = draw(generator, 13, dim)
            key = torch.int64 if block in (2, 64) else torch.int32
            narrow = gradients.bfloat16() if step == 2 else gradients
            rate = torch.tensor(0.05 / (step + 1))
            for embedding, by in ((kernels, narrow), (again, narrow), (plain, narrow.float())):
                rows = embedding.merge_ids(indices).to(key)
                embedding.update_static(rows, embedding.plan(13), by, rate, 1e-8)
            worst = max(
                worst, distance(kernels.weight, plain.weight), distance(kernels._accumulator, plain._accumulator)
            )
        repeats = torch.equal(kernels.weight, again.weight)
        yield {"case": f"{optimizer}, d {dim}, block {block}", "distance": worst, "repeats": repeats}


def hold_to_formula() -> Iterator[dict[str, Any]]:
    """What the kernels load and store, counted, beside the formula."""
    for optimizer, block, pieces, narrow in product(STATES, (2, 64), (2, 16), (False, True)):
        sorted_update.BLOCK, sorted_update.PIECES = block, pieces
        kernels, _, generator = case(optimizer, 6, seed=7)
        indices, gradients = draw(generator, 24, 6)
        gradients = gradients.bfloat16() if narrow else gradients
        rows = kernels.merge_ids(indices)
        with counting() as traffic:
            kernels.update_static(rows, kernels.plan(24), gradients, torch.tensor(0.1), 1e-8)
        stated = sorted_update.update_bytes(
            sorted_update.find_runs(rows.sort()[0]), 6, key_bytes=rows.element_size(),
            gradient_bytes=gradients.element_size(), state_size=STATES[optimizer](6),
        )  # fmt: skip
        name = f"{optimizer}, block {block}, {pieces} pieces, {gradients.dtype}"
        yield {"case": name, "counted": traffic.num_bytes, "stated": stated}


def check_example() -> Iterator[dict[str, Any]]:
    """The example by which a device's kernels are accepted, at the widths of the shipped definitions."""
    for optimizer, dtype in product(STATES, (torch.float32, torch.bfloat16)):
        found = example_distance(torch.device("cpu"), 16, STATES[optimizer](16), dtype)
        yield {"case": f"{optimizer}, {dtype}", "distance": found}


if __name__ == "__main__":
    WORK = {"update": hold_to_plain_form, "bytes": hold_to_formula, "example": check_example}
    json.dump(list(WORK[sys.argv[1]]()), sys.stdout)
