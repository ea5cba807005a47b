"""What answers for models without a servable of their own: the logits, the weights and the quality of training."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import dense_logistic
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rounding import distance_of, turn
from sequence_builder import make_batch, small_workload
from small_optics import ADAM, OPTICS, PATTERNS
from toy_clicks import spec_maker

from harness.config.catalog import load_entry
from harness.foundation.queue_simulation import Workers
from harness.run_sets.dataset import ensure_dataset
from reference_models.config.sections import RuntimeConfig, parse_runtime, parse_train
from reference_models.d2nn.config import parse_model as parse_d2nn
from reference_models.data.registry import generate_dataset, parse_data
from reference_models.data.store.dataset import Batch, ImageBatch
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.registry import (
    MODELS,
    build_servable,
    find_implementation,
    find_model,
    pin_code,
    refuse_impossible_serving,
)
from reference_models.serving.quality_ratio import compare_quality
from reference_models.serving.queries import cut, merge
from reference_models.serving.servable import Servable, workload_weights
from reference_models.training.loop import TrainingLoop
from reference_models.training.metrics import find_metric
from reference_models.training.workload import WorkloadSpec
from reference_models.wukong.config import parse_model as parse_wukong

pytestmark = pytest.mark.numeric
WUKONG = {
    "embedding_dim": 4,
    "num_layers": 2,
    "rank": 2,
    "bottom_mlp": [8, 4],
    "top_mlp": [8, 1],
    "fmb_mlp": [8],
    "num_fmb": 3,
    "num_lcb": 3,
}
LOGISTIC = pin_code(f"{dense_logistic.__file__}:SPEC")
CASES = ("wukong", "hstu", "hstu optimized", "d2nn", "own")
NAMES = dict(zip(CASES, ("wukong", "hstu", "hstu", "d2nn", LOGISTIC), strict=True))


@dataclass(frozen=True)
class Case:
    """A model, trained a little, and what answers with its weights."""

    model: str
    spec: WorkloadSpec
    loop: TrainingLoop
    servable: Servable


@pytest.fixture(scope="module")
def specs(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, WorkloadSpec]:
    clicks, folder = spec_maker(data_dir)(), tmp_path_factory.mktemp("served")
    histories = small_workload()
    events = histories.spec(ensure_dataset(histories.data, folder, num_threads=1), 3)
    images = parse_data(PATTERNS)
    generate_dataset(folder / "images", images, num_threads=1)
    patterns = WorkloadSpec(
        model=parse_d2nn(OPTICS),
        data=images,
        train=parse_train(ADAM),
        runtime=RuntimeConfig(threads=1),
        data_dir=folder / "images",
        seed=1,
    )
    plain = replace(clicks.runtime, implementation="plain")
    found = {
        "wukong": replace(clicks, model=parse_wukong(WUKONG)),
        "hstu": replace(events, runtime=replace(events.runtime, threads=1)),
        "d2nn": patterns,
        "own": replace(clicks, model=dense_logistic.LogisticConfig(), runtime=plain),
    }
    fast = replace(found["hstu"].runtime, implementation="optimized")
    return {**found, "hstu optimized": replace(found["hstu"], runtime=fast)}


@pytest.fixture(scope="module")
def make(specs: dict[str, WorkloadSpec]) -> Callable[[str], Case]:
    made: dict[str, Case] = {}

    def build(name: str) -> Case:
        if name not in made:
            model, spec = NAMES[name], specs[name]
            loop = find_implementation(model, spec.runtime.implementation).load(spec, SingleProcess())
            assert isinstance(loop, TrainingLoop)
            loop.build()
            loop.train(8)
            made[name] = Case(model, spec, loop, build_servable(model, spec, workload_weights(loop)))
        return made[name]

    return build


def evaluated(loop: TrainingLoop, query: Any, start: int, stop: int) -> torch.Tensor:
    """Logits of samples of the evaluation split, which `query` holds, as the loop that trained computes them.

    Of its own tensors: libraries may add in another order where a matrix begins at another address.
    """
    read = loop.read_batch(loop.data.eval, "eval", start, stop)
    for field in fields(read):
        ours, theirs = getattr(query, field.name), getattr(read, field.name)
        assert torch.equal(ours, theirs) if isinstance(theirs, torch.Tensor) else ours == theirs, field.name
    loop.model.eval()
    with torch.no_grad():
        return loop.compute_logits(loop.model, query)


def test_every_model_of_the_registry_is_served_here_or_by_its_own() -> None:
    assert {model for model in MODELS if find_model(model).serve is None} == {*NAMES.values()} - {LOGISTIC}


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_evaluation_bit_for_bit(name: str, make: Callable[[str], Case]) -> None:
    case, start = make(name), 0
    for query, size in zip(case.servable.queries([1, 2, 7, 60]), (1, 2, 7, 60), strict=True):
        answer = case.servable.answer(query)
        assert answer.dtype == torch.float32 and len(answer) == size
        assert torch.equal(answer, evaluated(case.loop, query, start, start + size)), size
        start += size


@pytest.mark.parametrize("name", CASES)
def test_merged_and_cut_queries_have_the_logits_of_whole_ones(name: str, make: Callable[[str], Case]) -> None:
    """Within rounding: sums of products of other shapes, and of longer padding, are added in another order.

    Turned weights move logits as one layer's rounding does; a forward pass has less than ten, on both sides.
    """
    case, sizes = make(name), (3, 9, 1, 14)
    servable = case.servable
    pool = tuple(servable.queries(sizes))
    alone = torch.cat([servable.answer(query) for query in pool])
    weights = {key: weight.clone() for key, weight in workload_weights(case.loop).items()}
    turn(weight for weight in weights.values() if weight.dtype == torch.float32)
    other = build_servable(case.model, case.spec, weights)
    turned = torch.cat([other.answer(query) for query in pool])
    assert (moved := distance_of([turned], [alone])) > 0
    ends = [list(accumulate(Workers(max_items=4).split(items), initial=0)) for items in sizes]
    parts = [cut(query, *part) for query, of_query in zip(pool, ends, strict=True) for part in pairwise(of_query)]
    assert max(stop - start for of_query in ends for start, stop in pairwise(of_query)) <= 4 < len(parts)
    for found in (servable.answer(merge(parts)), torch.cat([servable.answer(part) for part in parts])):
        assert distance_of([found], [alone]) <= 2 * 10 * moved


@pytest.mark.parametrize("name", CASES)
def test_quality_is_that_of_the_training_loop(name: str, make: Callable[[str], Case]) -> None:
    case = make(name)
    found: Any = case.servable.quality()
    assert found == case.loop.evaluate_with(find_metric(case.loop.metric).measure)
    member = "accuracy" if name == "d2nn" else "auc"
    assert getattr(found, member) == case.loop.evaluate()
    ratio = compare_quality(found, found)
    assert (ratio.entropy_ratio, getattr(ratio, f"{member}_ratio")) == (1, 1)
    assert ratio.mlperf_class == (None if name == "d2nn" else "99.9 %")


@pytest.mark.parametrize("name", CASES)
def test_without_weights_those_of_the_seed_answer_and_generators_stay(
    name: str, specs: dict[str, WorkloadSpec]
) -> None:
    spec = specs[name]
    loop = find_implementation(NAMES[name], spec.runtime.implementation).load(spec, SingleProcess())
    assert isinstance(loop, TrainingLoop)
    loop.build()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    servable = build_servable(NAMES[name], spec)
    assert torch.equal(torch.get_rng_state(), before)
    (query,) = servable.queries([20])
    assert torch.equal(servable.answer(query), evaluated(loop, query, 0, 20))


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_those_of_what_the_model_holds(name: str, make: Callable[[str], Case]) -> None:
    case = make(name)
    held = case.servable.served_bytes
    assert held.total_bytes == sum(weight.nbytes for weight in case.loop.model.state_dict().values())
    tables = [
        weight for key, weight in case.loop.model.named_parameters() if "embedding_bags" in key or "_table" in key
    ]
    assert held.table_bytes == sum(weight.nbytes for weight in tables)
    assert bool(tables) == (name not in ("d2nn", "own"))


def is_table(name: str) -> bool:
    return "embedding_bags" in name or "_table" in name


def test_threads_that_ask_at_once_get_what_each_would_alone(make: Callable[[str], Case]) -> None:
    for name in CASES:
        servable = make(name).servable
        queries = servable.queries([5, 9, 2, 30])
        alone, found = [servable.answer(query) for query in queries], dict[int, list[torch.Tensor]]()

        def ask(number: int, servable: Servable = servable, queries: list[Any] = queries) -> None:
            found[number] = [servable.answer(query) for query in queries]  # noqa: B023

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 3
        assert all(torch.equal(*pair) for answers in found.values() for pair in zip(answers, alone, strict=True))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=6), st.data())
def test_histories_are_cut_with_their_candidates(shapes: list[tuple[int, int]], data: st.DataObject) -> None:
    """Every candidate keeps its label, its item and all of its history, whatever is cut and put together again."""
    whole = make_batch([past for past, _ in shapes], [candidates for _, candidates in shapes])
    size = len(whole.items)
    middle = data.draw(st.integers(1, size))
    start = data.draw(st.integers(0, size - 1))
    stop = data.draw(st.integers(start + 1, size))

    def candidates(batch: Any) -> list[tuple[Any, ...]]:
        pasts = torch.split(
            torch.stack([batch.past_items, batch.past_actions, batch.past_ages]), batch.past_lengths, 1
        )
        owners = [past.tolist() for past, count in zip(pasts, batch.lengths, strict=True) for _ in range(count)]
        return list(zip(owners, batch.items.tolist(), batch.artists.tolist(), batch.labels.tolist(), strict=True))

    part = cut(whole, start, stop)
    assert candidates(part) == candidates(whole)[start:stop] and min(part.lengths) > 0
    halves = [cut(whole, *ends) for ends in ((0, middle), (middle, size)) if ends[0] < ends[1]]
    assert candidates(merge(halves)) == candidates(whole)


def test_images_and_clicks_are_cut_by_rows() -> None:
    images = ImageBatch(torch.arange(12.0).view(6, 2), torch.arange(6).view(6, 1))
    both = merge([cut(images, 4, 6), cut(images, 0, 1)])
    assert isinstance(both, ImageBatch)
    assert both.classes.flatten().tolist() == [4, 5, 0] and both.images[0].tolist() == [8, 9]


@pytest.mark.parametrize(
    ("model", "runtime", "words"),
    [
        ("wukong", {"precision": "int8"}, "'int8', expected 'fp32' or 'bf16' of a model that is served on cpu by"),
        ("hstu", {"table_precision": "int4"}, "runtime.table_precision is 'int4', expected 'fp32' of a model"),
        ("d2nn", {"table_precision": "fp16"}, "runtime.table_precision is 'fp16', expected 'fp32'"),
        (LOGISTIC, {"precision": "int8", "implementation": "plain"}, "runtime.precision is 'int8'"),
        ("wukong", {"implementation": "optimized"}, "'optimized' of model 'wukong' cannot be served: .*'reference'"),
        ("hstu", {"ranks": 2}, "served by one process"),
        ("hstu", {"implementation": "optimised"}, "unknown implementation 'optimised'. Did you mean 'optimized'"),
    ],
)
def test_what_the_forward_pass_of_training_cannot_do_is_refused(
    model: str, runtime: dict[str, Any], words: str, specs: dict[str, WorkloadSpec]
) -> None:
    parsed = parse_runtime(runtime)
    with pytest.raises(ConfigError, match=words):
        refuse_impossible_serving(model, parsed)
    with pytest.raises(ConfigError, match=words):
        build_servable(model, replace(specs["wukong"], runtime=parsed))


def test_weights_of_another_model_are_refused(make: Callable[[str], Case], specs: dict[str, WorkloadSpec]) -> None:
    weights = dict(workload_weights(make("hstu").loop))
    with pytest.raises(ConfigError, match="weights 'shared' are missing"):
        build_servable("d2nn", specs["d2nn"], weights)
    weights["actions"] = weights["actions"][:1]
    with pytest.raises(ConfigError, match=r"weights 'actions' have shape \(1, 8\)"):
        build_servable("hstu", specs["hstu"], weights)


OWN = """
from dataclasses import replace
from pathlib import Path
from dense_logistic import load

class Odd:
    def __init__(self, batch): self.dense, self.indices, self.labels = batch.dense, batch.indices, batch.labels

def no_loop(spec, world):
    return object()

def odd_batches(spec, world):
    loop = load(spec, world)
    made = loop.make_synthetic_batch
    loop.make_synthetic_batch = lambda num_embeddings, size: Odd(made(num_embeddings, size))
    return loop
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [("no_loop", "it is no TrainingLoop"), ("odd_batches", "its batch, a Odd, holds a Odd, expected a dataclass")],
)
def test_own_code_that_cannot_be_served_is_told_why(
    name: str, words: str, specs: dict[str, WorkloadSpec], tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    spec = specs["own"]
    mine = replace(spec, runtime=replace(spec.runtime, implementation=pin_code(f"{path}:{name}")))
    with pytest.raises(ConfigError, match=rf"implementation 'mine\.py:{name}@\w+' cannot be served: {words}"):
        build_servable(LOGISTIC, mine)


def test_data_that_nobody_can_learn_has_no_quality(tmp_path: Path) -> None:
    workload = load_entry("rm1_deeprecsys").workload
    data = replace(workload.data, num_embeddings=(50,) * len(workload.data.multi_hot))
    spec = replace(
        workload.spec(tmp_path, seed=0),
        data=data,
        model=dense_logistic.LogisticConfig(),
        runtime=replace(workload.runtime, implementation="plain", threads=1),
    )
    servable = build_servable(LOGISTIC, spec)
    assert servable.quality() is None
    queries = servable.queries([3, 5000])
    assert [len(query.labels) for query in queries] == [3, 5000] and isinstance(queries[0], Batch)


def test_a_split_smaller_than_a_query_begins_again(make: Callable[[str], Case]) -> None:
    servable = make("d2nn").servable
    first, long = servable.queries([95, 3])
    assert torch.equal(long.images[1:], first.images[:2])
    with pytest.raises(ValueError, match="at least 1"):
        servable.queries([0])
