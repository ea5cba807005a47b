"""Update of all embedding tables by one operator over sorted lookups, without atomics and without a gradient per
lookup.

`torch.ops.dlrmbench.update_sorted` adds each row's gradients in the batch's order and updates the row once, by SGD,
Adagrad or row-wise Adagrad. It launches Triton kernels (`reference_models.fused.triton_update`). Where they cannot
run, `MergedEmbedding.update_static` does the same by torch's operators. The kernels are checked against its results.
"""

import torch

from reference_models.fused.kernel_sizes import KernelSizes, choose_sizes, count_multiprocessors

_MAX_LOOKUPS = 1 << 30
"""Maximum number of lookups of a batch, so that all indices that the kernels compute fit 32 bits."""


def _launch(
    ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor, weight: torch.Tensor,
    state: torch.Tensor | None, edges: torch.Tensor, rate: torch.Tensor, eps: float, block: int, pieces: int,
) -> None:  # fmt: skip
    _check(ordered, order, bags, gradients, weight, state, edges, rate, eps, block, pieces)
    from reference_models.fused.triton_update import launch

    launch(ordered, order, bags, gradients, weight, state, edges, rate, eps, block=block, pieces=pieces)


def _check(
    ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor, weight: torch.Tensor,
    state: torch.Tensor | None, edges: torch.Tensor, rate: torch.Tensor, eps: float, block: int, pieces: int,
) -> None:  # fmt: skip
    """Raise ValueError for shapes or types that the kernels of the table update do not support.

    For fake tensors (shapes without data) the operator does this check and nothing else.
    """
    num_lookups, dim = len(ordered), weight.shape[1]
    num_samples = len(gradients)
    expected = (
        ("ordered", ordered, (num_samples * len(bags),), (torch.int32, torch.int64)),
        ("order", order, (num_lookups,), (torch.int64,)),
        ("bags", bags, (len(bags),), (torch.int32,)),
        ("gradients", gradients, (num_samples, gradients.shape[1], dim), (torch.float32, torch.bfloat16)),
        ("weight", weight, (len(weight), dim), (torch.float32,)),
        ("edges", edges, (num_edges(num_lookups, block), dim), (torch.float32,)),
        ("rate", rate, (), (torch.float32,)),
        *([] if state is None else [("state", state, (len(weight), state.shape[1]), (torch.float32,))]),
    )
    for name, tensor, shape, types in expected:
        if tensor.shape != shape or tensor.dtype not in types or not tensor.is_contiguous():
            raise ValueError(
                f"update_sorted: {name} is {tensor.dtype} {list(tensor.shape)}, strides {tensor.stride()}; expected "
                f"{' or '.join(map(str, types))} {list(shape)} without gaps."
            )
    if state is not None and state.shape[1] not in (1, dim):
        raise ValueError(f"update_sorted: state has {state.shape[1]} sums per row, expected 1 or {dim}.")
    if not 0 < num_lookups <= _MAX_LOOKUPS:
        raise ValueError(f"update_sorted: {num_lookups} lookups, expected 1 to {_MAX_LOOKUPS}.")


_LIBRARY = torch.library.Library("dlrmbench", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "update_sorted(Tensor ordered, Tensor order, Tensor bags, Tensor gradients, Tensor(a!) weight, "
    "Tensor(b!)? state, Tensor(c!) edges, Tensor rate, float eps, int block, int pieces) -> ()"
)
_LIBRARY.impl("update_sorted", _launch, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("dlrmbench::update_sorted", _check, lib=_LIBRARY)


def update_sorted(
    ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor, weight: torch.Tensor,
    state: torch.Tensor | None, rate: torch.Tensor, eps: float, sizes: KernelSizes | None = None,
) -> None:  # fmt: skip
    """Update all tables in place by the gradients of a batch: `weight` float32 [R, d] and the optimizer's `state`
    ([R, d] for Adagrad, [R, 1] for row-wise Adagrad, None for SGD).

    - `ordered` [B * H], int32 or int64: the table rows that B samples with H lookups each look up, sorted stably.
    - `order` [B * H], int64: the permutation that torch.sort returned.
    - `bags` [H], int32: the bag of each lookup of a sample.
    - `gradients` [B, bags of a sample, d], float32 or bfloat16: the gradients of the bags' sums.
    - `rate`: the learning rate, a float32 number in a tensor.
    - `sizes`: block sizes of the kernels; if None, those that `choose_sizes` returns.

    Raises ValueError for other shapes and types.
    """
    if sizes is None:
        sizes = choose_sizes(num_lookups=len(ordered), num_multiprocessors=count_multiprocessors(weight.device))
    edges = weight.new_empty(num_edges(len(ordered), sizes.block), weight.shape[1])
    torch.ops.dlrmbench.update_sorted(
        ordered, order, bags, gradients, weight, state, edges, rate, eps, sizes.block, sizes.pieces
    )


def num_edges(num_lookups: int, block: int) -> int:
    """Return the maximum number of partial sums that blocks of `block` sorted lookups leave: one at each end of a
    block."""
    return 2 * -(-num_lookups // block)
