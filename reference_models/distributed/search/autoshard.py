"""AutoShard's search (Zha et al., KDD 2022): a policy learnt by reinforcement places one table after the other.

As published:

- the features of tables
- the representation of a device: the sum of its tables' representations, and its predicted cost
- the rule that a table goes only on a device with free memory
- the reward of a plan: the least cost of a device divided by the greatest

Two parts differ from the authors' prototype. The policy has no LSTM; it gets the features of the tables left to place
instead. It learns by policy gradient, not by IMPALA: the advantage of a plan is its reward less the mean reward of
the NUM_PLANS plans of its task, divided by the standard deviation of these rewards.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.net import load_finite, repeatable
from reference_models.distributed.search.pieces import PieceCosts, Pieces, whole_tables
from reference_models.distributed.search.repair import plan_of
from reference_models.distributed.search.task import NUM_REUSE_BINS, PlacementPlan, Task
from reference_models.distributed.search.tasks import NEUROSHARD, generate_tasks
from reference_models.training.eager import Adam

NUM_UPDATES = 400
"""Number of updates in the training of a policy."""
NUM_TASKS = 8
"""Number of placement tasks in each update of a policy."""
NUM_PLANS = 8
"""Number of plans drawn for each task in an update of a policy."""
LEARNING_RATE = 1e-3
"""Learning rate of the training of a policy."""
NUM_LATER_UPDATES = 100
"""Number of updates on larger placement tasks, for a policy that was trained on small tasks before."""
SLACK = (1.1, 2.0)
"""Range from which a training task's memory is drawn: the memory of all its devices together, as a multiple of the
bytes of all its tables."""
MOST_TABLES = 100
"""Maximum number of tables in a policy's training tasks; the time of an update grows with it."""
MOST_DEVICES = 16
"""Maximum number of devices in a policy's training tasks; the time of an update grows with it."""
NUM_DRAWN = 16
"""Number of random plans drawn from the policy for a placement task, in addition to the likeliest plan."""
_NUM_FEATURES, _POOL_SIZE = 4 + NUM_REUSE_BINS, 256


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSizes:
    """Ranges, ends included, of the number of tables and of devices in the placement tasks that a policy is trained
    on."""

    num_tables: tuple[int, int] = (6, 10)
    num_devices: tuple[int, int] = (2, 4)


SMALL = TaskSizes()


def sizes_of(tasks: Sequence[Task]) -> TaskSizes:
    """Return the ranges of sizes (numbers of tables and of devices) of the tasks on which to train a policy that will
    place `tasks`.

    The ranges go from the smallest to the largest size among `tasks`, capped at MOST_TABLES and MOST_DEVICES. If no
    task is larger than the default ranges, `SMALL`, these are returned.
    """
    tables = sorted(min(len(each.tables), MOST_TABLES) for each in tasks)
    devices = sorted(min(each.num_devices, MOST_DEVICES) for each in tasks)
    if tables[-1] <= SMALL.num_tables[1] and devices[-1] <= SMALL.num_devices[1]:
        return SMALL
    return TaskSizes(num_tables=(tables[0], tables[-1]), num_devices=(devices[0], devices[-1]))


class Policy(nn.Module):
    """Placement policy: a net that returns each device's probability to get a table, given the tables left to place
    and the tables on each device."""

    scale: Tensor
    """Mean and standard deviation of the tables' features, by which they are normalised: [2, features]."""
    mean_reward: Tensor
    """Mean reward of the plans in training's last 20 updates; it is stored with the policy's weights. A plan's reward
    is the least cost of a device divided by the greatest."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(2, _NUM_FEATURES))
        self.register_buffer("mean_reward", torch.zeros(()))
        self.table = nn.Sequential(nn.Linear(_NUM_FEATURES, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.left = nn.Sequential(nn.Linear(3, 32), nn.ReLU())
        self.load = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def represent(self, features: Tensor) -> Tensor:
        """Return the learnt representations [..., 32] of tables, from their features [..., features]."""
        tables: Tensor = self.table(((features - self.scale[0]) / self.scale[1]).clamp(-4, 4))
        return tables

    def forward(self, table: Tensor, left: Tensor, held: Tensor, loads: Tensor, may_be_on: Tensor) -> Tensor:
        """Return the log-probabilities [tasks, plans, devices] of placing the next table of each task on each device.
        `table` [tasks, 32] has the representations of these tables.

        `left` [tasks, 3] describes the tables left to place. `held` [tasks, plans, devices, 32] has the sum of the
        representations of the tables on each device. `loads` [tasks, plans, devices, 2] has each device's cost and
        memory.
        """
        device = torch.cat((held, self.load(loads)), dim=-1)
        state = torch.cat((table, self.left(left)), dim=-1)[:, None, None].expand_as(device)
        scores: Tensor = self.head(torch.cat((state, device, state * device), dim=-1)).squeeze(-1)
        return scores.masked_fill(~may_be_on, -math.inf).log_softmax(dim=-1)

    @property
    def reward(self) -> float:
        """Mean reward of the plans in training's last 20 updates. A plan's reward is the least cost of a device
        divided by the greatest."""
        return float(self.mean_reward)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the policy's weights as arrays by name, from which `policy_of` restores the policy."""
        return {name: value.numpy() for name, value in self.state_dict().items()}


def policy_of(arrays: Mapping[str, NDArray[Any]]) -> Policy:
    """Return the placement policy whose weights `Policy.arrays` returned. Raises ArtifactError for other arrays."""
    policy = Policy()
    load_finite(policy, arrays, "policy")
    return policy


def _features(costs: PieceCosts, pieces: Pieces) -> list[tuple[float, ...]]:
    """Return the features of tables, or of parts of tables by columns: logarithms of columns, rows, lookups per
    sample and bytes, then the shares of lookups by reuse bin (how often a batch looks up the same row)."""
    tables = [costs.table(piece) for piece in pieces]
    sizes = [(table.dim, table.num_embeddings, 1 + table.pooling, table.memory_bytes) for table in tables]
    return [(*map(math.log, row), *table.reuse) for row, table in zip(sizes, tables, strict=True)]


def _roll_out(
    policy: Policy,
    costs: PieceCosts,
    lists: Sequence[Pieces],
    memory_bytes: Sequence[float],
    shape: tuple[int, int],
    *,
    is_drawn: bool,
) -> tuple[list[list[Pieces]], Tensor, Tensor]:
    """Place all pieces (tables or parts of tables) of several tasks. All tasks must have equally many pieces. If
    `is_drawn`, each piece's device is drawn by the policy's probabilities; else it is the likeliest device.

    `shape` is (plans of each task, devices). Return three arrays. The first has the device of each piece, in a row
    for each plan of each task. The second has the rewards [tasks, plans], -1 for a plan in which a piece found no
    room. The third has the plans' log-probabilities [tasks, plans].
    """
    ordered = [costs.ordered(pieces) for pieces in lists]
    tables = policy.represent(torch.tensor([_features(costs, pieces) for pieces in ordered]))
    alone = torch.tensor(np.array([costs.alone(pieces) for pieces in ordered]))
    sizes = torch.tensor(np.array([costs.sizes(pieces) for pieces in ordered]))
    mean_s, memory = alone.sum(dim=1)[:, None] / shape[1], torch.tensor(memory_bytes, dtype=torch.float64)[:, None]
    shares = torch.stack((alone / mean_s, sizes / memory), dim=-1)
    left = torch.cat((shares[..., :1], shares.flip(1).cumsum(dim=1).flip(1) / shape[1]), dim=-1).float()
    held, seconds = torch.zeros(len(lists), *shape, 32), torch.zeros(len(lists), *shape, dtype=torch.float64)
    size, log_chances = torch.zeros_like(seconds), torch.zeros(len(lists), shape[0])
    is_stuck = torch.zeros(len(lists), shape[0], dtype=torch.bool)
    sets: list[list[Pieces]] = [[()] * shape[1] for _ in range(len(lists) * shape[0])]
    for number in range(sizes.shape[1]):
        homes = torch.from_numpy(costs.homes_of(tuple(pieces[number] for pieces in ordered)))[:, None, None]
        may_be_on = (homes < 0) | (homes == torch.arange(shape[1]))
        fits = (size + sizes[:, number, None, None] <= memory[..., None]) & may_be_on
        has_none = ~fits.any(dim=-1)
        loads = torch.stack((seconds / mean_s[..., None], size / memory[..., None]), dim=-1).float()
        chances = policy(tables[:, number], left[:, number], held, loads, fits | (has_none[..., None] & may_be_on))
        drawn = chances.exp().flatten(0, 1).multinomial(1) if is_drawn else chances.argmax(dim=-1)
        device = drawn.view(len(lists), shape[0], 1)
        is_chosen = torch.zeros_like(chances).scatter(-1, device, 1.0)
        held = held + is_chosen[..., None] * tables[:, None, None, number]
        size = size + is_chosen * sizes[:, number, None, None]
        log_chances, is_stuck = log_chances + chances.gather(-1, device).squeeze(-1), is_stuck | has_none
        chosen = [*enumerate(device.flatten().tolist())]
        for row, place in chosen:
            sets[row][place] += (ordered[row // shape[0]][number],)
        cost = torch.from_numpy(costs([sets[row][place] for row, place in chosen]))
        seconds = seconds.scatter(-1, device, cost.view_as(device))
    rewards = torch.where(is_stuck, -1.0, seconds.amin(dim=-1) / seconds.amax(dim=-1)).float()
    return sets, rewards, log_chances


def train_policy(
    cost: SetCost,
    batch_size: int,
    seed: int,
    num_updates: int = NUM_UPDATES,
    sizes: TaskSizes = SMALL,
    start: Policy | None = None,
) -> Policy:
    """Train a placement policy on tasks of random tables. `sizes` has the ranges of the numbers of tables and devices
    of a task. Training continues from the policy `start`, or begins with random weights if it is None.

    Training uses one thread. `batch_size` must be the batch size that `cost` assumes: it determines how often a batch
    looks up the same row.
    """
    empty = replace(NEUROSHARD, num_devices=_POOL_SIZE, batch_size=batch_size)
    pool = generate_tasks(1, seed, empty, (_POOL_SIZE, _POOL_SIZE + 1))[0]
    rng, pieces, past = np.random.default_rng(seed), whole_tables(pool), []
    with repeatable(seed):
        policy = Policy() if start is None else deepcopy(start)
        if start is None:
            features = torch.tensor(_features(PieceCosts(pool, cost), pieces))
            policy.scale = torch.stack((features.mean(dim=0), features.std(dim=0) + 1e-3))
        optimizer = Adam(policy.parameters(), lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, num_updates)
        for _ in range(num_updates):
            costs, devices = PieceCosts(pool, cost), int(rng.integers(*sizes.num_devices, endpoint=True))
            num_tables = int(rng.integers(*sizes.num_tables, endpoint=True))
            lists = [
                tuple(pieces[pick] for pick in rng.choice(_POOL_SIZE, num_tables, replace=False))
                for _ in range(NUM_TASKS)
            ]
            held = np.array([costs.sizes(each) for each in lists])
            memory = np.maximum(held.sum(axis=1) / devices * rng.uniform(*SLACK, NUM_TASKS), held.max(axis=1))
            _, rewards, log_chances = _roll_out(
                policy, costs, lists, memory.tolist(), (NUM_PLANS, devices), is_drawn=True
            )
            deviation, mean = torch.std_mean(rewards, dim=1, keepdim=True)
            optimizer.zero_grad()
            torch.autograd.backward(-(log_chances * (rewards - mean) / (deviation + 0.01)).mean())
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            past.append(mean.mean())
        policy.mean_reward = torch.stack(past[-20:]).mean()
    return policy


def autoshard(task: Task, cost: SetCost, seed: int, policy: Policy | None = None) -> PlacementPlan:
    """Return the cheapest of a policy's placement plans: of the likeliest plan and NUM_DRAWN random plans.

    If no policy is given, one is trained for the cost on tasks of the default sizes, `SMALL`. Random plans help on
    tasks larger than those of training. If no plan fits the devices' memory, the likeliest plan is repaired. Raises
    ConfigError if the repair finds no plan that fits.
    """
    policy, costs = policy or train_policy(cost, task.batch_size, seed), PieceCosts(task, cost)
    with repeatable(seed), torch.no_grad():
        asked = (policy, costs, [whole_tables(task)], [task.memory_bytes])
        likeliest, of_likeliest, _ = _roll_out(*asked, (1, task.num_devices), is_drawn=False)
        drawn, rewards, _ = _roll_out(*asked, (NUM_DRAWN, task.num_devices), is_drawn=True)
    pairs = zip((*likeliest, *drawn), (*of_likeliest[0], *rewards[0]), strict=True)
    found = [held for held, reward in pairs if reward >= 0]
    best = min(found, key=lambda held: float(costs(held).max()), default=likeliest[0])
    return plan_of(costs, tuple(best), "autoshard")
