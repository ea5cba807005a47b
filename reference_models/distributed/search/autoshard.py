"""AutoShard's search (Zha et al., KDD 2022): a learnt policy gives one table after the other to a device.

As published: the features of tables, devices as sums of their tables' representations with their predicted cost, no
device without memory, and a plan's reward, its least over its greatest cost of a device. Other than in the authors'
prototype, the policy has no LSTM (what is left to place stands for it) and learns by policy gradient, not IMPALA: the
advantage of a plan is its reward less the mean of NUM_PLANS plans of its task, over their deviation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.heuristics import (
    Piece,
    PieceCosts,
    no_plan,
    order_pieces,
    plan_of,
    whole_tables,
)  # fmt: skip
from reference_models.distributed.search.net import repeatable
from reference_models.distributed.search.task import NUM_REUSE_BINS, Plan, Task
from reference_models.distributed.search.tasks import NEUROSHARD, generate_tasks
from reference_models.process.errors import ArtifactError

NUM_UPDATES, NUM_TASKS, NUM_PLANS, LEARNING_RATE = 400, 8, 8, 1e-3
"""Updates, tasks in each, and plans of each task."""
NUM_TABLES, NUM_DEVICES, SLACK = (6, 10), (2, 4), (1.1, 2.0)
"""Of the tasks that a policy learns from; slack is the memory of all devices over the bytes of the tables."""
_NUM_FEATURES, _POOL_SIZE = 5 + NUM_REUSE_BINS, 256


class PolicyLayers(nn.Module):
    """Chances of the devices that a table may go to, by the table, what is left, and what the devices hold."""

    scale: Tensor
    """Mean and deviation of the features: [2, features]."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(2, _NUM_FEATURES))
        self.table = nn.Sequential(nn.Linear(_NUM_FEATURES, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.left = nn.Sequential(nn.Linear(3, 32), nn.ReLU())
        self.load = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def represent(self, features: Tensor) -> Tensor:
        """Return [..., 32] of tables [..., features]."""
        tables: Tensor = self.table(((features - self.scale[0]) / self.scale[1]).clamp(-4, 4))
        return tables

    def forward(self, table: Tensor, left: Tensor, held: Tensor, loads: Tensor, may_be_on: Tensor) -> Tensor:
        """Return the logarithm of chances [tasks, plans, devices] for a table of each task, [tasks, 32].

        `left` is [tasks, 3]; `held`, the sum of representations, and `loads` [tasks, plans, devices, 32 and 2].
        """
        device = torch.cat((held, self.load(loads)), dim=-1)
        state = torch.cat((table, self.left(left)), dim=-1)[:, None, None].expand_as(device)
        scores: Tensor = self.head(torch.cat((state, device, state * device), dim=-1)).squeeze(-1)
        return scores.masked_fill(~may_be_on, -math.inf).log_softmax(dim=-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batch:
    """Tasks of equally many tables and devices, their tables in falling order of cost."""

    pieces: list[list[Piece]]
    features: Tensor
    """Logarithms of columns, rows, lookups and bytes; reuse; cost alone over `mean_s`: [tasks, tables, features]."""
    left: Tensor
    """Cost of the table, then of all that are not placed, and their bytes, over those of all devices: [..., 3]."""
    sizes: Tensor
    """Bytes: float64 [tasks, tables, 1, 1]."""
    mean_s: Tensor
    """Seconds of a device on average, as costs alone add up: float64 [tasks, 1, 1]."""
    memory: Tensor
    """Bytes of a device: float64 [tasks, 1, 1]."""
    num_devices: int


def _batch(costs: PieceCosts, lists: Sequence[Sequence[Piece]], memory: Sequence[float], num_devices: int) -> _Batch:
    pieces = [order_pieces(costs, each) for each in lists]
    tables = [[costs.table(piece) for piece in each] for each in pieces]
    sizes = np.array(
        [[(of.dim, of.num_embeddings, 1 + of.pooling, of.memory_bytes) for of in each] for each in tables]
    )
    reuse = np.array([[table.reuse for table in each] for each in tables])
    alone_s = np.array([costs([(piece,) for piece in each]) for each in pieces])[..., None]
    mean_s = alone_s.sum(axis=1, keepdims=True) / num_devices
    of_memory = np.array(memory)[:, None, None]
    shares = np.concatenate((alone_s / mean_s, sizes[..., 3:] / of_memory), axis=-1)
    left = shares[:, ::-1].cumsum(axis=1)[:, ::-1] / num_devices
    return _Batch(
        pieces=pieces,
        features=torch.tensor(np.concatenate((np.log(sizes), reuse, shares[..., :1]), axis=-1)).float(),
        left=torch.tensor(np.concatenate((shares[..., :1], left), axis=-1)).float(),
        sizes=torch.tensor(sizes[..., 3:, None]),
        mean_s=torch.tensor(mean_s),
        memory=torch.tensor(of_memory, dtype=torch.float64),
        num_devices=num_devices,
    )


def _roll_out(
    layers: PolicyLayers, costs: PieceCosts, batch: _Batch, num_plans: int, *, is_drawn: bool
) -> tuple[list[list[tuple[Piece, ...]]], Tensor, Tensor]:
    """Place all tables, on devices drawn by their chances or on the likeliest.

    Returns what devices hold, a row for each plan of each task, and rewards and logarithms of chances of the plans,
    [tasks, plans]; the reward is -1 where a table found no room.
    """
    num_tasks, num_tables = batch.sizes.shape[:2]
    shape = (num_tasks, num_plans, batch.num_devices)
    sets: list[list[tuple[Piece, ...]]] = [[()] * batch.num_devices for _ in range(num_tasks * num_plans)]
    tables, held = layers.represent(batch.features), torch.zeros(*shape, 32)
    seconds, size = torch.zeros(2, *shape, dtype=torch.float64)
    log_chances, is_stuck = torch.zeros(shape[:2]), torch.zeros(shape[:2], dtype=torch.bool)
    for number in range(num_tables):
        fits = size + batch.sizes[:, number] <= batch.memory
        has_none = ~fits.any(dim=-1)
        loads = torch.stack((seconds / batch.mean_s, size / batch.memory), dim=-1).float()
        chances = layers(tables[:, number], batch.left[:, number], held, loads, fits | has_none[..., None])
        drawn = chances.exp().flatten(0, 1).multinomial(1) if is_drawn else chances.argmax(dim=-1)
        device = drawn.view(*shape[:2], 1)
        is_chosen = torch.zeros(shape).scatter(-1, device, 1.0)
        held = held + is_chosen[..., None] * tables[:, None, None, number]
        size = size + is_chosen * batch.sizes[:, number]
        log_chances, is_stuck = log_chances + chances.gather(-1, device).squeeze(-1), is_stuck | has_none
        chosen = [*enumerate(device.flatten().tolist())]
        for row, place in chosen:
            sets[row][place] += (batch.pieces[row // num_plans][number],)
        cost = torch.from_numpy(costs([sets[row][place] for row, place in chosen]))
        seconds = seconds.scatter(-1, device, cost.view(*shape[:2], 1))
    rewards = torch.where(is_stuck, -1.0, seconds.amin(dim=-1) / seconds.amax(dim=-1)).float()
    return sets, rewards, log_chances


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A trained policy."""

    layers: PolicyLayers
    digest: str
    """Of what it was trained for: see `digest_of`."""
    reward: float
    """Mean of the plans of its last 20 updates."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that `policy_of` needs but the digest, by name."""
        arrays = {name: value.numpy() for name, value in self.layers.state_dict().items()}
        return {**arrays, "reward": np.array(self.reward)}


def policy_of(arrays: Mapping[str, NDArray[Any]], digest: str) -> Policy:
    """Return the policy that `Policy.arrays` is of. Raises ArtifactError for what is of no such policy."""
    layers = PolicyLayers()
    try:
        reward = float(arrays["reward"])
        layers.load_state_dict({name: torch.tensor(value) for name, value in arrays.items() if name != "reward"})
    except (KeyError, RuntimeError, TypeError, ValueError):
        raise ArtifactError("the arrays of a policy are not those that this version keeps.") from None
    return Policy(layers=layers, digest=digest, reward=reward)


def digest_of(cost: SetCost, seed: int, num_updates: int = NUM_UPDATES) -> str:
    """Return the SHA-256 of what a policy is trained for: a policy of the same need not be trained again."""
    return sha256(repr((cost, seed, num_updates)).encode()).hexdigest()


def train_policy(cost: SetCost, seed: int, num_updates: int = NUM_UPDATES) -> Policy:
    """Train a policy on tasks of NUM_TABLES generated tables on NUM_DEVICES devices, with one thread."""
    pool = generate_tasks(1, seed, replace(NEUROSHARD, num_devices=_POOL_SIZE), (_POOL_SIZE, _POOL_SIZE + 1))[0]
    rng, past = np.random.default_rng(seed), []
    with repeatable(seed):
        layers = PolicyLayers()
        features = _batch(PieceCosts(pool, cost), [whole_tables(pool)], [1.0], _POOL_SIZE // 3).features[0]
        layers.scale = torch.stack((features.mean(dim=0), features.std(dim=0) + 1e-3))
        optimizer = torch.optim.Adam(layers.parameters(), lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, num_updates)
        for _ in range(num_updates):
            costs = PieceCosts(pool, cost)
            _, rewards, log_chances = _roll_out(layers, costs, _draw(costs, rng), NUM_PLANS, is_drawn=True)
            deviation, mean = torch.std_mean(rewards, dim=1, keepdim=True)
            loss = -(log_chances * (rewards - mean) / (deviation + 0.01)).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            past.append(float(mean.mean()))
    return Policy(layers=layers, digest=digest_of(cost, seed, num_updates), reward=float(np.mean(past[-20:])))


def _draw(costs: PieceCosts, rng: np.random.Generator) -> _Batch:
    """Draw tasks of the tables of a pool: as many tables and devices in each, memory by SLACK."""
    num_tables, num_devices = (int(rng.integers(low, high + 1)) for low, high in (NUM_TABLES, NUM_DEVICES))
    pool = whole_tables(costs.task)
    lists = [[pool[each] for each in rng.choice(len(pool), num_tables, replace=False)] for _ in range(NUM_TASKS)]
    sizes = np.array([[costs.table(piece).memory_bytes for piece in each] for each in lists])
    memory = np.maximum(sizes.sum(axis=1) / num_devices * rng.uniform(*SLACK, NUM_TASKS), sizes.max(axis=1))
    return _batch(costs, lists, memory.tolist(), num_devices)


def autoshard(task: Task, cost: SetCost, seed: int, policy: Policy | None = None) -> Plan:
    """Place the tables as a policy says, which is trained for the cost where none is given.

    Raises ConfigError where a table finds no room.
    """
    layers, costs = (policy or train_policy(cost, seed)).layers, PieceCosts(task, cost)
    with repeatable(seed), torch.no_grad():
        batch = _batch(costs, [whole_tables(task)], [task.memory_bytes], task.num_devices)
        (held,), rewards, _ = _roll_out(layers, costs, batch, 1, is_drawn=False)
    if rewards.item() < 0:
        raise no_plan(task, "autoshard")
    return plan_of(task, (0.0, tuple(held)), "autoshard")
