"""Serving: what [serve] says, service times, parts of queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.config.run_config import Override, resolve
from harness.extensions.serving.config import list_sizes, parse_serve
from harness.extensions.serving.model import ServedModel
from harness.extensions.serving.timing import TimedSize, choose_calls, fit_service, time_calls
from harness.extensions.serving.worker_pool import QueryPart, split_query
from harness.foundation.queue_simulation import Workers
from reference_models.data.store.dataset import Batch
from reference_models.process.errors import ConfigError
from reference_models.serving.weight_bytes import ServedBytes
from rules.benchmarks.loader import list_workload_names, load_benchmark, read_toml, shipped_names

LIMIT = {"target_latency_ms": 25}
TAILS = (
    "lognormal:100",
    "lognormal:0:1",
    "lognormal:100:0",
    "lognormal:100:-1",
    "lognormal:2000:1",
    "lognormal:1:1e3",
)


def test_the_sizes_of_queries_are_those_of_their_sources() -> None:
    deeprecsys, mlperf = list_sizes("deeprecsys"), list_sizes("mlperf")
    assert np.mean(deeprecsys) == pytest.approx(165, abs=0.2)
    assert np.std(deeprecsys) == pytest.approx(16, rel=0.03)
    assert (len(mlperf), np.mean(mlperf), mlperf[0], mlperf[-1]) == (20, 270, 100, 700)
    assert list_sizes("fixed:32") == (32,)


@pytest.mark.parametrize(
    "text", ("", "fixed", "fixed:", "fixed:0", "fixed:1025", "fixed:-1", "fixed:1e3", "other:3", *TAILS)
)
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"serve\.queries is .*deeprecsys, mlperf, dlrm-v3, fixed:N"):
        parse_serve({**LIMIT, "queries": text})


@pytest.mark.parametrize(
    ("table", "words"),
    (
        ({}, "serve.target_latency_ms is missing. Give --target-latency"),
        ({"target_latency_ms": 0}, "serve.target_latency_ms is 0, expected a number of at least 0.001"),
        ({"target_latency_ms": -3}, "serve.target_latency_ms is -3"),
        ({**LIMIT, "percentile": 49}, "serve.percentile is 49"),
        ({**LIMIT, "percentile": 100}, "serve.percentile is 100"),
        ({**LIMIT, "percentile": 98}, "serve.percentile is 98, expected one that LoadGen reports: 50, 90"),
        ({**LIMIT, "colocate": 0}, "serve.colocate is 0"),
        ({**LIMIT, "batch": 0}, "serve.batch is 0"),
        ({**LIMIT, "thread": 1}, "unknown key serve.thread. Did you mean 'threads'?"),
        ({**LIMIT, "weights": "a", "train_samples": 1}, "both name the weights"),
    ),
)
def test_what_cannot_be_served_is_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_serve(table)
    assert words in str(refused.value)


def test_only_a_server_needs_a_limit() -> None:
    assert parse_serve({"scenario": "offline"}).limit_s is None
    assert parse_serve({**LIMIT, "scenario": "offline"}).limit_s is None
    assert parse_serve(LIMIT).limit_s == 0.025


def test_the_digest_is_that_of_what_is_asked_and_not_of_how_it_is_done() -> None:
    plain = parse_serve(LIMIT)
    for how in ({"batch": 4}, {"threads": 2}, {"colocate": 2}, {"batch_wait_ms": 1.0}, {"train_samples": 9}):
        assert parse_serve({**LIMIT, **how}).problem_sha256 == plain.problem_sha256
    for what in ({"percentile": 99}, {"queries": "mlperf"}, {"target_latency_ms": 26}, {"scenario": "offline"}):
        assert parse_serve({**LIMIT, **what}).problem_sha256 != plain.problem_sha256


def test_serving_has_no_part_in_the_training_problem() -> None:
    for name in ("rm1_deeprecsys", "rm2_deeprecsys", "rm3_deeprecsys", "dlrm_small", "dlrm_tiny"):
        assert parse_serve(load_benchmark(name).sections["serve"]).limit_s == 0.025
        trained, served = resolve(name, ()), resolve(name, (), sections=("serve",))
        assert "serve" not in trained.tables and "serve" in served.tables
        assert trained.benchmark.definition_sha256 == served.benchmark.definition_sha256
        assert trained.benchmark.definition_sha256 == load_benchmark(name).definition_sha256
        assert not [key for key in trained.values() if key.startswith("serve.")]
    others = {*shipped_names(), *list_workload_names()} - {"dlrm_small", "dlrm_tiny"}
    assert not [name for name in others if "serve" in read_toml(load_benchmark(name).path) and name[:2] != "rm"]


def test_a_key_of_serve_is_refused_where_nothing_is_served() -> None:
    asked = [Override(key="serve.batch", value=2, source="--set serve.batch")]
    with pytest.raises(ConfigError, match=r"serve\.batch is only for 'dlrmbench serve'"):
        resolve("dlrm_tiny", asked)
    values = resolve("dlrm_tiny", asked, sections=("serve",)).values()
    assert values["serve.batch"] == {"value": 2, "source": "--set serve.batch"}
    assert values["serve.colocate"] == {"value": 1, "source": "default"}
    assert values["serve.percentile"] == {"value": 95, "source": "definition"}


# service times


def test_calls_reach_from_the_smallest_query_to_the_largest_full_one() -> None:
    sizes = (30, 10, 20, 40)
    assert choose_calls(sizes, Workers()) == [(QueryPart(place, 0, sizes[place]),) for place in (1, 2, 0, 3)]
    calls = [[part.items for part in call] for call in choose_calls(sizes, Workers(max_items=160))]
    assert calls[:4] == [[10], [20], [30], [40]]
    totals = [sum(call) for call in calls[4:]]
    assert totals == sorted(totals) and 120 < totals[-1] <= 160 and all(len(call) > 1 for call in calls[4:])
    assert {items for call in calls[4:] for items in call} == set(sizes)


def test_parts_of_large_queries_are_timed_and_merged_with_others() -> None:
    calls = choose_calls((100, 10), Workers(max_items=40))
    assert [[part.items for part in call] for call in calls[:3]] == [[10], [33], [34]]
    assert all(sum(part.items for part in call) <= 40 for call in calls)


def test_calls_are_timed_in_turns_for_as_long_as_asked() -> None:
    clock_s = [0.0]
    answered: list[int] = []

    def answer(parts: Sequence[QueryPart]) -> None:
        answered.append(len(parts))
        clock_s[0] += 0.001 * sum(part.items for part in parts)

    timed = time_calls(answer, choose_calls((1, 3), Workers()), 1, 0.1, lambda: clock_s[0])
    assert [size.items for size in timed] == [1, 3]
    assert [size.mean_s for size in timed] == pytest.approx([0.001, 0.003])
    assert {len(size.seconds) for size in timed} == {25}
    assert len(answered) == 2 + 50


def test_an_error_of_the_model_ends_the_timing() -> None:
    def answer(parts: Sequence[QueryPart]) -> None:
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        time_calls(answer, choose_calls((1,), Workers()), 2, 0.0)


def test_service_times_between_and_beyond_what_was_timed() -> None:
    timed = [
        TimedSize(items=10, num_queries=1, seconds=(0.9, 1.1)),
        TimedSize(items=20, num_queries=1, seconds=(2.0, 2.0)),
    ]
    service = fit_service(timed, 40)
    assert service.by_items_s[[5, 10, 15, 20, 40]] == pytest.approx([1, 1, 1.5, 2, 4])
    assert sorted(service.factors) == pytest.approx([0.9, 1, 1, 1.1])


class Summing:
    """A servable that scores an item by its numbers, so that every item is known by its score."""

    served_bytes, quality = ServedBytes(table_bytes=0, dense_bytes=0), staticmethod(lambda: None)

    def queries(self, sizes: Sequence[int]) -> list[Batch]:
        ends = np.cumsum(sizes)
        return [
            Batch(torch.arange(end - size, end).view(-1, 1).float(), torch.zeros(size, 1).long(), torch.zeros(size))
            for end, size in zip(ends.tolist(), sizes, strict=True)
        ]

    def answer(self, batch: Batch) -> torch.Tensor:
        return batch.dense.sum(1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 9))
def test_parts_of_queries_are_answered_as_the_items_that_they_hold(sizes: list[int], max_items: int) -> None:
    model = Summing()
    served = ServedModel(servable=model, sizes=tuple(sizes), pool=tuple(model.queries(sizes)))
    parts = [
        part for place, items in enumerate(sizes) for part in split_query(place, items, Workers(max_items=max_items))
    ]
    assert served.answer(parts).tolist() == list(range(sum(sizes)))
    assert torch.cat([served.answer([part]) for part in parts]).tolist() == list(range(sum(sizes)))
