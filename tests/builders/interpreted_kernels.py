"""Triton's kernels under its interpreter, in a process of its own: TRITON_INTERPRET=1 holds for all of a process.

`python interpreted_kernels.py update|bytes|example|models|order` prints a JSON list, for tests of the kernels.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from kernel_bytes import cross_bytes, find_runs, read_bytes, update_bytes
from triton.runtime import interpreter

from reference_models.config.sections import parse_train
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import parse_model
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.fused import sorted_update
from reference_models.fused.dense_kernels import cross_gradients
from reference_models.fused.kernel_check import example_distance
from reference_models.fused.kernel_sizes import choose_sizes
from reference_models.fused.matmul import Matmuls
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.training.optimizers import build_optimizers

TABLES, MULTI_HOT = (40, 1, 7, 3), (1, 1, 5, 2)
STATES = {"sgd": lambda dim: 0, "rowwise_adagrad": lambda dim: 1, "adagrad": lambda dim: dim}


def read_arrays_of_one_number() -> None:
    """Let the interpreter of Triton before 3.7 have loop bounds: they are arrays, of which numpy 2.4 makes none."""
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, *others: Any) -> None:
        patch(tensor, *others)
        tensor.__index__ = lambda self: self.handle.data.item()

    interpreter._patch_lang_tensor = patched


class Traffic:
    """Bytes that kernels load and store, and in which order they do."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.order = ""


@contextmanager
def counting() -> Iterator[Traffic]:
    """Count what the interpreter's kernels load and store while inside; what is masked is neither."""
    traffic, builder = Traffic(), interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def counted_load(self: Any, ptrs: Any, mask: Any, *others: Any, **options: Any) -> Any:
        loaded = load(self, ptrs, mask, *others, **options)
        traffic.order += "L"
        traffic.num_bytes += int(np.count_nonzero(mask.data)) * ptrs.get_element_ty().primitive_bitwidth // 8
        return loaded

    def counted_store(self: Any, ptrs: Any, value: Any, mask: Any, *others: Any, **options: Any) -> Any:
        traffic.order += "S"
        traffic.num_bytes += int(np.count_nonzero(mask.data)) * ptrs.get_element_ty().primitive_bitwidth // 8
        return store(self, ptrs, value, mask, *others, **options)

    builder.create_masked_load, builder.create_masked_store = counted_load, counted_store
    try:
        yield traffic
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store


@contextmanager
def of_sizes(**sizes: int) -> Iterator[None]:
    """Let the update choose these sizes while inside."""
    choose = sorted_update.choose_sizes
    sorted_update.choose_sizes = lambda **given: replace(choose(**given), **sizes)
    try:
        yield
    finally:
        sorted_update.choose_sizes = choose


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
                with of_sizes(block=block):
                    embedding.update_static(rows, embedding.plan(13), by, rate, 1e-8)
            worst = max(
                worst, distance(kernels.weight, plain.weight), distance(kernels._accumulator, plain._accumulator)
            )
        repeats = torch.equal(kernels.weight, again.weight)
        yield {"case": f"{optimizer}, d {dim}, block {block}", "distance": worst, "repeats": repeats}


def hold_to_formula() -> Iterator[dict[str, Any]]:
    """What the kernels load and store, counted, beside the formula."""
    for optimizer, block, pieces, narrow in product(STATES, (2, 64), (2, 16), (False, True)):
        kernels, _, generator = case(optimizer, 6, seed=7)
        indices, gradients = draw(generator, 24, 6)
        gradients = gradients.bfloat16() if narrow else gradients
        rows = kernels.merge_ids(indices)
        with counting() as traffic, of_sizes(block=block, pieces=pieces):
            kernels.update_static(rows, kernels.plan(24), gradients, torch.tensor(0.1), 1e-8)
        stated = update_bytes(
            find_runs(rows.sort()[0], block),
            6,
            key_bytes=rows.element_size(),
            gradient_bytes=gradients.element_size(),
            state_size=STATES[optimizer](6),
            pieces=pieces,
        )
        name = f"{optimizer}, block {block}, {pieces} pieces, {gradients.dtype}"
        yield {"case": name, "counted": traffic.num_bytes, "stated": stated}


def hold_others_to_formulas() -> Iterator[dict[str, Any]]:
    """Reading bags, the empty one among them, and differentiating a cross layer of parts that are not whole."""
    for dtype in (torch.float32, torch.bfloat16):
        embedding, _, generator = case("sgd", 6, seed=7)
        rows, plan = embedding.merge_ids(draw(generator, 24, 6)[0]), embedding.plan(24)
        with counting() as traffic:
            embedding.read(rows, plan, dtype)
        stated = read_bytes(24, 5, len(rows), 6, key_bytes=4, out_bytes=dtype.itemsize)
        yield {"case": f"read, {dtype}", "counted": traffic.num_bytes, "stated": stated}
        for adds in (True, False):
            operands = [torch.randn(20, 300).to(dtype) for _ in range(4)]
            with counting() as traffic:
                cross_gradients(*operands, adds=adds, sizes=replace(choose_sizes(), samples=8))
            stated = cross_bytes(20, 300, dtype.itemsize, adds=adds, samples=8)
            yield {"case": f"cross, {dtype}, adds {adds}", "counted": traffic.num_bytes, "stated": stated}


def note_order() -> Iterator[dict[str, Any]]:
    """The loads (L) and stores (S) of one program that updates one row, and of one that reads two samples."""
    for optimizer in STATES:
        kernels, _, generator = case(optimizer, 6, seed=7)
        rows, bags = torch.tensor([3], dtype=torch.int32), torch.tensor([0], dtype=torch.int32)
        gradients = torch.randn(1, 1, 6, generator=generator)
        with counting() as traffic:
            sorted_update.update_sorted(
                rows, rows.long() * 0, bags, gradients, kernels.weight, kernels._accumulator, torch.tensor(0.1), 1e-8
            )
        yield {"case": optimizer, "order": traffic.order}
    with counting() as traffic:
        cross_gradients(*[torch.randn(2, 8) for _ in range(4)], adds=True, sizes=replace(choose_sizes(), samples=2))
    yield {"case": "cross", "order": traffic.order}


def train_models() -> Iterator[dict[str, Any]]:
    """Steps of whole models by kernels and by torch's operators, from one seed."""
    layers = {"embedding_dim": 4, "bottom_mlp": [8, 4], "top_mlp": [16, 1]}
    dcn = {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3}
    for optimizer, (name, interaction), dtype in product(
        STATES, (("dot", {"interaction": "dot"}), ("dcn", dcn)), (None, torch.bfloat16)
    ):
        # Sums that begin at zero would make a step of any gradient, that of a rounding's sign among them.
        sums = {} if optimizer == "sgd" else {"opt_adagrad_initial_accumulator_value": 1.0}
        train = parse_train({"global_batch_size": 16, "opt_name": optimizer, "opt_base_learning_rate": 0.01} | sums)
        ends = []
        for has_kernels in (True, False):
            torch.manual_seed(1)
            config = parse_model(layers | interaction)
            model = FusedDLRM(config, num_dense=4, num_embeddings=TABLES, multi_hot=MULTI_HOT)
            optimizers = build_optimizers(
                train, embedding_parameters=model.embedding_parameters(), dense_parameters=model.dense_parameters()
            )
            model.fuse(optimizers, Matmuls(dtype=dtype, keeps_results=False, has_kernels=has_kernels))
            generator = torch.Generator().manual_seed(2)
            for _ in range(3):
                batch = Batch(
                    torch.randn(16, 4, generator=generator),
                    draw(generator, 16, 4)[0],
                    torch.randint(0, 2, (16,), generator=generator).float(),
                )
                model.train_on_tensors(batch, torch.tensor([0.01, 0.01]))
            ends.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
        yield {"case": f"{name}, {optimizer}, {dtype}", "narrow": dtype is not None, "distance": distance(*ends)}


def check_example() -> Iterator[dict[str, Any]]:
    """The example by which a device's kernels are accepted, at the widths of the shipped definitions."""
    for optimizer, dtype in product(STATES, (torch.float32, torch.bfloat16)):
        found = example_distance(torch.device("cpu"), 16, STATES[optimizer](16), dtype)
        yield {"case": f"{optimizer}, {dtype}", "distance": found}


if __name__ == "__main__":
    read_arrays_of_one_number()
    WORK = {
        "update": hold_to_plain_form,
        "bytes": lambda: [*hold_to_formula(), *hold_others_to_formulas()],
        "example": check_example,
        "models": train_models,
        "order": note_order,
    }
    json.dump(list(WORK[sys.argv[1]]()), sys.stdout)
