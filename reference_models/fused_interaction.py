"""The interactions of `reference_models.interaction` with hand-written passes over preallocated buffers.

Each maps features [B, F, d] to the top MLP's input and its gradient back to [B, F, d]; the gradient that arrives
may be overwritten, and what is returned lives until the next call.
"""

from typing import Protocol

import torch

from reference_models.dense_parameters import adopt, adopt_transposed, update
from reference_models.fused_layers import padded_input
from reference_models.interaction import CatInteraction, DotInteraction, LowRankCrossNet
from reference_models.products import add_product, multiply

Interaction = DotInteraction | CatInteraction | LowRankCrossNet


class InteractionPass(Protocol):
    """One interaction over B samples."""

    def forward(self, features: torch.Tensor) -> torch.Tensor: ...

    def backward(self, dy: torch.Tensor) -> torch.Tensor: ...


class FusedInteraction(Protocol):
    """What passes of all sizes share: the weights, if there are any."""

    pads_output: bool
    """Whether the output has columns for the next layer's bias and padding."""

    def over(self, num_samples: int, *, trains: bool) -> InteractionPass: ...

    def update(self, lr: float, eps: float) -> None: ...


def fuse_interaction(
    interaction: Interaction, num_features: int, like: torch.Tensor, optimizer: torch.optim.Optimizer
) -> FusedInteraction:
    """`like` has the features' dimension, type and device; `optimizer` is that of the interaction's weights."""
    if isinstance(interaction, DotInteraction):
        return FusedDot(num_features, like)
    if isinstance(interaction, CatInteraction):
        return FusedCat()
    return FusedCross(interaction, optimizer)


class FusedDot:
    """The dense vector, the products of all pairs, and padding, in one buffer."""

    pads_output = True

    def __init__(self, num_features: int, like: torch.Tensor) -> None:
        self.num_features, self.like = num_features, like
        row, column = torch.tril_indices(num_features, num_features, offset=-1, device=like.device)
        self.pairs = row * num_features + column
        dim = like.shape[1]
        self.num_pairs, self.width = len(row), dim + len(row)
        # For each product of the square, the column of the output that is its gradient. Both halves read the same
        # one, since features stand on both sides of a product; the diagonal reads the one after the last pair.
        square = torch.full((num_features, num_features), self.width, device=like.device)
        square[row, column] = square[column, row] = dim + torch.arange(self.num_pairs, device=like.device)
        self.columns = square.flatten()

    def over(self, num_samples: int, *, trains: bool) -> "DotPass":
        return DotPass(self, num_samples, trains=trains)

    def update(self, lr: float, eps: float) -> None:
        return None


class DotPass:
    def __init__(self, dot: FusedDot, num_samples: int, *, trains: bool) -> None:
        self._dot = dot
        shape = (num_samples, dot.num_features, dot.num_features)
        self._products = dot.like.new_empty(shape)
        self._chosen = dot.like.new_empty(num_samples, dot.num_pairs)
        self._y = padded_input(dot.like, num_samples, dot.width)
        if trains:
            self._dproducts = dot.like.new_empty(shape)
            self._dfeatures = dot.like.new_empty(num_samples, dot.num_features, dot.like.shape[1])

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        dot, dim = self._dot, features.shape[2]
        self._features = features
        torch.bmm(features, features.transpose(1, 2), out=self._products)
        torch.index_select(self._products.flatten(1), 1, dot.pairs, out=self._chosen)
        self._y[:, :dim] = features[:, 0]
        self._y[:, dim : dot.width] = self._chosen
        return self._y

    def backward(self, dy: torch.Tensor) -> torch.Tensor:
        dot, dim = self._dot, self._features.shape[2]
        dy[:, dot.width] = 0  # the padding's gradient, which the diagonal reads
        torch.index_select(dy, 1, dot.columns, out=self._dproducts.flatten(1))
        torch.bmm(self._dproducts, self._features, out=self._dfeatures)
        self._dfeatures[:, 0] += dy[:, :dim]
        return self._dfeatures


class FusedCat:
    """All vectors side by side, which is how they lie already."""

    pads_output = False

    def over(self, num_samples: int, *, trains: bool) -> "CatPass":
        return CatPass()

    def update(self, lr: float, eps: float) -> None:
        return None


class CatPass:
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self._shape = features.shape
        return features.flatten(1)

    def backward(self, dy: torch.Tensor) -> torch.Tensor:
        return dy.view(self._shape)


class FusedCross:
    """x_{l+1} = x_0 * (u_l W_l + b_l) + x_l with u_l = x_l V_l; here V_l is [N, rank] and W_l [rank, N]."""

    pads_output = False

    def __init__(self, net: LowRankCrossNet, optimizer: torch.optim.Optimizer) -> None:
        self.v = [adopt_transposed(v, optimizer) for v in net.v]
        self.w = [adopt_transposed(w, optimizer) for w in net.w]
        self.bias = [adopt(bias, optimizer) for bias in net.bias]

    def over(self, num_samples: int, *, trains: bool) -> "CrossPass":
        return CrossPass(self, num_samples, trains=trains)

    def update(self, lr: float, eps: float) -> None:
        for parameters in zip(self.v, self.w, self.bias, strict=True):
            for parameter in parameters:
                update(parameter, lr, eps)


class CrossPass:
    def __init__(self, cross: FusedCross, num_samples: int, *, trains: bool) -> None:
        self._cross = cross
        wide, low = cross.v[0].value.shape
        like, num_layers = cross.v[0].value, len(cross.v)
        # Without a backward pass two outputs in turn are enough, and one of everything else.
        num_kept = num_layers if trains else 1
        self._u = [like.new_empty(num_samples, low) for _ in range(num_kept)]
        self._z = [like.new_empty(num_samples, wide) for _ in range(num_kept)]
        self._x = [like.new_empty(num_samples, wide) for _ in range(num_layers if trains else 2)]
        if trains:
            self._dz, self._dx_0 = like.new_empty(num_samples, wide), like.new_empty(num_samples, wide)
            self._du = like.new_empty(num_samples, low)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        cross, num_kept = self._cross, len(self._u)
        self._shape = features.shape
        self._inputs, self._scales = [features.flatten(1)], []
        for i, (v, w, bias) in enumerate(zip(cross.v, cross.w, cross.bias, strict=True)):
            x = self._inputs[-1]
            u = multiply(x, v.value, self._u[i % num_kept])
            z = add_product(bias.value, u, w.value, self._z[i % num_kept])
            self._scales.append((u, z))
            self._inputs.append(torch.addcmul(x, self._inputs[0], z, out=self._x[i % len(self._x)]))
        return self._inputs[-1]

    def backward(self, dy: torch.Tensor) -> torch.Tensor:
        cross, x_0 = self._cross, self._inputs[0]
        dx = dy
        for i in reversed(range(len(cross.v))):
            u, z = self._scales[i]
            if i == len(cross.v) - 1:
                torch.mul(dx, z, out=self._dx_0)
            else:
                self._dx_0.addcmul_(dx, z)
            dz = torch.mul(dx, x_0, out=self._dz)
            torch.sum(dz, 0, out=cross.bias[i].gradient)
            multiply(u.t(), dz, cross.w[i].gradient)
            du = multiply(dz, cross.w[i].value.t(), self._du)
            multiply(self._inputs[i].t(), du, cross.v[i].gradient)
            dx = add_product(dx, du, cross.v[i].value.t(), dx)
        return self._dx_0.add_(dx).view(self._shape)
