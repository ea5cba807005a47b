"""Matrix products into buffers."""

import torch


def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """a @ b, in `out`."""
    return torch.mm(a, b, out=out)


def add_product(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """c + a @ b, in `out`; c may be a bias [n]."""
    return torch.addmm(c, a, b, out=out)
