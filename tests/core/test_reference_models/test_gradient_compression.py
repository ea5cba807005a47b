"""Top-k sparsification with error feedback: nothing is lost, and what is sent is the largest."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference_models.distributed.gradient_compression import TopK, register_gradient_compression

pytestmark = pytest.mark.numeric


class Bucket:
    """What a hook sees of DistributedDataParallel's bucket."""

    def __init__(self, parameters: list[torch.nn.Parameter], gradients: list[torch.Tensor]) -> None:
        self._parameters, self._gradients = parameters, gradients

    def parameters(self) -> list[torch.nn.Parameter]:
        return self._parameters

    def gradients(self) -> list[torch.Tensor]:
        return self._gradients

    def buffer(self) -> torch.Tensor:
        return torch.cat([gradient.flatten() for gradient in self._gradients])


def make_steps(seed: int, num_steps: int) -> tuple[list[torch.nn.Parameter], list[list[torch.Tensor]]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 5), (7,), (2, 2)]
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    # Whole numbers, so that sums of any order are exact.
    steps = [
        [torch.randint(-1000, 1000, shape, generator=generator).float() for shape in shapes] for _ in range(num_steps)
    ]
    return parameters, steps


@given(seed=st.integers(0, 2**32), density=st.floats(0.01, 0.99), num_steps=st.integers(1, 6))
def test_sent_and_residual_add_up_to_all_gradients_exactly(seed: int, density: float, num_steps: int) -> None:
    parameters, steps = make_steps(seed, num_steps)
    state: Any = TopK(density)
    total = torch.zeros(26)
    sent = torch.zeros(26)
    for gradients in steps:
        total += torch.cat([gradient.flatten() for gradient in gradients])
        positions, values, remainder = state.select(Bucket(parameters, gradients))
        assert len(values) == max(1, math.ceil(density * 26))
        sent.index_add_(0, positions, values)
        assert torch.equal(sent + remainder, total)
        assert values.abs().min() >= remainder.abs().max()


def test_residuals_follow_their_parameters_into_other_buckets() -> None:
    """DistributedDataParallel deals its buckets anew after the first step."""
    parameters, steps = make_steps(1, 2)
    state: Any = TopK(0.1)
    _, _, first = state.select(Bucket(parameters, steps[0]))
    parts = first.split([15, 7, 4])
    positions, values, remainder = state.select(Bucket(parameters[::-1], steps[1][::-1]))
    expected = torch.cat([steps[1][i].flatten() + parts[i] for i in (2, 1, 0)])
    assert torch.equal(remainder.index_add(0, positions, values), expected)


@pytest.mark.parametrize("density", [0.01, 0.5])
def test_at_least_one_value_is_sent(density: float) -> None:
    parameters, steps = make_steps(2, 1)
    positions, values, _ = TopK(density).select(Bucket(parameters[2:], steps[0][2:]))  # type: ignore[arg-type]
    assert len(positions) == len(values) == max(1, math.ceil(density * 4))


@pytest.mark.parametrize(
    ("grad_comm", "expected"),
    [
        ("dense", []),
        ("fp16", [("the group", "fp16_compress_hook")]),
        ("powersgd:4", [("PowerSGDState", "powersgd_hook")]),
        ("topk:0.25", [("TopK", "topk_hook")]),
    ],
)
def test_each_scheme_has_its_hook_and_what_it_keeps(
    monkeypatch: pytest.MonkeyPatch, grad_comm: str, expected: list[tuple[str, str]]
) -> None:
    """Without ranks: a model that notes what is asked of it."""
    registered: list[tuple[Any, Any]] = []

    class Model:
        def register_comm_hook(self, state: Any, hook: Any) -> None:
            registered.append((state, hook))

    monkeypatch.setattr(torch.distributed, "new_group", lambda: "the group")
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    model: Any = Model()
    register_gradient_compression(model, grad_comm)
    named = [(state if isinstance(state, str) else type(state).__name__, hook.__name__) for state, hook in registered]
    assert named == expected
