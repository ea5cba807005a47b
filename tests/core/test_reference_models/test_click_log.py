"""The click log: the same bytes everywhere, a known best quality, ids and labels distributed as they should."""

import ast
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from places import PAIRS_AT_RANDOM

import reference_models.data.click_log
from harness.config.catalog import load_entry
from reference_models.config.sections import DataConfig
from reference_models.data.click_log import tables
from reference_models.data.click_log.counter import FIRST_COUNTER, MAX_SPLIT_SAMPLES, derive_key, hash_range
from reference_models.data.click_log.generator import (
    ChunkMaker,
    compute_click_probabilities,
    make_parts,
    oracle_scores,
)
from reference_models.data.click_log.teacher import (
    MIN_MATCHED_IDS,
    NUM_CLASSES,
    build_teacher,
    draw_groups,
    parse_teacher,
)
from reference_models.data.registry import generate_dataset, parse_data
from reference_models.data.store.generate import write_parts
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.store import open_store, verify
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.training.metrics import roc_auc
from rules.benchmarks.loader import shipped_versions

pytestmark = pytest.mark.numeric

GENERATED = [
    f"{name}@{benchmark.version}"
    for name in ("dlrm_tiny", "dlrm_small", "dlrm_dcnv2_small")
    for benchmark in shipped_versions(name)
] + [str(PAIRS_AT_RANDOM)]
FIRST_SAMPLES_SHA256 = {
    str(PAIRS_AT_RANDOM): "f0b7baec935afe335b59bbdc275b9fac353d8dc174582df83c54ad3a5ce47603",
    "dlrm_tiny@2": "2aee1063ba62689f25fe2fce1bfe5430f60956b79b3b2d0e4704402ec86b65e2",
    "dlrm_small@2": "15b55f8f3490e8a3607738df7432ad9d91d1efab0b87566aa0208c9238870c2a",
    "dlrm_dcnv2_small@2": "9bb2ede2be55f3e7dcc5a3cbff97bdaac7aac482725c082c5f36aa7b5dafa650",
}
SMALL: dict[str, Any] = {
    "kind": "click_log",
    "name": "some",
    "train_samples": 3000,
    "eval_samples": 700,
    "num_dense": 7,
    "num_embeddings": [40, 3, 1, 900],
    "multi_hot": [1, 4, 2, 3],
    "seed": 5,
    "parameters": {
        "zipf_exponent": 1.125,
        "bias": -1.0,
        "effect_scale": 0.8,
        "interaction_scale": 1.2,
        "dense_scale": 0.5,
        "num_interactions": 4,
    },
}
DATA = parse_data(SMALL)


def data_of(benchmark: str) -> DataConfig:
    return load_entry(benchmark).workload.data


def sha256_of(data: DataConfig, split: str, num_samples: int) -> str:
    """Digest of a split's first samples, without writing them."""
    chunk, logits = ChunkMaker(build_teacher(data), num_samples).make(split, 0, num_samples)
    parts = (chunk.labels, chunk.dense, chunk.indices, logits)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


# the same bytes everywhere


@pytest.mark.parametrize("benchmark", [name for name in GENERATED if name.startswith("dlrm_tiny@")])
@pytest.mark.parametrize(("num_threads", "chunk_samples"), [(1, 4096), (2, 4096), (3, 1000)])
def test_dlrm_tiny_has_its_pinned_digest(
    tmp_path: Path, num_threads: int, chunk_samples: int, benchmark: str
) -> None:
    data = data_of(benchmark)
    assert data.sha256 is not None
    digest = write_parts(tmp_path, data, CLICKS, make_parts(data, chunk_samples), num_threads=num_threads)
    assert digest == data.sha256
    assert open_store(tmp_path, data).dataset_sha256 == digest
    assert verify(tmp_path)["dataset_sha256"] == digest


@pytest.mark.parametrize("benchmark", FIRST_SAMPLES_SHA256)
def test_the_first_samples_are_these(benchmark: str) -> None:
    assert sha256_of(data_of(benchmark), "train", 10_000) == FIRST_SAMPLES_SHA256[benchmark]


@pytest.mark.long
@pytest.mark.parametrize("benchmark", GENERATED)
def test_every_shipped_digest_comes_out(tmp_path: Path, benchmark: str) -> None:
    data = data_of(benchmark)
    assert data.sha256 == write_parts(tmp_path, data, CLICKS, make_parts(data, 3000), num_threads=3)


@given(cuts=st.lists(st.integers(1, 699), unique=True, max_size=8), split=st.sampled_from(["train", "eval"]))
@settings(max_examples=examples(25))
def test_chunks_do_not_matter(cuts: list[int], split: str) -> None:
    teacher, edges = build_teacher(DATA), [0, *sorted(cuts), 700]
    whole, whole_logits = ChunkMaker(teacher, 700).make(split, 0, 700)
    maker = ChunkMaker(teacher, 700)
    parts = [maker.make(split, start, stop) for start, stop in itertools.pairwise(edges)]
    for name in ("labels", "dense", "indices"):
        joined = np.concatenate([getattr(chunk, name) for chunk, _ in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    np.testing.assert_array_equal(np.concatenate([logits for _, logits in parts]), whole_logits)


def test_progress_counts_every_sample(tmp_path: Path) -> None:
    seen: list[int] = []
    write_parts(tmp_path, DATA, CLICKS, make_parts(DATA, 64), num_threads=2, on_progress=seen.append)
    assert sum(seen) == 3700


def test_a_digest_other_than_the_pinned_one_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="the benchmark's definition pins 00"):
        generate_dataset(tmp_path, replace(DATA, sha256="00"), num_threads=1)
    assert not any((tmp_path / name).exists() for name in CLICKS.files)


def test_an_interrupted_generation_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(num_samples: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parts(tmp_path, DATA, CLICKS, make_parts(DATA, 64), num_threads=2, on_progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change", [{"seed": 6}, {"parameters": {**SMALL["parameters"], "bias": -1.25}}], ids=["seed", "bias"]
)
def test_another_definition_is_other_data(change: dict[str, Any]) -> None:
    assert sha256_of(parse_data({**SMALL, **change}), "train", 700) != sha256_of(DATA, "train", 700)


def test_train_and_eval_never_share_a_counter() -> None:
    ranges = sorted((first, first + MAX_SPLIT_SAMPLES) for first in FIRST_COUNTER.values())
    assert ranges[0][1] <= ranges[1][0]
    train, eval_ = (ChunkMaker(build_teacher(DATA), 700).make(split, 0, 700)[0] for split in ("train", "eval"))
    rows = [{row.tobytes() for row in chunk.dense} for chunk in (train, eval_)]
    assert len(rows[0]) == len(rows[1]) == 700
    assert not rows[0] & rows[1]


ALLOWED_NUMPY = {
    # integers, comparisons, memory
    "arange", "argsort", "array", "asarray", "ascontiguousarray", "bitwise_and", "bitwise_or", "bitwise_xor",
    "concatenate", "empty", "empty_like", "full", "greater", "left_shift", "maximum", "ones_like", "right_shift",
    "searchsorted", "take", "zeros", "zeros_like", "float32", "float64", "int32", "int64", "uint8", "uint64",
    # exact under IEEE 754, element by element or in a defined order
    "add", "add.accumulate", "add.at", "frexp", "multiply", "sqrt", "subtract", "subtract.at",
}  # fmt: skip


def test_generation_uses_only_operations_that_are_the_same_everywhere() -> None:
    used = set()
    for path in Path(reference_models.data.click_log.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        chains = {ast.unparse(node) for node in attributes if not list(_calls(node))}
        used |= {chain.removeprefix("np.") for chain in chains if chain.startswith("np.")}
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & {"math", "pow"}, path
        assert not {node.attr for node in attributes} & {"sum", "mean", "dot", "std", "var", "prod"}, path
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.MatMult | ast.Pow)], path
    assert used <= ALLOWED_NUMPY


def _calls(node: ast.AST) -> Iterator[ast.AST]:
    return (child for child in ast.walk(node) if isinstance(child, ast.Call | ast.Subscript))


# a known best quality


def test_labels_follow_the_probabilities() -> None:
    probabilities, labels = oracle_scores(replace(data_of("dlrm_small"), eval_samples=60_000), "eval")
    assert labels.mean() == pytest.approx(probabilities.mean(), abs=0.008)
    order = np.argsort(probabilities, kind="stable")
    for part in np.array_split(order, 10):
        assert labels[part].mean() == pytest.approx(probabilities[part].mean(), abs=0.03)


def test_the_oracle_ranks_best() -> None:
    probabilities, labels = oracle_scores(data_of("dlrm_tiny"), "eval")
    oracle = roc_auc(labels != 0, probabilities.astype(np.float32))
    noise = np.random.default_rng(1).normal(size=len(labels))
    assert load_entry("dlrm_tiny").benchmark.quality.target + 0.01 < oracle < 0.95
    assert roc_auc(labels != 0, (probabilities + 0.1 * noise).astype(np.float32)) < oracle - 0.01


def test_oracle_labels_are_the_datasets(tmp_path: Path) -> None:
    generate_dataset(tmp_path, DATA, num_threads=1)
    for split in ("train", "eval"):
        np.testing.assert_array_equal(np.load(tmp_path / f"{split}_labels.npy"), oracle_scores(DATA, split)[1])


def test_probability_is_the_sigmoid_of_the_logit() -> None:
    logits = np.linspace(-9, 9, 1001).astype(np.float32)
    np.testing.assert_allclose(
        compute_click_probabilities(logits), 1 / (1 + np.exp(-logits.astype(np.float64))), atol=2**-16
    )


def test_interactions_say_nothing_on_their_own() -> None:
    """Averaged over either feature's ids, a pair's term is zero: no model without interactions can use it."""
    data = data_of("dlrm_tiny")
    teacher = build_teacher(data)
    assert teacher.interactions
    for pair in teacher.interactions:
        term = pair.term.reshape(NUM_CLASSES, NUM_CLASSES)
        left, right = (_class_masses(teacher.sparse[f]) for f in pair.features)
        assert np.abs(term @ right)[left > 0].max() < 1e-5
        assert np.abs(left @ term)[right > 0].max() < 1e-5


@settings(deadline=None)
@given(
    num_embeddings=st.lists(st.integers(1, 80), min_size=2, max_size=30),
    seed=st.integers(0, 2**31),
    share=st.floats(0, 1),
)
def test_a_matching_has_no_feature_twice_and_none_of_few_ids(
    num_embeddings: list[int], seed: int, share: float
) -> None:
    enough = [feature for feature, num_ids in enumerate(num_embeddings) if num_ids >= MIN_MATCHED_IDS]
    num_interactions = round(share * (len(enough) // 2))
    config = replace(parse_teacher(DATA), pairing="matching", num_interactions=num_interactions)
    pairs = draw_groups(derive_key(seed, 6), config, num_embeddings)
    features = [feature for pair in pairs for feature in pair]
    assert len(pairs) == num_interactions
    assert len(set(features)) == len(features)
    assert set(features) <= set(enough)


def test_more_pairs_of_a_matching_keep_those_that_are_there() -> None:
    config, num_embeddings = replace(parse_teacher(DATA), pairing="matching"), [100] * 8
    drawn = [
        draw_groups(derive_key(3), replace(config, num_interactions=number), num_embeddings) for number in (1, 2, 4)
    ]
    assert drawn[0] == drawn[2][:1]
    assert drawn[1] == drawn[2][:2]


def _class_masses(feature: Any) -> np.ndarray[Any, Any]:
    mass = tables.slice_masses(len(feature.effect), feature.first_id, feature.num_ids)
    return np.bincount(feature.latent_class, weights=mass, minlength=NUM_CLASSES)


# ids and values


def test_ids_are_zipf_like_and_inside_their_tables() -> None:
    maker = ChunkMaker(build_teacher(DATA), 50_000)
    indices = maker.make("train", 0, 50_000)[0].indices
    limits = np.repeat(DATA.num_embeddings or (), DATA.multi_hot)
    assert (indices >= 0).all()
    assert (indices < limits).all()
    assert [indices[:, column].max() for column in (0, 1, 5, 7)] == [39, 2, 0, 899]
    shares = np.bincount(indices[:, 0], minlength=40) / len(indices)
    masses = 1 / np.arange(1, 41) ** 1.125
    np.testing.assert_allclose(shares, masses / masses.sum(), atol=0.012)


def test_an_id_owns_its_bag() -> None:
    indices = ChunkMaker(build_teacher(DATA), 5000).make("train", 0, 5000)[0].indices
    bags = indices[:, 7:10]
    assert DATA.multi_hot == (1, 4, 2, 3)
    assert len(np.unique(bags, axis=0)) == len(np.unique(bags[:, 0]))
    assert len(np.unique(bags[:, 1])) > 100


def test_dense_values_are_log_counts() -> None:
    """Never negative, skewed to the right, and zero in some features as often as missing counts are."""
    dense = ChunkMaker(build_teacher(data_of("dlrm_small")), 20_000).make("train", 0, 20_000)[0].dense
    assert dense.shape == (20_000, 13)
    assert (dense >= 0).all()
    assert (np.mean(dense, axis=0) > np.median(dense, axis=0)).all()
    assert 0.05 < (dense == 0).mean() < 0.6


# tables


def test_natural_log_is_ln() -> None:
    x = np.concatenate([np.linspace(1e-6, 2, 5001), np.logspace(-300, 300, 501)])
    np.testing.assert_allclose(tables.natural_log(x), np.log(x), rtol=1e-14, atol=1e-15)


def test_tables_are_monotone() -> None:
    assert (np.diff(tables.logit_thresholds()) > 0).all()
    assert (np.diff(tables.exponential_quantiles()) > 0).all()


@given(num_ids=st.integers(1, 3000), eighths=st.integers(0, 24))
@settings(max_examples=examples(50))
def test_zipf_slices_cover_every_id_in_order(num_ids: int, eighths: int) -> None:
    masses = tables.zipf_masses(num_ids, eighths / 8)
    np.testing.assert_allclose(masses, np.maximum(2.0**40 / np.arange(1, num_ids + 1) ** (eighths / 8), 1), atol=1)
    first, width = tables.inverse_zipf(masses)
    last = first + width - 1
    assert first[0] == 0
    assert last[-1] == num_ids - 1
    assert (width >= 1).all()
    assert (np.diff(first) >= 0).all()
    assert (first[1:] <= last[:-1] + 1).all()
    assert tables.slice_masses(num_ids, first, width).sum() == pytest.approx(1.0)


def test_normals_are_normal() -> None:
    values = tables.normals(derive_key(1, 2), 100_000)
    assert values.mean() == pytest.approx(0, abs=0.02)
    assert values.std() == pytest.approx(1, abs=0.02)
    assert (np.abs(values) > 2).mean() == pytest.approx(0.0455, abs=0.006)


def test_hashes_are_uniform_and_keys_differ() -> None:
    bits = np.unpackbits(hash_range(derive_key(0), 0, 20_000).view(np.uint8).reshape(-1, 8), axis=1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.02
    assert len({derive_key(a, b) for a in range(50) for b in range(50)}) == 2500
    assert derive_key(1, 2) != derive_key(2, 1)


# definitions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zipf_exponent": 1.1}, r"data.parameters.zipf_exponent is 1.1, expected a multiple of 0.125"),
        ({"zipf_exponent": "1"}, r"data.parameters.zipf_exponent is '1', expected a number"),
        ({"num_interactions": 7}, r"num_interactions is 7, expected at most the 6 pairs of 4 features"),
        ({"pairing": "all"}, r"data.parameters.pairing is 'all'"),
        (
            {"pairing": "matching", "num_interactions": 2},
            r"num_interactions is 2, expected at most the 1 pairs of a matching of 2 features with 32 ids or more",
        ),
        (
            {"interaction_order": 3, "num_interactions": 1},
            r"interaction_order is 3, expected 2 where pairing is not 'matching'",
        ),
        ({"interaction_order": 5}, r"data.parameters.interaction_order is 5"),
        ({"interaction_rank": 0}, r"data.parameters.interaction_rank is 0, expected .* at least 1, at most 4"),
        ({"interaction_rank": 5}, r"data.parameters.interaction_rank is 5, expected .* at least 1, at most 4"),
        (
            {"pairing": "matching", "interaction_order": 3, "num_interactions": 1},
            r"num_interactions is 1, expected at most the 0 groups of 3 of a matching of 2 features",
        ),
        ({"effect_scale": -1}, r"data.parameters.effect_scale is -1"),
        ({"dense_scale": None}, r"data.parameters.dense_scale is None"),
        ({"effect_scales": 1}, r"unknown key data.parameters.effect_scales. Did you mean 'effect_scale'"),
    ],
)
def test_impossible_parameters_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_teacher(parse_data({**SMALL, "parameters": {**SMALL["parameters"], **change}}))


def test_more_samples_than_counters_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data.train_samples is \d+, expected a whole number up to 2\*\*40"):
        parse_teacher(replace(DATA, train_samples=MAX_SPLIT_SAMPLES + 1))
