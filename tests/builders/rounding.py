"""How far rounding alone may move what is compared, on any CPU and by any library: bounds that are derived.

u is half a unit in the last place of one, which one operation is off by at most, relative to its result. Libraries
add in an order of their own, which may change with the number of threads, the instruction set and the address of a
matrix: a bound holds for every order.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

TURN = 2.0**-23
"""About 1e-7: one unit in the last place of float32."""


def unit(dtype: torch.dtype = torch.float32) -> float:
    """Return u: 2^-24 of float32, 2^-8 of bfloat16's eight bits."""
    return torch.finfo(dtype).eps / 2


def gamma(num_roundings: int, dtype: torch.dtype = torch.float32) -> float:
    """Return n u / (1 - n u): what n roundings, one after the other, change relative to the sizes of all terms.

    Of a sum of n products in any order, with or without fused multiplication, it is n; each addition behind it is one
    more (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1).
    """
    nu = num_roundings * unit(dtype)
    return nu / (1 - nu)


def product_bound(a: torch.Tensor, b: torch.Tensor, *, added: torch.Tensor | float = 0.0) -> torch.Tensor:
    """How far a b + `added`, computed in the type of `a` with float32 sums or better, may be from the exact one.

    gamma of the k products, the addition behind them and the last store, times |a| |b| + |added|; a narrower result
    is rounded once more for what is multiplied, and once for what is added.
    """
    sizes = a.double().abs() @ b.double().abs() + torch.as_tensor(added).double().abs()
    narrow = 0.0 if a.dtype in (torch.float32, torch.float64) else gamma(2, a.dtype)
    return (gamma(a.shape[1] + 2, a.dtype if not narrow else torch.float32) + narrow) * sizes


def furthest(found: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor) -> float:
    """Return the greatest difference as a share of what is allowed there; not a number where one is none."""
    distance = (found.double() - expected.double()).abs()
    return float((distance / allowed.double().clamp(min=torch.finfo(torch.float64).tiny)).max())


def norm_of(tensors: Iterable[torch.Tensor]) -> float:
    """Return the norm of all numbers together."""
    return float(torch.stack([tensor.detach().double().norm() for tensor in tensors]).norm())


def distance_of(first: Iterable[torch.Tensor], second: Iterable[torch.Tensor]) -> float:
    """Return the norm of all differences together. Shapes must agree, and whole numbers be equal."""
    pairs = list(zip(first, second, strict=True))
    assert all(a.shape == b.shape and (a.is_floating_point() or torch.equal(a, b)) for a, b in pairs)
    return norm_of(a.detach().double() - b.detach().double() for a, b in pairs)


@torch.no_grad()
def turn(weights: Iterable[torch.Tensor]) -> None:
    """Move each weight by a unit in its last place, up or down by chance, in place."""
    generator = torch.Generator().manual_seed(0)
    for weight in weights:
        signs = torch.randint(0, 2, weight.shape, generator=generator).to(weight.dtype) * 2 - 1
        weight.mul_(1 + TURN * signs)


def sway(
    train: Callable[[bool], list[torch.Tensor]], num_steps: int, *, crossing: float = 0.0
) -> tuple[list[torch.Tensor], float]:
    """Return where a reference ends, and how far from there the same algorithm may end, as a norm of all numbers.

    `train` trains the reference, from a start that is turned where it is told so, and returns its weights. A turn is
    twice what one step's rounding does to the weights that it writes. Each of the steps rounds anew, its gradients,
    too, and what it rounds is carried on as the turn was; both sides do. So they end within 2 `num_steps` times as
    far from one another as the reference ends from itself, where a step depends smoothly on the weights: Adagrad's
    sums, and Adam's epsilon, must not let a gradient that is none but for rounding make a whole step. Where it does
    not, `crossing` is what one jump makes of it: see `crossing_of`.
    """
    expected, turned = train(False), train(True)
    moved = distance_of(turned, expected)
    assert moved > 0, "the turned start is another"
    return expected, 2 * num_steps * moved + crossing


def crossing_of(begun: Iterable[torch.Tensor], ended: Iterable[torch.Tensor], num_steps: int, batch: int) -> float:
    """How much a ReLU whose argument rounding takes across zero may change: less than one sample of one step.

    Of some hundred thousand arguments of a short training one is often nearer to zero than rounding moves it. What
    goes through one unit is a part of a sample's gradient. A step is the mean of those of `batch` samples, and is
    1 / sqrt(`batch`) as long as one of them where they point anywhere: so one has 1 / sqrt(`batch`) of a step. Steps
    are taken for as long as the way between the two ends over their number, which is less than they are.
    """
    way = norm_of(b.detach().double() - a.detach().double() for a, b in zip(begun, ended, strict=True))
    return way / num_steps / batch**0.5


def is_as_near(found: Iterable[torch.Tensor], expected: list[torch.Tensor], allowed: float) -> bool:
    """Say whether weights are within what `sway` allows."""
    return distance_of(found, expected) <= allowed


def weights_of(workload: Any) -> list[torch.Tensor]:
    """Copies of a workload's weights, by name."""
    return [value.detach().clone() for _, value in sorted(workload.state()["model"].items())]


def sway_of(
    reference: Any,
    build: Callable[[], Any],
    num_steps: int,
    *,
    has_relu: bool = True,
    read: Callable[[Any], list[torch.Tensor]] = weights_of,
) -> tuple[list[torch.Tensor], float]:
    """Return `sway` of a workload that was trained for so many steps; `build` makes it anew, not yet trained."""
    other = build()
    crossing = 0.0
    if has_relu:
        crossing = crossing_of(weights_of(other), weights_of(reference), num_steps, reference.global_batch_size)

    def train(is_turned: bool) -> list[torch.Tensor]:
        if not is_turned:
            return read(reference)
        turn(other.state()["model"].values())
        left = num_steps
        while left:  # a call ends where an epoch does
            left -= other.train(left).num_steps
        return read(other)

    return sway(train, num_steps, crossing=crossing)
