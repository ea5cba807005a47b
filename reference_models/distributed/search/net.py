"""NeuroShard's cost net (MLSys'23), trained here on sets of tables and what they cost."""

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

from reference_models.distributed.search.costs import Additive, Seconds, SetCost, Sets, moved_bytes, over_sets
from reference_models.distributed.search.task import NUM_REUSE_BINS, Table
from reference_models.process.errors import ArtifactError

MIN_DIM = 4
"""Columns of the narrowest part of a table that the net learns; cuts are halves."""
NUM_SETS = 4000
"""Sets that a net is trained on whose costs need not be measured."""
NUM_RESAMPLED = 400
"""Draws of the sets held out, for the interval of what a net gains over sums."""
_MAX_TABLES = 15
_NUM_STEPS, _BATCH_SETS, _LEARNING_RATE = 800, 256, 3e-3


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Compute with one thread and torch's generator seeded; both are as before at the end."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(num_threads)


class CostLayers(nn.Module):
    """An MLP 128-32 of each table, the sum over a set, and a head 64-1 of that sum and the logarithm of its bytes."""

    scale: torch.Tensor
    """Mean and deviation of the logarithm of a set's bytes, then of its seconds: [2, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Sequential(nn.Linear(NUM_REUSE_BINS + 5, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(33, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("scale", torch.zeros(2, 2))

    def embed(self, described: torch.Tensor) -> torch.Tensor:
        """Return what is added up over a set, [tables, 33] with bytes last, of what `describe` returns."""
        return torch.cat([self.table(described[:, :-1]), described[:, -1:]], dim=1)

    def forward(self, summed: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of seconds [sets], of sums [sets, 33] over sets that are not empty."""
        (mean, deviation), (cost_mean, cost_deviation) = self.scale
        logs = (summed[:, -1:].log() - mean) / deviation
        scaled = self.head(torch.cat([summed[:, :-1], logs], dim=1)).squeeze(1)
        return torch.addcmul(cost_mean, scaled, cost_deviation)


def describe(tables: Sequence[Table], batch_size: int) -> torch.Tensor:
    """Return the features of tables, and the bytes that a step moves of them: float32 [tables, 23]."""
    moved = moved_bytes(tables, batch_size)
    sizes = [(each.num_embeddings, each.dim, 1 + each.pooling, each.memory_bytes) for each in tables]
    logs = np.log(np.column_stack([sizes, moved])) / 10
    return _tensor(np.column_stack([logs, [each.reuse for each in tables], moved]))


def _tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))


@dataclass(frozen=True, kw_only=True)
class Net:
    """A trained cost net, and Kendall's rank correlation with the true costs of sets that it was not trained on."""

    layers: CostLayers
    batch_size: int
    tau: float = math.nan
    additive_tau: float = math.nan
    """Rank correlation of the added costs of single tables, with the same."""
    device_s: float = 0.0
    """Seconds of a device that a single table's cost has, too, by least squares over the sets that were learnt from;
    sums have it once."""
    gain: tuple[float, float] = (math.nan, math.nan)
    """95 % interval of the net's rank correlation less that of the sums, by bootstrap over the sets held out."""

    spread: float = 0.0
    """How far apart the rounds of a measured set lay, as a fraction of their median: the sets' median; 0 where none
    was measured."""

    @property
    def is_better(self) -> bool:
        """Whether the net is shown to rank sets better than the sums do: the interval of its gain is above 0."""
        return self.gain[0] > 0

    @torch.no_grad()
    def __call__(self, sets: Sets, /) -> Seconds:
        summed = over_sets(sets, lambda tables: self.layers.embed(describe(tables, self.batch_size)).numpy())
        seconds, some = np.zeros(len(sets)), np.array([bool(each) for each in sets], dtype=bool)
        if some.any():
            seconds[some] = self.layers(_tensor(summed[some])).exp().numpy()
        return seconds

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that `net_of` needs, by name."""
        return {
            **{name: value.numpy() for name, value in self.layers.state_dict().items()},
            "about": np.array([self.batch_size, self.tau, self.additive_tau, self.device_s, *self.gain, self.spread]),
        }


def load_finite(module: nn.Module, arrays: Mapping[str, NDArray[Any]], what: str) -> None:
    """Load the state of a module. Raises ArtifactError for other arrays, or where one is not finite."""
    try:
        module.load_state_dict({name: torch.tensor(value) for name, value in arrays.items()})
        if not all(value.isfinite().all() for value in module.state_dict().values()):
            raise ValueError
    except (RuntimeError, TypeError, ValueError):
        raise ArtifactError(f"the arrays of a {what} are not those that this version keeps.") from None


def net_of(arrays: Mapping[str, NDArray[Any]]) -> Net:
    """Return the net that `Net.arrays` is of. Raises ArtifactError for what is of no such net."""
    layers, about = CostLayers(), np.asarray(arrays.get("about"))
    load_finite(layers, {name: value for name, value in arrays.items() if name != "about"}, "cost net")
    if about.shape != (7,) or not 1 <= about[0] < 2**63:
        raise ArtifactError("the arrays of a cost net are not those that this version keeps.")
    batch_size, tau, additive_tau, device_s, *gain, spread = about.tolist()
    return Net(
        layers=layers,
        batch_size=int(batch_size),
        tau=tau,
        additive_tau=additive_tau,
        device_s=device_s,
        gain=(gain[0], gain[1]),
        spread=spread,
    )


def train_net(
    cost: SetCost,
    tables: Sequence[Table],
    batch_size: int,
    *,
    seed: int,
    num_sets: int = NUM_SETS,
    start: Net | None = None,
) -> Net:
    """Train a net on sets of 1 to 15 of the tables, and of their halves, quarters and so on, as `cost` has them.

    A fifth of the sets are held out. `start` is a net to begin with: of `Bandwidth`, where these sets are few that
    were measured.
    """
    rng = np.random.default_rng(seed)
    cuts = ((each, each.dim >> cut) for cut in range(8) for each in tables)
    pool = [*dict.fromkeys(each.with_columns(dim) for each, dim in cuts if dim >= min(MIN_DIM, each.dim))]
    picks = [rng.integers(len(pool), size=rng.integers(1, _MAX_TABLES + 1)) for _ in range(num_sets)]
    sets = [[pool[pick] for pick in each] for each in picks]
    members = _tensor(np.stack([np.bincount(each, minlength=len(pool)) for each in picks]))
    logs, byte_logs = np.log(cost(sets)), np.log(over_sets(sets, lambda each: moved_bytes(each, batch_size)))
    num_held = num_sets // 5
    with repeatable(seed):
        layers = CostLayers() if start is None else deepcopy(start.layers)
        layers.scale.copy_(_tensor(np.array([(each.mean(), each.std() + 1e-6) for each in (byte_logs, logs)])))
        _fit(layers, describe(pool, batch_size), members[num_held:], _tensor(logs[num_held:]))
    net = Net(layers=layers, batch_size=batch_size)
    added, others = Additive(cost)(sets), np.array([len(each) - 1 for each in sets], np.float64)
    excess, learnt = (added - np.exp(logs))[num_held:], others[num_held:]
    device_s = max(float(excess @ learnt) / max(float(learnt @ learnt), 1.0), 0.0)
    known = (net(sets[:num_held]), (added - device_s * others)[:num_held])
    taus = [float(kendalltau(each, logs[:num_held]).statistic) for each in known]
    gain = _bound_gain(known, logs[:num_held], seed)
    spreads = [*getattr(cost, "spreads", {}).values()]  # of what was measured
    spread = float(np.median(spreads)) if spreads else 0.0
    return replace(net, tau=taus[0], additive_tau=taus[1], device_s=device_s, gain=gain, spread=spread)


def _bound_gain(known: tuple[Seconds, Seconds], logs: Seconds, seed: int) -> tuple[float, float]:
    """Return the 95 % percentile interval of the first one's rank correlation with `logs` less the second's, over
    NUM_RESAMPLED draws of the sets with replacement."""
    rng, gains = np.random.default_rng(seed), []
    for _ in range(NUM_RESAMPLED):
        drawn = rng.integers(len(logs), size=len(logs))
        taus = [float(kendalltau(each[drawn], logs[drawn]).statistic) for each in known]
        gains.append(taus[0] - taus[1])
    low, high = np.quantile(gains, (0.025, 0.975))
    return float(low), float(high)


def _fit(layers: CostLayers, described: torch.Tensor, members: torch.Tensor, logs: torch.Tensor) -> None:
    optimizer = torch.optim.Adam(layers.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=_NUM_STEPS)
    for _ in range(_NUM_STEPS):
        chosen = torch.randint(len(logs), (_BATCH_SETS,))
        error = layers(members[chosen] @ layers.embed(described)) - logs[chosen]
        optimizer.zero_grad()
        (error / layers.scale[1, 1]).square().mean().backward()
        optimizer.step()
        schedule.step()


def choose(net: Net, cost: SetCost) -> SetCost:
    """Return the net where it is shown to rank held-out sets better than the added costs of single tables, else
    those."""
    return net if net.is_better else Additive(cost, net.device_s)
