"""Maps from ids to rows: within the budget, as short oracles say, and applied wherever a split is opened."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rounding import is_as_near, sway_of, weights_of
from sklearn.metrics import adjusted_rand_score
from small_set import keeping_times, map_array
from toy_clicks import SMOOTH

from reference_models.config.id_map import IdMapConfig
from reference_models.config.records import read_section
from reference_models.config.sections import DataConfig, RuntimeConfig, parse_train
from reference_models.data.id_maps.clusters import cluster
from reference_models.data.id_maps.maps import (
    MIN_SEEN,
    map_by_class,
    map_by_embedding,
    map_by_frequency,
    map_by_hash,
    map_by_quotient,
)
from reference_models.data.registry import compute_dataset_digest, generate_dataset, open_dataset
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import parse_model
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import WorkloadSpec

pytestmark = pytest.mark.numeric
DATA = DataConfig(
    kind="click_log", name="few", train_samples=2048, eval_samples=512, num_dense=3, num_embeddings=(300, 150, 500),
    multi_hot=(1, 2, 3), seed=3, sha256=None,
    parameters={
        "zipf_exponent": 1.0, "effect_scale": 1.0, "interaction_scale": 1.0, "dense_scale": 0.2,
        "num_interactions": 1,
    },
)  # fmt: skip
SIZES = st.tuples(st.integers(201, 5000), st.floats(0.01, 0.99)).map(lambda pair: (pair[0], int(pair[0] * pair[1])))
QUOTIENT = replace(DATA, id_map=IdMapConfig(kind="quotient_remainder", budget=0.2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("few")
    generate_dataset(path, DATA, num_threads=1)
    return path


def quotient_maps() -> dict[int, Any]:
    return {0: map_by_quotient(300, 60), 2: map_by_quotient(500, 100)}


def draw(seed: int, num_ids: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.poisson(40 / np.arange(1, num_ids + 1)), generator.normal(size=(num_ids, 4)).astype(np.float32)


@given(size=SIZES, seed=st.integers(0, 99))
def test_rows_used_never_exceed_the_budget(size: tuple[int, int], seed: int) -> None:
    num_ids, num_rows = size
    counts, embeddings = draw(seed, num_ids)
    makers = {
        1: [
            lambda: map_by_hash(num_ids, num_rows),
            lambda: map_by_frequency(counts, num_rows),
            lambda: map_by_embedding(counts, embeddings, num_rows, seed),
            lambda: map_by_class(np.arange(num_ids) % 32, num_rows),
        ],
        2: [lambda: map_by_quotient(num_ids, num_rows)],
    }
    for width, made in makers.items():
        for rows in (make() for make in made if num_rows >= width):
            assert (rows.dtype, rows.shape) == (np.int32, (num_ids, width))
            assert rows.min() >= 0 and rows.max() < num_rows


@given(size=SIZES)
def test_hashing_is_knuths(size: tuple[int, int]) -> None:
    num_ids, num_rows = size[0], max(1, size[1])
    assert map_by_hash(num_ids, num_rows)[:, 0].tolist() == [
        id_ * 2_654_435_761 % 2**32 % num_rows for id_ in range(num_ids)
    ]


@given(size=SIZES)
def test_quotients_and_remainders_are_as_an_oracle_says(size: tuple[int, int]) -> None:
    num_ids, num_rows = size[0], max(2, size[1])
    fitting = [c for c in range(1, num_ids + 1) if -(-num_ids // c) + c <= num_rows]
    rows = map_by_quotient(num_ids, num_rows).tolist()
    if fitting:
        quotients = -(-num_ids // fitting[0])
        assert rows == [[id_ // fitting[0], quotients + id_ % fitting[0]] for id_ in range(num_ids)]
        assert len({*map(tuple, rows)}) == num_ids  # no two ids have the same pair
    else:
        half, rest = num_rows // 2, num_rows - num_rows // 2
        folded = [id_ * 2_654_435_761 % 2**32 % (half * rest) for id_ in range(num_ids)]
        first = max(folded) // rest + 1
        assert rows == [[id_ // rest, first + id_ % rest] for id_ in folded]


@given(size=SIZES, seed=st.integers(0, 99))
def test_the_hottest_ids_have_rows_of_their_own(size: tuple[int, int], seed: int) -> None:
    num_ids, num_rows = size[0], max(1, size[1])
    counts, _ = draw(seed, num_ids)
    rows = map_by_frequency(counts, num_rows)[:, 0].tolist()
    hot = [id_ for id_ in sorted(range(num_ids), key=lambda id_: (-counts[id_], id_)) if counts[id_]][: num_rows // 2]
    left = num_rows - len(hot)
    expected = [len(hot) + id_ * 2_654_435_761 % 2**32 % left for id_ in range(num_ids)]
    for row, id_ in enumerate(hot):
        expected[id_] = row
    assert rows == expected


def test_planted_clusters_are_found() -> None:
    generator = np.random.default_rng(5)
    classes = generator.integers(0, 24, 3000)
    points = generator.normal(size=(24, 4))[classes] * 3 + generator.normal(size=(3000, 4)) * 0.15
    found = cluster(points.astype(np.float32), generator.pareto(1.0, 3000) + 1, 24, seed=0)
    assert adjusted_rand_score(classes, found) > 0.9


def test_heavy_points_pull_the_centres() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]], np.float32)
    heavy = cluster(points, np.array([1e6, 1e6, 1.0, 1.0, 1.0]), 2, seed=1)
    assert heavy[0] != heavy[1] and len({*heavy[2:]}) == 1  # to part the two heavy ones saves most
    light = cluster(points, np.ones(5), 2, seed=1)
    assert light[0] == light[1] == light[2] == light[3] != light[4]


def test_ids_of_like_embeddings_share_rows_and_rare_ones_are_hashed() -> None:
    num_ids, num_rows = 400, 60
    counts = np.full(num_ids, 10)
    counts[:30], counts[300:] = 1000, MIN_SEEN - 1
    classes = np.arange(num_ids) % 20
    embeddings = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)[classes]
    rows = map_by_embedding(counts, embeddings, num_rows, seed=0)[:, 0]
    assert rows[:30].tolist() == list(range(30))
    share = 270 * 10 / (270 * 10 + 100 * 5)
    num_clusters = round(30 * share)
    assert rows[30:300].min() >= 30 and rows[30:300].max() < 30 + num_clusters
    assert adjusted_rand_score(classes[30:300], rows[30:300]) == 1.0
    hashed = [30 + num_clusters + id_ * 2_654_435_761 % 2**32 % (30 - num_clusters) for id_ in range(300, num_ids)]
    assert rows[300:].tolist() == hashed


def test_a_split_is_read_as_rows_side_by_side(folder: Path) -> None:
    maps = quotient_maps()
    plain = open_dataset(folder, DATA)
    mapped = open_dataset(folder, replace(QUOTIENT, id_maps=maps))
    assert mapped.train.num_embeddings == (60, 150, 100) == QUOTIENT.mapped.num_embeddings
    assert mapped.train.multi_hot == (2, 2, 6) == QUOTIENT.mapped.multi_hot
    for before, after in ((plain.train, mapped.train), (plain.eval, mapped.eval)):
        ids, batch = before.read(100, 200).indices.numpy(), after.read(100, 200)
        expected = np.concatenate([maps[0][ids[:, 0]], ids[:, 1:3], maps[2][ids[:, 3:]].reshape(100, 6)], axis=1)
        assert np.array_equal(batch.indices.numpy(), expected)
        assert torch.equal(batch.dense, before.read(100, 200).dense)
        held = Batch.empty(after, 100, has_int32_ids=True)
        after.read_into(100, 200, held)
        assert torch.equal(held.indices.long(), batch.indices) and torch.equal(held.labels, batch.labels)
        batch.check(after, "mapped", 0)


def test_the_map_is_of_no_concern_to_where_data_lies() -> None:
    assert (
        compute_dataset_digest(QUOTIENT)
        == compute_dataset_digest(replace(QUOTIENT, id_maps=quotient_maps()))
        == compute_dataset_digest(DATA)
    )


def test_without_its_map_a_split_has_sizes_and_cannot_be_read(folder: Path) -> None:
    opened = open_dataset(folder, QUOTIENT)
    assert opened.train.num_embeddings == (60, 150, 100)
    with pytest.raises(DatasetError, match="map of ids to rows is not made yet"):
        opened.train.read(0, 8)


def test_a_split_without_a_large_table_needs_no_map(tmp_path: Path) -> None:
    small = replace(DATA, num_embeddings=(150, 200, 3))
    generate_dataset(tmp_path, small, num_threads=1)
    for kind in ("hash", "quotient_remainder"):
        mapped = open_dataset(tmp_path, replace(small, id_map=IdMapConfig(kind=kind, budget=0.5)))
        plain = open_dataset(tmp_path, small).train
        assert mapped.train.num_embeddings == plain.num_embeddings
        assert torch.equal(mapped.train.read(0, 64).ids, plain.read(0, 64).ids)


def test_an_id_outside_of_its_table_is_named_by_table_and_sample(folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)

    def change(place: Path) -> None:
        ids = map_array(place, "train", "indices")
        ids[17, 4] = 500
        ids.flush()

    keeping_times(damaged, change)
    split = open_dataset(damaged, replace(QUOTIENT, id_maps=quotient_maps())).train
    with pytest.raises(DatasetError, match="train sample 17, sparse feature 2: id 500 is outside its table of 500"):
        split.read(10, 20)


def train(folder: Path, data: DataConfig, implementation: str = "reference", num_steps: int = 20) -> Any:
    table = {"interaction": "dot", "embedding_dim": 4, "bottom_mlp": [4], "top_mlp": [8, 1]}
    spec = WorkloadSpec(
        model=parse_model(table),
        data=data,
        train=parse_train({"global_batch_size": 64, "opt_base_learning_rate": 0.05, **SMOOTH["adagrad"]}),
        runtime=RuntimeConfig(threads=1, implementation=implementation),
        data_dir=folder,
        seed=1,
    )
    workload: Any = find_implementation("dlrm", implementation).load(spec, SingleProcess())
    workload.build()
    workload.train(num_steps)
    return workload


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hash", "quotient_remainder", "frequency", "learned", "classes"])
def test_the_whole_budget_is_the_unmapped_run_bit_for_bit(kind: Any, folder: Path) -> None:
    whole = replace(DATA, id_map=IdMapConfig(kind=kind, budget=1.0))
    found, plain = train(folder, whole), train(folder, DATA)
    for name, tensor in plain.weights().items():
        assert torch.equal(found.weights()[name], tensor), name
    assert found.evaluate() == plain.evaluate()


@pytest.mark.slow
def test_implementations_train_alike_through_a_map(folder: Path) -> None:
    data = replace(QUOTIENT, id_maps=quotient_maps())
    reference, optimized = train(folder, data), train(folder, data, "optimized")
    assert reference.weights()["embedding_bags.0.weight"].shape == (60, 4)
    bound = sway_of(reference, lambda: train(folder, data, num_steps=0), 20)
    assert is_as_near(weights_of(optimized), *bound)
    top = "top_mlp.0.weight"
    assert not torch.equal(reference.weights()[top], train(folder, DATA).weights()[top])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "hashed"}, "id_map.kind is 'hashed'. Did you mean 'hash'?"),
        ({"budget": 0.0}, "id_map.budget is 0.0, expected a number above 0, at most 1."),
        ({"budget": 1.5}, "id_map.budget is 1.5, expected a number above 0, at most 1."),
        ({"budget": float("nan")}, "id_map.budget is nan, expected a number above 0, at most 1."),
        ({"samples": 0}, "id_map.samples is 0, expected a whole number of at least 1."),
        ({"rows": 3}, "unknown key id_map.rows."),
    ],
)
def test_wrong_values_are_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_section("id_map", table, IdMapConfig)
    assert said in str(caught.value)


def test_a_budget_that_leaves_no_row_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"budget is 0.003, which leaves 0 of the 300 rows of table 0, expected at"):
        _ = replace(DATA, id_map=IdMapConfig(kind="hash", budget=0.003)).mapped
    with pytest.raises(ConfigError, match="leaves 1 of the 300 rows of table 0, expected at least 2"):
        _ = replace(DATA, id_map=IdMapConfig(kind="quotient_remainder", budget=0.004)).mapped
