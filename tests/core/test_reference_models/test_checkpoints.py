"""Checkpoints of rows that changed: what they restore, what they weigh, and what their codes lose."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpointing import MemoryStore, begin
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_clicks import BATCH, MULTI_HOT, NUM_EMBEDDINGS, TRAIN_SAMPLES, MakeSpec, flatten, is_same, spec_maker

from reference_models.config.checkpoint import CheckpointConfig, parse_checkpoint
from reference_models.data.store.dataset import Batch
from reference_models.process.errors import ArtifactError, ConfigError, NotFiniteError
from reference_models.process.world import SingleProcess
from reference_models.training.checkpoints import (
    TouchedRows,
    is_base_due,
    join,
    list_state,
    load_state,
    pack,
    pack_rows,
    unpack,
)
from reference_models.training.optimizers import SparseAdagrad

pytestmark = pytest.mark.numeric

POLICIES = ("full", "one_shot", "consecutive", "intermittent")
EPOCH = TRAIN_SAMPLES // BATCH


def copy_of(loop: Any) -> dict[str, torch.Tensor]:
    tables, others = list_state(loop)
    found = {**{f"model.{name}": table for name, table in tables.items()}, **others}
    return {name: tensor.clone() for name, tensor in found.items()}


def assert_same(restored: Any, expected: Any) -> None:
    assert restored.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(restored[name], tensor), name


IDS = st.tuples(*(st.integers(0, rows - 1) for rows in np.repeat(NUM_EMBEDDINGS, MULTI_HOT)))
STEPS = st.lists(st.lists(IDS, min_size=4, max_size=4), min_size=1, max_size=9)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(8))
@given(steps=STEPS, every=st.integers(1, 3), opt_name=st.sampled_from(["adagrad", "rowwise_adagrad", "sgd"]))
def test_in_32_bits_every_checkpoint_restores_the_state_bit_for_bit(
    policy: str, data_dir: Path, steps: Any, every: int, opt_name: str
) -> None:
    """Whatever rows batches touch: tables, optimizer sums of touched and untouched rows, layers, generator."""
    store = MemoryStore(32)
    spec = spec_maker(data_dir)(train={"global_batch_size": 4, "opt_name": opt_name})
    loop, made = begin(spec, store, steps=every, policy=policy)
    batches = iter([Batch(torch.ones(4, 4), torch.tensor(ids), torch.tensor([0.0, 1, 1, 0])) for ids in steps])
    loop.read_batch = lambda *_: next(batches)
    expected = []
    for number in range(1, len(steps) + 1):
        loop.train(1)
        expected += [copy_of(loop)] if number % every == 0 else []
    made.finish()
    assert made.error is None and len(made.taken) == len(store.kept) == len(expected)
    for index, state in enumerate(expected):
        assert_same(store.read(index), state)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("implementation", ["reference", "optimized"])
def test_what_is_restored_and_the_rest_of_the_epoch_are_the_uninterrupted_run(
    policy: str, implementation: str, make_spec: MakeSpec
) -> None:
    spec = make_spec(train={"opt_adagrad_learning_rate_decay": 0.01})
    whole, _ = begin(spec, MemoryStore(32), steps=EPOCH, implementation=implementation)
    whole.train(EPOCH)
    store = MemoryStore(32)
    lost, made = begin(spec, store, steps=7, implementation=implementation, policy=policy)
    lost.train(23)
    made.finish()
    (last,) = made.taken[-1:]
    again, _ = begin(spec, MemoryStore(32), steps=EPOCH, implementation=implementation)
    load_state(again, store.read(last["index"]), last["samples_count"])
    assert last["samples_count"] == 21 * BATCH and again.train(EPOCH).num_steps == EPOCH - 21
    assert is_same(flatten(again.state()), flatten(whole.state()))
    assert again.evaluate() == whole.evaluate()


def test_all_and_only_the_rows_that_were_looked_up_are_marked() -> None:
    touched = TouchedRows((5, 2, 4), (1, 1, 2))
    touched.mark(torch.tensor([[4, 0, 1, 3], [4, 1, 1, 1]], dtype=torch.int32))
    assert [rows.tolist() for rows in touched.list_rows()] == [[4], [0, 1], [1, 3]]


def test_the_policies_take_a_base_where_they_are_to() -> None:
    assert is_base_due("full", [0.1])
    assert not is_base_due("one_shot", [0.9] * 50) and not is_base_due("consecutive", [0.9] * 50)
    # 1 + .2 + .4 <= 3 x .4 is not so, 1 + .2 + .4 + .6 <= 4 x .6 is.
    assert [is_base_due("intermittent", [0.2, 0.4, 0.6][:number]) for number in range(4)] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("policy", ["one_shot", "consecutive"])
def test_increments_hold_what_changed_since_what_they_rest_on(policy: str, make_spec: MakeSpec) -> None:
    store = MemoryStore(32)
    loop, made = begin(make_spec(), store, policy=policy)
    ids = [loop.data.train.read(at * BATCH, (at + 1) * BATCH).indices for at in range(4)]
    loop.train(4)
    made.finish()
    since = ids[1:] if policy == "one_shot" else ids[-1:]
    touched = TouchedRows(NUM_EMBEDDINGS, MULTI_HOT)
    for each in since:
        touched.mark(each)
    assert made.taken[-1]["num_rows"] == touched.is_touched.sum()
    assert store.chains[-1] == ((0, 3) if policy == "one_shot" else (0, 1, 2, 3))


ROWS = st.integers(0, 2**32 - 1).map(lambda seed: torch.randn(9, 8, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize(("bits", "num_bytes"), [(8, 8 + 8), (4, 4 + 4), (2, 2 + 4)])
@given(rows=ROWS, scale=st.floats(1e-3, 1e3))
def test_rows_are_within_half_a_step_of_their_codes(
    bits: int, num_bytes: int, rows: torch.Tensor, scale: float
) -> None:
    """Plus the rounding of scale and offset: float16 below 8 bits, float32 and torch's 1e-8 beside the range else."""
    rows = rows * scale
    codes = pack(rows, bits, "plain")
    assert codes.shape == (9, num_bytes) and codes.dtype == torch.uint8
    low, high = rows.min(1, keepdim=True).values, rows.max(1, keepdim=True).values
    step = (high - low) / (2**bits - 1)
    rounded = (low.abs() + (high - low) + step) * (2**-10 if bits < 8 else 2**-21) + 1e-7
    assert ((unpack(codes, bits) - rows).abs() <= step / 2 + rounded).all()


@pytest.mark.parametrize("bits", [4, 2])
@settings(max_examples=examples(20))
@given(rows=ROWS)
def test_adaptive_rounding_is_on_no_row_worse_than_plain(bits: int, rows: torch.Tensor) -> None:
    """In squared error, but for the last digits of its sum."""
    plain, adaptive = (unpack(pack(rows, bits, how), bits) - rows for how in ("plain", "adaptive"))
    assert (adaptive.square().sum(1) <= plain.square().sum(1) * (1 + 1e-5)).all()


@pytest.mark.parametrize("bits", [4, 2])
def test_adaptive_rounding_gains_on_trained_like_rows(bits: int) -> None:
    rows = torch.randn(500, 64, generator=torch.Generator().manual_seed(3))
    plain, adaptive = (float((unpack(pack(rows, bits, how), bits) - rows).norm()) for how in ("plain", "adaptive"))
    assert adaptive < plain * {4: 0.95, 2: 0.8}[bits]


@pytest.mark.parametrize(
    ("num_rows", "rows", "num_bytes"), [(800, 24, 96), (800, 25, 100), (800, 26, 100), (7, 7, 1)]
)
def test_rows_are_named_by_whatever_is_smaller(num_rows: int, rows: int, num_bytes: int) -> None:
    found = pack_rows(torch.arange(rows), num_rows)
    assert found.nbytes == num_bytes


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_training_goes_on_from_what_was_restored(bits: int, make_spec: MakeSpec) -> None:
    """Right after a checkpoint the tables become what it restores; with 32 bits nothing changes."""
    store, exact = MemoryStore(bits), MemoryStore(32)
    loop, made = begin(make_spec(), store, steps=10, bits=bits, restore_after={1})
    same, _ = begin(make_spec(), exact, steps=10, restore_after={0, 1, 3})
    plain, _ = begin(make_spec(), MemoryStore(32), steps=EPOCH)
    for each in (loop, same, plain):
        each.train(20)
    assert_same(copy_of(loop), store.read(1))
    assert made.num_restores == 1 and not is_same(flatten(loop.state()), flatten(plain.state()))
    for each in (loop, same, plain):
        each.train(EPOCH)
    made.finish()
    assert is_same(flatten(same.state()), flatten(plain.state()))
    assert 0 < made.taken[0]["mean_l2"] < 1


def test_values_that_float16_scales_cannot_hold_are_no_checkpoint(make_spec: MakeSpec) -> None:
    loop, made = begin(make_spec(), MemoryStore(4), bits=4)
    with torch.no_grad():
        loop.model.embedding_bags[1].weight[2, 0] = 1e6
    loop.train(3)
    made.finish()
    assert isinstance(made.error, NotFiniteError) and "checkpoint 0" in str(made.error) and made.taken == []


@pytest.mark.slow
def test_a_failure_to_write_ends_checkpoints_and_not_training(make_spec: MakeSpec) -> None:
    store = MemoryStore(32)
    loop, made = begin(make_spec(), store, steps=5, policy="consecutive")
    plain, _ = begin(make_spec(), MemoryStore(32), steps=EPOCH)

    def fail(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    loop.train(10)
    made._wait()
    store.write = fail  # type: ignore[method-assign]
    for each in (loop, plain):
        each.train(EPOCH)
    made.finish()
    assert isinstance(made.error, OSError) and [each["index"] for each in made.taken] == [0, 1]
    assert made.restore_s is not None


def test_a_failure_to_remove_ends_checkpoints_and_keeps_the_newest(make_spec: MakeSpec) -> None:
    store = MemoryStore(32)
    loop, made = begin(make_spec(), store, policy="full", keep=1)

    def fail(index: int) -> None:
        raise OSError(30, "Read-only file system")

    store.remove = fail  # type: ignore[method-assign]
    assert loop.train(5).num_steps == 5
    made.finish()
    assert isinstance(made.error, OSError) and [each["index"] for each in made.taken] == [0, 1]
    assert store.read(1).keys() == store.read(0).keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda chain: chain[1].update({"rows.t": torch.tensor([0, 5], dtype=torch.int32)}), "model.t has rows"),
        (lambda chain: chain[1].update({"rows.t": torch.tensor([-1, 0], dtype=torch.int32)}), "model.t has rows"),
        (lambda chain: chain[1].update({"rows.t": torch.tensor([255], dtype=torch.uint8)}), "model.t has rows"),
        (lambda chain: chain[1].update({"codes.t": torch.zeros(2, 17, dtype=torch.uint8)}), "model.t has rows"),
        (lambda chain: chain[1].update({"rows.t": torch.tensor(0)}), "model.t has rows"),
        (lambda chain: chain[1].update({"rows.t": torch.tensor([[0, 4]])}), "model.t has rows"),
        (lambda chain: [part.update({"state.t.sum": torch.tensor(1.0)}) for part in chain], "t.sum has rows"),
        (lambda chain: chain[0].pop("codes.t"), "model.t has rows"),
        (lambda chain: chain[0].update({"codes.t": torch.zeros(5, 4)}), "no rows of 8 bits"),
        (lambda chain: chain[0].update({"codes.t": torch.zeros(5, 8, dtype=torch.uint8)}), "no rows of 8 bits"),
    ],
)
def test_parts_that_do_not_belong_together_are_damage(change: Any, message: str) -> None:
    chain = [
        {"codes.t": torch.zeros(5, 12, dtype=torch.uint8)},
        {"codes.t": torch.zeros(2, 12, dtype=torch.uint8), "rows.t": torch.tensor([0, 4], dtype=torch.int32)},
    ]
    assert join(chain, 8)["model.t"].shape == (5, 4)
    change(chain)
    with pytest.raises(ArtifactError, match=message):
        join(chain, 8)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"every": 5}, "less than a batch"),
        ({"bits": 4}, "rows of a multiple of 2 values; embedding_bags.0.weight has rows of 3"),
    ],
)
def test_what_no_checkpoint_can_be_made_of_is_refused_when_it_is_built(
    config: dict[str, Any], message: str, make_spec: MakeSpec
) -> None:
    from reference_models.training.checkpoints import Checkpoints

    loop = begin(make_spec(model={"embedding_dim": 3, "bottom_mlp": [8, 3]}), MemoryStore(32))[0]
    made = Checkpoints(loop, CheckpointConfig(**{"every": BATCH, **config}), MemoryStore(32), ())
    with pytest.raises(ConfigError, match=message):
        made.begin()


def test_own_optimizers_and_tables_are_refused_where_nobody_knows_what_changed(make_spec: MakeSpec) -> None:
    loop, made = begin(make_spec(), MemoryStore(32))
    loop.optimizers[0].__class__ = type("Momentum", (SparseAdagrad,), {})
    with pytest.raises(ConfigError, match="own Momentum and adagrad may change rows"):
        made.begin()
    loop.optimizers = loop.optimizers[1:]
    with pytest.raises(ConfigError, match="expected one for each sparse feature"):
        made.begin()


def test_checkpoints_are_asked_for_in_samples_or_percent() -> None:
    assert parse_checkpoint({}) is None and parse_checkpoint({"every": "never", "bits": 4}) is None
    for every, samples in ((300, 300), ("5%", 50), ("0.15%", 2), ("100%", 1000)):
        config = parse_checkpoint({"every": every})
        assert config is not None and config.interval(1000) == samples
    for every in (0, -3, "0%", "101%", "5 %", "5", "-5%", "٥%", 0.5, True):
        with pytest.raises(ConfigError, match=r"checkpoint\.every is"):
            parse_checkpoint({"every": every})
    with pytest.raises(ConfigError, match="Give 4 or 2 bits"):
        parse_checkpoint({"bits": 8, "rounding": "adaptive"})
    with pytest.raises(ConfigError, match=r"checkpoint\.bits is 3, expected 2, 4, 8 or 32"):
        parse_checkpoint({"bits": 3})


def test_a_workload_builds_without_checkpoints(make_spec: MakeSpec) -> None:
    from reference_models.dlrm.reference import ReferenceWorkload

    loop = ReferenceWorkload(make_spec(), SingleProcess())
    loop.build()
    assert loop.checkpoints is None and loop.train(2).num_steps == 2
