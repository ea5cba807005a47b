"""The cost net: how well it ranks sets that it never saw, when it is used, and what is kept of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from reference_models.distributed.search import net as net_module
from reference_models.distributed.search.costs import Additive, Bandwidth, Seconds, Sets, over_sets
from reference_models.distributed.search.known_sets import ask_sets, draw_sets
from reference_models.distributed.search.net import Net, choose, net_of, repeatable, train_net
from reference_models.distributed.search.task import EmbeddingTable
from reference_models.distributed.search.tasks import generate_tasks
from reference_models.process.errors import ArtifactError

pytestmark = pytest.mark.numeric

(TASK,) = generate_tasks(1, 3, num_tables=(24, 25))
BANDWIDTH = Bandwidth(batch_size=TASK.batch_size, memory_bandwidth=2e12)


@pytest.fixture(scope="module")
def net() -> Net:
    return train_net(BANDWIDTH, TASK.tables, TASK.batch_size, seed=1)


def unseen(seed: int) -> list[list[EmbeddingTable]]:
    """Sets of the task's tables, whole and cut, from draws of our own."""
    rng = np.random.default_rng(seed)
    tables = [table.with_columns(max(4, table.dim >> int(rng.integers(3)))) for table in TASK.tables]
    return [
        [*rng.choice(np.array(tables, dtype=object), size=rng.integers(1, 13), replace=False)] for _ in range(200)
    ]


@pytest.mark.slow
def test_a_net_ranks_sets_that_it_never_saw(net: Net) -> None:
    assert net.tau >= 0.88
    sets = unseen(5)
    assert kendalltau(net(sets), BANDWIDTH(sets)).statistic >= 0.88
    assert np.abs(np.log(net(sets) / BANDWIDTH(sets))).mean() < 0.1
    assert net.device_s == pytest.approx(BANDWIDTH.device_s) and net.additive_tau > 0.999
    assert net.gain[1] < 0 and choose(net, BANDWIDTH) == Additive(BANDWIDTH, net.device_s), "bandwidths add up"
    assert net.additive_error == net.repeat_error == 0 < net.error and net.excess == (0, 0)


def side_by_side(sets: Sets) -> Seconds:
    """A cost that does not add up: the more tables, the more of them are looked up at a time."""
    return BANDWIDTH(sets) / np.array([len(each) for each in sets])


@pytest.mark.slow
def test_a_net_is_used_where_sets_do_not_add_up() -> None:
    net = train_net(side_by_side, TASK.tables, TASK.batch_size, seed=1, num_sets=1500)
    assert 0 < net.gain[0] <= net.additive_error - net.error <= net.gain[1] and net.tau > net.additive_tau
    assert choose(net, side_by_side) is net


@dataclass(frozen=True)
class OfEachTable:
    """Costs that no feature of a table tells: drawn for each, added up over sets, with a little noise of each set."""

    seed: int

    def __call__(self, sets: Sets, /) -> Seconds:
        drawn = over_sets(sets, lambda tables: np.array([self._of(table) for table in tables]))
        return drawn * np.exp(np.random.default_rng(self.seed).normal(0, 0.02, len(sets)))

    def _of(self, table: EmbeddingTable) -> float:
        draws = np.random.default_rng([self.seed, table.num_embeddings, table.dim])
        return float(1e-4 * np.exp(draws.normal(0, 2)))


@pytest.mark.slow
def test_a_net_that_loses_to_single_tables_is_not_used() -> None:
    cost = OfEachTable(1)
    loser = train_net(cost, TASK.tables, TASK.batch_size, seed=1, num_sets=300)
    assert loser.tau < loser.additive_tau
    assert choose(loser, cost) == Additive(cost, loser.device_s)


@pytest.mark.slow
def test_the_rule_asks_for_more_than_as_good(net: Net) -> None:
    """By the interval of what it gains, not by how well it ranks, and where sums are wrong by more than the noise."""
    wrong = replace(net, excess=(0.1, 0.2), tau=0.9, additive_tau=0.5)
    for bounds in ((0.0, 0.1), (-0.01, 0.2), (float("nan"), float("nan"))):
        assert choose(replace(wrong, gain=bounds), BANDWIDTH) != net
        assert choose(replace(wrong, gain=(0.01, 0.02), excess=bounds), BANDWIDTH) != net
    assert choose(better := replace(wrong, gain=(0.01, 0.02)), BANDWIDTH) is better


@pytest.mark.slow
def test_a_net_begins_with_another(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few sets of another rate are learnt better from a net of many than from none."""
    monkeypatch.setattr(net_module, "_NUM_STEPS", 200)
    slower = replace(BANDWIDTH, memory_bandwidth=1e11, device_s=2e-3)
    begun, alone = (
        train_net(slower, TASK.tables, TASK.batch_size, seed=2, num_sets=60, start=start) for start in (net, None)
    )
    sets = unseen(6)
    taus = [kendalltau(each(sets), slower(sets)).statistic for each in (begun, alone)]
    assert taus[0] > taus[1] and taus[0] > 0.8


@pytest.mark.slow
def test_a_batch_of_sets_costs_what_each_does(net: Net) -> None:
    sets = [[], *unseen(7)[:20], []]
    assert net(sets).tolist() == pytest.approx([float(net([each])[0]) for each in sets], rel=1e-4)
    assert net(sets)[[0, -1]].tolist() == [0, 0] and net([]).shape == (0,) and net([[]]).tolist() == [0]
    assert net([sets[1][::-1]])[0] == pytest.approx(net([sets[1]])[0], rel=1e-4)


@pytest.mark.slow
def test_a_kept_net_is_the_same(net: Net) -> None:
    again = net_of(net.arrays())
    sets = unseen(8)
    assert np.array_equal(again(sets), net(sets))
    assert (again.tau, again.additive_tau) == (net.tau, net.additive_tau)
    assert replace(again, layers=net.layers) == net and again.spread == 0
    spread = replace(net, spread=0.25)
    assert net_of(spread.arrays()).spread == 0.25
    for name, array in net.arrays().items():
        for damaged in ({}, {name: np.zeros(5)}, {name: np.full(array.shape, np.nan)}):
            rest = {other: value for other, value in net.arrays().items() if other != name}
            with pytest.raises(ArtifactError, match="cost net"):
                net_of(rest | damaged)
    with pytest.raises(ArtifactError, match="cost net"):
        net_of({**net.arrays(), "more": np.zeros(1)})


@dataclass(frozen=True)
class PlantedCost:
    """Costs of tables that add up but for a share of each other table of the set, measured with noise."""

    interaction: float
    noise: float

    def __call__(self, sets: Sets, /) -> Seconds:
        return self.halves_of(sets).mean(axis=1)

    def halves_of(self, sets: Sets) -> Seconds:
        more = np.array([1 + self.interaction * (len(each) - 1) for each in sets])
        noise = np.random.default_rng(2).normal(0, self.noise, (len(sets), 2))
        return (replace(BANDWIDTH, device_s=0.0)(sets) * more)[:, None] * np.exp(noise)

    def spread_of(self, tables: Iterable[EmbeddingTable]) -> float | None:
        return 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interaction", "noise", "has_something", "is_taken"),
    [
        pytest.param(0.0, 0.02, False, False, id="nothing is left to learn"),
        pytest.param(0.3, 0.02, True, True, id="more than the noise"),
        pytest.param(0.01, 0.3, False, False, id="less than the noise"),
    ],
)
def test_a_net_is_taken_where_sums_are_wrong_by_more_than_the_noise(
    monkeypatch: pytest.MonkeyPatch, interaction: float, noise: float, has_something: bool, is_taken: bool
) -> None:
    monkeypatch.setattr(net_module, "_NUM_STEPS", 150)
    cost = PlantedCost(interaction, noise)
    net = train_net(cost, TASK.tables[:6], TASK.batch_size, seed=1, num_sets=300)
    assert (net.has_something_to_learn, net.is_better) == (has_something, is_taken)
    assert (choose(net, cost) is net) == is_taken and (net.num_sets, net.spread) == (300, 0.5)
    assert net.repeat_error == pytest.approx(noise * 2 / np.pi**0.5, rel=0.25), "of two normal draws"
    assert net.excess[0] <= net.additive_error - net.repeat_error <= net.excess[1]
    assert (net.additive_error > 5 * net.repeat_error) == has_something


def test_what_is_measured_is_asked_for_at_once() -> None:
    """Sets and tables alone, so that they take turns; all of one half of the rounds predicts the other."""
    asked: list[int] = []

    class Counted(PlantedCost):
        def __call__(self, sets: Sets, /) -> Seconds:
            asked.append(len(sets))
            return super().__call__(sets)

    sets = draw_sets(TASK.tables[:4], 20, 3)
    known = ask_sets(cost := Counted(0.1, 0.2), sets)
    tables = {table for each in sets for table in each}
    assert asked == [20 + len(tables)] and {*known.alone} == tables
    assert np.array_equal(known.seconds, cost.halves_of([*sets, *([each] for each in known.alone)])[:20])
    assert np.ptp(ask_sets(BANDWIDTH, sets).seconds, axis=1).tolist() == [0] * 20, "what is computed has no noise"


@pytest.mark.slow
def test_the_same_training_gives_the_same_net(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_module, "_NUM_STEPS", 20)
    nets = [train_net(BANDWIDTH, TASK.tables[:5], 64, seed=seed, num_sets=50) for seed in (1, 1, 2)]
    first, same, other = ({name: array.tolist() for name, array in net.arrays().items()} for net in nets)
    assert first == same != other


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_threads_and_generator_are_as_before() -> None:
    state = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), repeatable(3):
        assert torch.get_num_threads() == 1
        torch.rand(3)
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2 and torch.equal(torch.get_rng_state(), state)
