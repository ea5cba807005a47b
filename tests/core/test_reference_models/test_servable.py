"""What answers queries: in fp32 the training implementation's bits, in fewer bits what the formulas say."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rounding import furthest, gamma
from toy_clicks import EVAL_SAMPLES, MULTI_HOT, NUM_DENSE, NUM_EMBEDDINGS, MakeSpec

from reference_models.config.sections import parse_runtime
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.dlrm.servable import ServedDLRM
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.registry import build_servable, refuse_impossible_runtime, refuse_impossible_serving
from reference_models.serving import products
from reference_models.serving.products import Int8Linear, make_linear, quantise_rows
from reference_models.serving.quality_ratio import QualityRatio, compare_quality
from reference_models.serving.servable import explain_emulation, workload_weights
from reference_models.serving.tables import ServedTables, pack_rows
from reference_models.serving.weight_bytes import row_bytes
from reference_models.training.metrics import roc_auc

pytestmark = pytest.mark.numeric
MODELS: dict[str, dict[str, Any]] = {
    "dot": {},
    "cat": {"interaction": "cat", "bottom_mlp": [9, 4], "top_mlp": [17, 8, 1]},
    "dcn": {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3},
    "odd": {"embedding_dim": 5, "bottom_mlp": [8, 5]},
}
PRECISIONS = ("fp32", "bf16", "int8")
TABLE_PRECISIONS = ("fp32", "fp16", "int8", "int4")


def trained(make_spec: MakeSpec, model: str = "dot", num_steps: int = 20) -> ReferenceWorkload:
    workload = ReferenceWorkload(make_spec(model=MODELS[model]), SingleProcess())
    workload.build()
    workload.train(num_steps)
    return workload


def served(workload: ReferenceWorkload, **runtime: str) -> ServedDLRM:
    spec = replace(workload.spec, runtime=replace(workload.spec.runtime, **runtime))
    found = build_servable("dlrm", spec, workload_weights(workload))
    assert isinstance(found, ServedDLRM)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_fp32_gives_the_training_implementations_logits_bit_for_bit(make_spec: MakeSpec, model: str) -> None:
    workload = trained(make_spec, model)
    servable = served(workload)
    for size in (1, 2, 7, 128, 1000):
        (batch,) = servable.queries([size])
        with torch.no_grad():
            expected = workload.compute_logits(workload.model, batch)
        assert torch.equal(servable.answer(batch), expected), size
    assert servable.evaluate_with(roc_auc) == workload.evaluate()


def test_ids_of_one_number_per_table_are_read_alike(make_spec: MakeSpec) -> None:
    """The layout of bags takes another way where all features have the same number of ids."""
    weight = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    for multi_hot in ((1, 1, 1), (3, 3, 3), (1, 4, 2)):
        tables = ServedTables(weight, (10, 20, 30), multi_hot, "fp32")
        columns = [torch.randint(0, rows, (6, hot)) for rows, hot in zip((10, 20, 30), multi_hot, strict=True)]
        found = tables.read(torch.cat(columns, dim=1))
        for table, (ids, rows) in enumerate(zip(columns, torch.split(weight, [10, 20, 30]), strict=True)):
            assert torch.allclose(found[table], rows[ids].sum(1), atol=1e-6)


def test_without_weights_those_of_the_seed_answer_and_generators_stay(make_spec: MakeSpec) -> None:
    spec = make_spec(seed=11)
    workload = ReferenceWorkload(spec, SingleProcess())
    workload.build()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    servable = build_servable("dlrm", spec)
    assert torch.equal(torch.get_rng_state(), before)
    (batch,) = servable.queries([50])
    with torch.no_grad():
        assert torch.equal(servable.answer(batch), workload.compute_logits(workload.model, batch))


@pytest.mark.parametrize("is_exact", [None, False], ids=["as found", "emulated"])
def test_products_of_whole_numbers_are_exact(is_exact: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a CPU without products of 8 bits, whose pairs saturate."""
    if is_exact is not None:
        monkeypatch.setattr(products, "is_int_mm_exact", lambda: is_exact)
    generator = np.random.default_rng(0)
    for num_samples, num_in, num_out in ((1, 2, 2), (3, 17, 5), (64, 256, 33), (2, 2050, 3)):
        x = generator.integers(-127, 128, (num_samples, num_in), dtype=np.int8)
        w = generator.integers(-127, 128, (num_out, num_in), dtype=np.int8)
        x[0], w[0] = 127, -127
        found = products.multiply_numbers(torch.from_numpy(x), torch.from_numpy(w).t())
        assert np.array_equal(found.numpy(), x.astype(np.int32) @ w.astype(np.int32).T)


def test_products_that_saturate_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a CPU without products of 8 bits adds them: of numbers that are shifted by 128, two by two, in 16 bits."""

    def saturating(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pairs = torch.stack([(a[:, i : i + 2].int() + 128) @ b[i : i + 2].int() for i in range(0, a.shape[1], 2)])
        return pairs.clamp(-(2**15), 2**15 - 1).sum(0, dtype=torch.int32) - 128 * b.sum(0, dtype=torch.int32)

    monkeypatch.setattr(torch, "_int_mm", lambda a, b: a.int() @ b.int())
    assert products.is_int_mm_exact.__wrapped__()
    monkeypatch.setattr(torch, "_int_mm", saturating)
    assert not products.is_int_mm_exact.__wrapped__()


def test_layers_that_the_product_of_whole_numbers_cannot_do_stay_as_they_are() -> None:
    w, x = torch.randn(5, 1), torch.randn(7, 1)
    assert torch.equal(make_linear(w, None, "int8")(x), torch.nn.functional.linear(x, w))
    wide, row = torch.randn(6, 64), torch.randn(64).as_strided((1, 64), (0, 1))
    assert torch.allclose(make_linear(wide, None, "int8")(row), row @ wide.t(), atol=0.5)


def test_int8_layers_are_their_formula_and_rows_are_within_half_a_step() -> None:
    generator = torch.Generator().manual_seed(0)
    x, w, b = (torch.randn(size, generator=generator) for size in ((6, 40), (9, 40), (9,)))
    x[2] = 0
    numbers, scale = quantise_rows(x)
    assert numbers.dtype == torch.int8 and int(numbers.abs().max()) == 127
    assert bool(((numbers * scale - x).abs() <= scale / 2 * (1 + 1e-6)).all())
    assert torch.equal(numbers[2], torch.zeros(40, dtype=torch.int8))
    layer = make_linear(w, b, "int8", has_relu=True)
    assert isinstance(layer, Int8Linear)
    product = numbers.numpy().astype(np.int32) @ layer.weight.numpy().astype(np.int32)
    expected = product * scale.numpy().astype(np.float64) * layer.scale.numpy() + b.numpy()
    # The product of a row's scale, an output's and a whole number, and the bias: four roundings at most.
    allowed = gamma(4) * (np.abs(expected - b.numpy()) + np.abs(b.numpy()))
    assert furthest(layer(x), torch.from_numpy(np.maximum(expected, 0)), torch.from_numpy(allowed)) <= 1
    assert torch.allclose(layer(x), torch.relu(x @ w.t() + b), atol=0.2)


@pytest.mark.parametrize("dim", [1, 4, 5, 16, 33])
@pytest.mark.parametrize(("precision", "levels"), [("int8", 255), ("int4", 15)])
def test_rows_of_codes_are_within_half_a_step_of_each_element(precision: str, levels: int, dim: int) -> None:
    weight = torch.randn(50, dim, generator=torch.Generator().manual_seed(dim))
    weight[3] = 0.25
    packed = pack_rows(weight, precision)
    assert packed.dtype == torch.uint8 and packed.shape == (50, row_bytes(dim, precision))
    codes, step, least = unpack(packed.numpy(), precision, dim)
    assert codes.max() <= levels
    rows = (codes * step + least).astype(np.float32)
    # int4 keeps step and least value in fp16, whose rounding moves the grid's ends by 2^-11 of them.
    slack = 1e-6 if precision == "int8" else 2.0**-11 * (15 * step + np.abs(least))
    assert (np.abs(rows - weight.numpy()) <= step / 2 + slack).all()
    tables = ServedTables(weight, (20, 30), (2, 3), precision)
    ids = torch.cat([torch.randint(0, 20, (7, 2)), torch.randint(0, 30, (7, 3))], dim=1)
    pooled = tables.read(ids).numpy()
    assert np.allclose(pooled[0], rows[:20][ids[:, :2]].sum(1), atol=2.5e-5)
    assert np.allclose(pooled[1], rows[20:][ids[:, 2:]].sum(1), atol=2.5e-5)


def unpack(packed: np.ndarray, precision: str, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Codes [rows, dim], steps and least values [rows, 1], as FBGEMM writes them."""
    if precision == "int8":
        about = np.ascontiguousarray(packed[:, dim:]).view(np.float32)
        return packed[:, :dim].astype(np.float64), about[:, :1].astype(np.float64), about[:, 1:].astype(np.float64)
    about = np.ascontiguousarray(packed[:, -4:]).view(np.float16)
    codes = np.stack([packed[:, :-4] & 15, packed[:, :-4] >> 4], axis=2).reshape(len(packed), -1)[:, :dim]
    return codes.astype(np.float64), about[:, :1].astype(np.float64), about[:, 1:].astype(np.float64)


def test_rows_in_fp16_are_summed_in_float32() -> None:
    weight = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    ids = torch.arange(300).view(1, 300)
    (pooled,) = ServedTables(weight, (300,), (300,), "fp16").read(ids)
    expected = weight.half().double().sum(0)
    assert pooled.dtype == torch.float16
    assert torch.allclose(pooled[0].double(), expected, rtol=2.0**-11, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("table_precision", TABLE_PRECISIONS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_bytes_are_those_of_the_tensors_that_are_held(
    make_spec: MakeSpec, model: str, precision: str, table_precision: str
) -> None:
    servable = served(trained(make_spec, model, 1), precision=precision, table_precision=table_precision)
    linears = [*servable._bottom, *servable._top]
    if model == "dcn":
        linears += [layer for pair in closure_of(servable._interact) for layer in pair]
    tensors = [getattr(layer, name, None) for layer in linears for name in ("weight", "bias", "scale")]
    held = servable.served_bytes
    assert held.dense_bytes == sum(tensor.nbytes for tensor in tensors if tensor is not None)
    assert held.table_bytes == servable._tables.rows.nbytes
    assert held.total_bytes == held.dense_bytes + held.table_bytes


def closure_of(function: Any) -> Any:
    (cell,) = function.__closure__
    return cell.cell_contents


@pytest.mark.slow
def test_what_precision_costs_in_quality(make_spec: MakeSpec) -> None:
    workload = trained(make_spec, "dot", 50)
    fp32 = served(workload).quality()
    assert fp32 is not None and fp32.auc == workload.evaluate() > 0.7
    ratios: dict[tuple[str, str], QualityRatio] = {}
    for precision in PRECISIONS:
        for table_precision in TABLE_PRECISIONS:
            found = served(workload, precision=precision, table_precision=table_precision).quality()
            assert found is not None
            ratios[precision, table_precision] = compare_quality(found, fp32)
    assert ratios["fp32", "fp32"] == QualityRatio(auc_ratio=1.0, entropy_ratio=1.0)
    assert all(ratio.auc_ratio != 1.0 for pair, ratio in ratios.items() if pair[0] != "fp32" and "int4" in pair)
    for pair in (("bf16", "fp32"), ("int8", "fp32"), ("fp32", "fp16"), ("fp32", "int8"), ("int8", "int8")):
        assert ratios[pair].mlperf_class == "99.9 %", pair
    assert all(ratio.auc_ratio > 0.9 for ratio in ratios.values())


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.001, "99.9 %"), (0.999, "99.9 %"), (0.9989, "99 %"), (0.99, "99 %"), (0.9899, "below")]
)
def test_classes_are_mlperf_inferences(ratio: float, expected: str) -> None:
    assert QualityRatio(auc_ratio=ratio, entropy_ratio=1.0).mlperf_class == expected


def test_data_that_nobody_can_learn_has_no_quality(tmp_path: Path) -> None:
    from harness.config.catalog import load_entry

    workload = load_entry("rm1_deeprecsys").workload
    spec = replace(workload.spec(tmp_path, seed=0), data=replace(workload.data, num_embeddings=(50,) * 8))
    servable = build_servable("dlrm", spec)
    assert servable.quality() is None
    assert [len(query.labels) for query in servable.queries([3, 5])] == [3, 5]


def test_queries_go_through_the_evaluation_split_and_begin_again(make_spec: MakeSpec) -> None:
    servable = build_servable("dlrm", make_spec())
    first, second, third, last = servable.queries([3, 2990, 20, 2 * EVAL_SAMPLES])
    assert [len(query.labels) for query in (first, second, third, last)] == [3, 2990, 20, 2 * EVAL_SAMPLES]
    (whole,) = servable.queries([EVAL_SAMPLES])
    assert torch.equal(first.dense, whole.dense[:3]) and torch.equal(second.indices, whole.indices[3:2993])
    assert torch.equal(third.dense, torch.cat([whole.dense[2993:], whole.dense[:13]]))
    with pytest.raises(ValueError, match="at least 1"):
        servable.queries([0])


@pytest.mark.slow
def test_threads_that_ask_at_once_get_what_each_would_alone(make_spec: MakeSpec) -> None:
    servable = served(trained(make_spec), precision="int8", table_precision="int8")
    queries = servable.queries(list(range(1, 33)))
    alone = [servable.answer(query) for query in queries]
    found: dict[int, list[torch.Tensor]] = {}

    def ask(number: int) -> None:
        found[number] = [servable.answer(query) for _ in range(5) for query in queries]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answers in found.values():
        assert all(torch.equal(answer, alone[index % 32]) for index, answer in enumerate(answers))
    assert len(found) == 4


def test_an_answer_is_the_askers_own(make_spec: MakeSpec) -> None:
    servable = build_servable("dlrm", make_spec())
    one, other = servable.queries([4, 4])
    first = servable.answer(one)
    kept = first.clone()
    servable.answer(other)
    assert torch.equal(first, kept) and first.dtype == torch.float32 and first.shape == (4,)


def test_labels_are_not_looked_at(make_spec: MakeSpec) -> None:
    servable = build_servable("dlrm", make_spec())
    (query,) = servable.queries([9])
    blind = Batch(query.dense, query.indices, torch.full_like(query.labels, torch.nan))
    assert torch.equal(servable.answer(query), servable.answer(blind))


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ({"precision": "tf32"}, "'fp32' or 'bf16' or 'int8' of a model that is served on cpu"),
        ({"device": "cuda", "precision": "int8"}, "'fp32' or 'tf32' or 'bf16'"),
        ({"device": "cuda", "table_precision": "int4"}, "'fp32' or 'fp16'"),
        ({"device": "tpu"}, "runtime.device"),
        ({"ranks": 2, "implementation": "torchrec"}, "one process"),
    ],
)
def test_what_cannot_be_served_is_refused(runtime: dict[str, Any], words: str, make_spec: MakeSpec) -> None:
    parsed = parse_runtime(runtime)
    with pytest.raises(ConfigError, match=words):
        refuse_impossible_serving("dlrm", parsed)
    with pytest.raises(ConfigError, match=words):
        build_servable("dlrm", replace(make_spec(), runtime=parsed))


@pytest.mark.parametrize("runtime", [{"precision": "int8"}, *({"table_precision": p} for p in TABLE_PRECISIONS[1:])])
def test_what_serves_does_not_train(runtime: dict[str, str], make_spec: MakeSpec) -> None:
    with pytest.raises(ConfigError, match="serves, and does not train"):
        refuse_impossible_runtime("dlrm", make_spec().train, parse_runtime(runtime))


def test_weights_of_another_model_are_refused(make_spec: MakeSpec) -> None:
    weights = dict(workload_weights(trained(make_spec)))
    name = "embedding_bags.1.weight"
    for other, words in (
        ({**weights, name: torch.ones(4, 4)}, r"have shape \(4, 4\), expected \(3, 4\)"),
        ({key: value for key, value in weights.items() if key != name}, "are missing"),
        ({**weights, "embedding_bags.9.weight": torch.ones(1)}, "no part of this model"),
    ):
        with pytest.raises(ConfigError, match=words):
            build_servable("dlrm", make_spec(), other)


def test_cpus_that_emulate_a_precision_are_named(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    fp32, bf16, int8 = (parse_runtime({"precision": precision}) for precision in PRECISIONS)
    info.write_text("processor : 0\nflags : fpu avx2 avx512f\n")
    assert "no products in bf16" in (explain_emulation(bf16, info) or "")
    assert "no products in int8" in (explain_emulation(int8, info) or "")
    assert explain_emulation(fp32, info) is None
    info.write_text("processor : 0\nflags : fpu avx512f avx512_bf16 avx512_vnni\n")
    assert explain_emulation(bf16, info) is explain_emulation(int8, info) is None
    info.write_text("processor : 0\nFeatures : fp asimd asimddp bf16\n")
    assert explain_emulation(bf16, info) is explain_emulation(int8, info) is None
    info.write_text("nothing that is known\n")
    assert explain_emulation(bf16, info) is None
    assert explain_emulation(bf16, tmp_path / "missing") is None


def test_the_toy_is_what_these_tests_take_it_for() -> None:
    assert (NUM_EMBEDDINGS, MULTI_HOT, NUM_DENSE) == ((40, 3, 200), (1, 1, 2), 4)
