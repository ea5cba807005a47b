"""torch.optim's SGD, Adagrad and Adam, without the import of torch's compiler, which takes longer than a small run.

torch.optim wraps its methods for torch.compile, and the first call of a wrapper imports the compiler (1.2 s). The
classes here are never compiled, so they call the functions inside the wrappers (`__wrapped__`). If a version of torch
has no wrappers, they call the methods themselves.
"""

from inspect import unwrap

import torch


class EagerOptimizer(torch.optim.Optimizer):
    """Base class of optimizers whose methods do not import torch's compiler, as those of torch.optim do. It must be
    the first base class."""

    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)


class SGD(EagerOptimizer, torch.optim.SGD):
    """SGD as in torch.optim, without importing torch's compiler: same groups, state and numbers. Not
    differentiable."""

    update_rule = "sgd"
    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adagrad(EagerOptimizer, torch.optim.Adagrad):
    """Adagrad as in torch.optim, without importing torch's compiler: same groups, state and numbers. Not
    differentiable."""

    update_rule = "adagrad"
    step = torch.no_grad()(unwrap(torch.optim.Adagrad.step))


class Adam(EagerOptimizer, torch.optim.Adam):
    """Adam as in torch.optim, without importing torch's compiler: same groups, state and numbers. Not
    differentiable."""

    update_rule = "Adam"
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
