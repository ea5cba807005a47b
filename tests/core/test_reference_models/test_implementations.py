"""What every implementation of one process promises: order, repeatability, no trace of warm-up, plain refusals."""

from collections.abc import Callable

import pytest
from toy_clicks import BATCH, TRAIN_SAMPLES, MakeSpec, flatten, is_same

from reference_models.data.store.dataset import Batch
from reference_models.data.store.store import StoreSplit
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.process.errors import ConfigError, NotFiniteError
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.read_ahead import DEPTH
from reference_models.training.workload import TrainCounts, Workload, WorkloadSpec

pytestmark = pytest.mark.numeric

IMPLEMENTATIONS = {"reference": ReferenceWorkload, "optimized": OptimizedWorkload}
Build = Callable[[WorkloadSpec], Workload]


@pytest.fixture(params=IMPLEMENTATIONS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def build(name: str) -> Build:
    def built(spec: WorkloadSpec) -> Workload:
        workload = find_implementation("dlrm", name).load(spec, SingleProcess())
        workload.build()
        return workload

    return built


def test_is_found_under_its_name(name: str, build: Build, make_spec: MakeSpec) -> None:
    assert type(build(make_spec())) is IMPLEMENTATIONS[name]


def test_another_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown implementation 'referense'.*'reference'"):
        find_implementation("dlrm", "referense")


@pytest.mark.slow
def test_same_seed_gives_the_same_sequence_of_qualities_bit_for_bit(build: Build, make_spec: MakeSpec) -> None:
    sequences = []
    for seed in (5, 5, 6):
        workload = build(make_spec(seed=seed))
        qualities = []
        for _ in range(3):
            workload.train(10)
            qualities.append(workload.evaluate())
        sequences.append((qualities, flatten(workload.state())))
    assert sequences[0][0] == sequences[1][0]
    assert is_same(sequences[0][1], sequences[1][1])
    assert sequences[0][0] != sequences[2][0]


def test_warm_up_leaves_no_trace(
    name: str, build: Build, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = build(make_spec())
    state = flatten(warm.state())
    monkeypatch.setattr(IMPLEMENTATIONS[name], "warm_up", lambda self: None)
    assert is_same(state, flatten(build(make_spec()).state()))
    assert warm.state()["step"] == 0


def test_build_reads_no_samples(build: Build, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(self: StoreSplit, start: int, stop: int) -> Batch:
        raise AssertionError("build touched the dataset")

    monkeypatch.setattr(StoreSplit, "read", touch)
    workload = build(make_spec())
    assert workload.hyperparameters()["train_samples"] == TRAIN_SAMPLES
    with pytest.raises(AssertionError, match="touched"):
        workload.train(1)


def test_batches_come_in_dataset_order_hardly_ahead_of_what_was_asked_and_wrap_at_the_end_of_the_epoch(
    build: Build, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[tuple[int, int]] = []
    read = StoreSplit.read

    def noting(self: StoreSplit, start: int, stop: int) -> Batch:
        ranges.append((start, stop))
        return read(self, start, stop)

    monkeypatch.setattr(StoreSplit, "read", noting)
    workload = build(make_spec())
    counts = [workload.train(20) for _ in range(4)]
    assert [(count.num_steps, count.num_samples) for count in counts] == [
        (20, 20 * BATCH),
        (20, 20 * BATCH),
        (10, 10 * BATCH),
        (20, 20 * BATCH),
    ]
    expected = [(step * BATCH, (step + 1) * BATCH) for step in [*range(50), *range(20)]]
    assert ranges[: len(expected)] == expected, "the last 17 samples are dropped"
    ahead = [(step * BATCH, (step + 1) * BATCH) for step in range(20, 20 + DEPTH)]
    assert ranges[len(expected) :] == ahead[: len(ranges) - len(expected)]


def test_how_training_is_cut_into_calls_does_not_matter(build: Build, make_spec: MakeSpec) -> None:
    at_once, in_parts = build(make_spec()), build(make_spec())
    at_once.train(12)
    for num_steps in (1, 4, 0, 7):
        assert in_parts.train(num_steps) == TrainCounts(num_steps=num_steps, num_samples=num_steps * BATCH)
    assert is_same(flatten(at_once.state()), flatten(in_parts.state()))


@pytest.mark.slow
def test_evaluation_changes_nothing_and_ignores_its_batch_size(build: Build, make_spec: MakeSpec) -> None:
    workload = build(make_spec())
    workload.train(5)
    state = flatten(workload.state())
    quality = workload.evaluate()
    assert is_same(state, flatten(workload.state()))
    other = build(make_spec(train={"eval_batch_size": 7}))
    other.train(5)
    assert other.evaluate() == pytest.approx(quality, abs=1e-5)


def test_diverged_training_is_an_error_at_the_end_of_the_block(build: Build, make_spec: MakeSpec) -> None:
    workload = build(make_spec(train={"opt_name": "sgd", "opt_base_learning_rate": 1e30}))
    with pytest.raises(NotFiniteError, match=r"loss is not finite after step 20.*lower opt_base_learning_rate"):
        workload.train(20)


def test_several_processes_are_refused(name: str, make_spec: MakeSpec) -> None:
    class TwoProcesses(SingleProcess):
        size = 2

    with pytest.raises(ConfigError, match=rf"'{name}' trains in one process, not in 2"):
        find_implementation("dlrm", name).load(make_spec(), TwoProcesses()).build()
