"""NeuroShard's cost net (the paper Zha et al., MLSys 2023), which predicts the cost of a set of embedding tables;
trained by this module on sets whose cost is known."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau
from torch import nn

from reference_models.distributed.search.costs import Additive, Seconds, SetCost, Sets, count_moved_bytes, over_sets
from reference_models.distributed.search.known_sets import KnownSets, ask_sets, draw_sets, list_parts
from reference_models.distributed.search.task import NUM_REUSE_BINS, EmbeddingTable
from reference_models.process.errors import ArtifactError
from reference_models.training.eager import Adam

NUM_SETS = 4000
"""Number of sets of tables that a cost net is trained on if the sets' costs are modelled instead of measured."""
NUM_RESAMPLED = 2000
"""Number of bootstrap samples of the held-out sets of tables, for confidence intervals of a cost net's errors."""
_NUM_STEPS, _BATCH_SETS, _LEARNING_RATE = 800, 256, 3e-3


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Compute, while inside, with one thread and with torch's random generator seeded; restore both at the end."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(num_threads)


class CostLayers(nn.Module):
    """Cost net: an MLP 128-32 of each table's features, their sum over a set, and an MLP 64-1 of that sum and of the
    logarithm of the set's bytes."""

    scale: torch.Tensor
    """Mean and standard deviation of two logarithms over the sets of tables on which the net is trained: of a set's
    bytes, and of its seconds. The axes are [quantity, mean or deviation]."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Sequential(nn.Linear(NUM_REUSE_BINS + 5, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(33, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("scale", torch.zeros(2, 2))

    def embed(self, described: torch.Tensor) -> torch.Tensor:
        """Return a vector for each table, [tables, 33], computed from its features as `describe` returns them. The
        vectors of a set's tables are added up, and the sum predicts the set's cost. The last number is the bytes that
        a step moves for the table."""
        return torch.cat([self.table(described[:, :-1]), described[:, -1:]], dim=1)

    def forward(self, summed: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the cost in seconds of each set of tables [sets], from the sum of its tables'
        vectors [sets, 33]. No set may be empty."""
        (mean, deviation), (cost_mean, cost_deviation) = self.scale
        logs = (summed[:, -1:].log() - mean) / deviation
        scaled = self.head(torch.cat([summed[:, :-1], logs], dim=1)).squeeze(1)
        return torch.addcmul(cost_mean, scaled, cost_deviation)


def describe(tables: Sequence[EmbeddingTable], batch_size: int) -> torch.Tensor:
    """Return each table's features, the last of which are the bytes that a step moves for the table: float32 [tables,
    23]."""
    moved = count_moved_bytes(tables, batch_size)
    sizes = [(each.num_embeddings, each.dim, 1 + each.pooling, each.memory_bytes) for each in tables]
    logs = np.log(np.column_stack([sizes, moved])) / 10
    return _tensor(np.column_stack([logs, [each.reuse for each in tables], moved]))


def _tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))


Bounds = tuple[float, float]
"""Bounds of a 95 % confidence interval, by percentiles of the bootstrap over the held-out sets of tables."""
_UNKNOWN: Bounds = (math.nan, math.nan)
_ROUNDING = 1e-9
"""Relative error of a predicted cost below which the cost counts as exact: sums of the same numbers in different
orders differ by so little."""


@dataclass(frozen=True, kw_only=True)
class Net:
    """Trained net that predicts the costs of sets of tables, with its errors on held-out sets. For comparison, it has
    the errors of another prediction of the same sets: the sum of the single tables' costs.

    If costs are measured, one half of the measuring rounds gives the costs from which both predictions are made. The
    other half gives the true costs. Errors are mean absolute percentage errors (MAPE), as fractions.
    """

    layers: CostLayers
    batch_size: int
    num_sets: int = 0
    """Number of sets of tables whose cost is known; a fifth of them, rounded down, was held out of training."""
    tau: float = math.nan
    """Kendall's rank correlation, over held-out sets, of the costs that the net predicts with the sets' true
    costs."""
    additive_tau: float = math.nan
    """Kendall's rank correlation, over held-out sets, of the sums of single tables' costs with the sets' true
    costs."""
    device_s: float = 0.0
    """Fixed seconds of a device that holds tables, which the cost of each single table includes; sums of costs count
    them once.

    Fitted by least squares over the training sets.
    """
    error: float = math.nan
    additive_error: float = math.nan
    """Mean relative error, on held-out sets, of adding up single tables' costs."""
    repeat_error: float = math.nan
    """Noise of the measurements: the mean relative difference of a set's cost between the two halves of its rounds,
    over the held-out sets. No prediction's error can fall below it."""
    excess: Bounds = _UNKNOWN
    """95 % confidence interval of a difference. From the mean relative error of adding up single tables' costs, the
    noise of the measurements is subtracted."""
    gain: Bounds = _UNKNOWN
    """95 % confidence interval of a difference of two mean relative errors: of the sum of tables' single costs, minus
    that of the cost net. Both predict the cost of sets of tables."""
    spread: float = 0.0
    """Noise of the measured costs: how far the rounds of one set of tables differ, as a fraction of their median; the
    median over sets. 0 if no set was measured."""

    @property
    def has_something_to_learn(self) -> bool:
        """Whether adding up single tables' costs is shown to be wrong by more than the measurements' noise."""
        return self.excess[0] > 0

    @property
    def is_better(self) -> bool:
        """Whether the cost net is shown to be worth using. Then the error of adding up single tables' costs is larger
        than the noise of the measurements, and larger than the error of the net."""
        return self.has_something_to_learn and self.gain[0] > 0

    @torch.no_grad()
    def __call__(self, sets: Sets, /) -> Seconds:
        summed = over_sets(sets, lambda tables: self.layers.embed(describe(tables, self.batch_size)).numpy())
        seconds, some = np.zeros(len(sets)), np.array([bool(each) for each in sets], dtype=bool)
        if some.any():
            seconds[some] = self.layers(_tensor(summed[some])).exp().numpy()
        return seconds

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the cost net's weights and errors as arrays by name, from which `net_of` restores the net."""
        numbers = (getattr(self, name) for name in _KEPT)
        return {
            **{name: value.numpy() for name, value in self.layers.state_dict().items()},
            "about": np.array([self.batch_size, self.num_sets, *numbers, *self.excess, *self.gain]),
        }


_KEPT = ("tau", "additive_tau", "device_s", "error", "additive_error", "repeat_error", "spread")


def load_finite(module: nn.Module, arrays: Mapping[str, NDArray[Any]], what: str) -> None:
    """Load the arrays as the state of `module`; error messages name the module by `what`.

    Raises ArtifactError for arrays of other names or shapes, or values that are not finite.
    """
    try:
        module.load_state_dict({name: torch.tensor(value) for name, value in arrays.items()})
        if not all(value.isfinite().all() for value in module.state_dict().values()):
            raise ValueError
    except (RuntimeError, TypeError, ValueError):
        raise ArtifactError(f"the arrays of a {what} are not those that this version keeps.") from None


def net_of(arrays: Mapping[str, NDArray[Any]]) -> Net:
    """Return the cost net whose state `Net.arrays` returned. Raises ArtifactError for other arrays."""
    layers, about = CostLayers(), np.asarray(arrays.get("about"))
    load_finite(layers, {name: value for name, value in arrays.items() if name != "about"}, "cost net")
    if about.shape != (len(_KEPT) + 6,) or not (1 <= about[0] < 2**63 and 0 <= about[1] < 2**63):
        raise ArtifactError("the arrays of a cost net are not those that this version keeps.")
    batch_size, num_sets, *kept = about.tolist()
    *numbers, low, high, least, most = kept
    return Net(
        layers=layers,
        batch_size=int(batch_size),
        num_sets=int(num_sets),
        excess=(low, high),
        gain=(least, most),
        **dict(zip(_KEPT, numbers, strict=True)),
    )


def train_net(
    cost: SetCost,
    tables: Sequence[EmbeddingTable],
    batch_size: int,
    *,
    seed: int,
    num_sets: int = NUM_SETS,
    start: Net | None = None,
) -> Net:
    """Train a cost net on random sets of tables and of parts of tables; `cost` computes the sets' true costs.

    Parts are halves of a table's columns, quarters, and so on. `start` is a net whose training is continued; None to
    begin with random weights. If only few sets are measured, it helps to start from a net trained on modelled costs.
    """
    return fit_net(ask_sets(cost, draw_sets(list_parts(tables), num_sets, seed)), batch_size, seed=seed, start=start)


def fit_net(known: KnownSets, batch_size: int, *, seed: int, start: Net | None = None) -> Net:
    """Train a cost net on four fifths of the sets of tables; test the net, and adding up single tables' costs, on the
    others.

    `start` is a net whose weights training begins with; None to begin with random weights.
    """
    pool, num_held = [*known.alone], len(known.sets) // 5
    places = {table: place for place, table in enumerate(pool)}
    numbers = [[places[table] for table in each] for each in known.sets]
    members = _tensor(np.stack([np.bincount(each, minlength=len(pool)) for each in numbers]))
    shuffled = np.random.default_rng(seed).permutation(len(known.sets))
    held, learnt = shuffled[:num_held], shuffled[num_held:]
    seconds, alone = known.seconds[:, 0], {table: float(each[0]) for table, each in known.alone.items()}
    logs, byte_logs = np.log(seconds), np.log(over_sets(known.sets, lambda each: count_moved_bytes(each, batch_size)))
    with repeatable(seed):
        layers = CostLayers() if start is None else deepcopy(start.layers)
        layers.scale.copy_(_tensor(np.array([(each.mean(), each.std() + 1e-6) for each in (byte_logs, logs)])))
        _fit(layers, describe(pool, batch_size), members[learnt], _tensor(logs[learnt]))
    net = Net(layers=layers, batch_size=batch_size, num_sets=len(known.sets), spread=known.spread)
    added = over_sets(known.sets, lambda tables: np.array([alone[table] for table in tables]))
    others = np.array([len(each) - 1 for each in known.sets], np.float64)
    excess_s = float((added - seconds)[learnt] @ others[learnt]) / max(float(others[learnt] @ others[learnt]), 1.0)
    net = replace(net, device_s=min(max(excess_s, 0.0), min(alone.values())))  # part of single costs
    by_net = net([known.sets[place] for place in held])
    return _judge(net, (by_net, (added - net.device_s * others)[held], seconds[held]), known.seconds[held, 1], seed)


def _judge(net: Net, predicted: tuple[Seconds, Seconds, Seconds], true: Seconds, seed: int) -> Net:
    """Return the cost net with its errors on held-out sets of tables, compared with two other errors.

    `predicted` has three arrays of seconds, each [sets]: by the net, by adding up single tables' costs, and measured
    in one half of the rounds. `true` has the seconds measured in the other half.
    """
    taus = [float(kendalltau(each, true).statistic) for each in predicted[:2]]
    errors = np.abs(np.stack(predicted) / true - 1)
    errors[errors < _ROUNDING] = 0.0
    by_net, added, repeated = errors
    drawn = np.random.default_rng(seed).integers(len(true), size=(NUM_RESAMPLED, len(true)))

    def bound(shares: Seconds) -> Bounds:
        low, high = np.quantile(shares[drawn].mean(axis=1), (0.025, 0.975)).tolist()
        return low, high

    means = dict(zip(("error", "additive_error", "repeat_error"), errors.mean(axis=1).tolist(), strict=True))
    return replace(
        net,
        tau=taus[0],
        additive_tau=taus[1],
        excess=bound(added - repeated),
        gain=bound(added - by_net),
        **means,
    )


def _fit(layers: CostLayers, described: torch.Tensor, members: torch.Tensor, logs: torch.Tensor) -> None:
    optimizer = Adam(layers.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=_NUM_STEPS)
    for _ in range(_NUM_STEPS):
        chosen = torch.randint(len(logs), (_BATCH_SETS,))
        error = layers(members[chosen] @ layers.embed(described)) - logs[chosen]
        optimizer.zero_grad()
        (error / layers.scale[1, 1]).square().mean().backward()
        optimizer.step()
        schedule.step()


def choose(net: Net, cost: SetCost) -> SetCost:
    """Return the better predictor of costs of sets of tables: the net, or the sum of the single tables' costs.

    The net is returned only under two conditions. It must be shown to predict held-out sets better than the sum. And
    the error of the sum must exceed the measurements' noise.
    """
    return net if net.is_better else Additive(cost, net.device_s)
