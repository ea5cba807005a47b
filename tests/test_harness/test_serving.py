"""Serving: what [serve] says, service times, the search for the highest valid rate, LoadGen in its own processes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serving_process
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from waiting import HANG_S

from harness.config.run_config import Override, resolve
from harness.config.serving import list_sizes, parse_serve
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.serving import loadgen
from harness.measure.serving.bound import Limit, model_bound
from harness.measure.serving.crew import Line, Part, Query, split_query, start_crew
from harness.measure.serving.loadgen import Trial, read_judgement, require_loadgen
from harness.measure.serving.model import Served
from harness.measure.serving.queue import ServiceTimes, Traffic, Workers, draw_traffic, simulate
from harness.measure.serving.rule import most_late, passing_share
from harness.measure.serving.schedule import choose_schedule, draw_arrivals
from harness.measure.serving.search import RESOLUTION, Tried, search_highest
from harness.measure.serving.timing import TimedSize, choose_calls, fit_service, time_calls
from reference_models.data.store.dataset import Batch
from reference_models.process.errors import ConfigError
from reference_models.serving.weight_bytes import ServedBytes
from rules.benchmarks.loader import load_benchmark, read_toml, shipped_names, workload_names

LIMIT = {"target_latency_ms": 25}


def test_the_sizes_of_queries_are_those_of_their_sources() -> None:
    deeprecsys, mlperf = list_sizes("deeprecsys"), list_sizes("mlperf")
    assert np.mean(deeprecsys) == pytest.approx(165, abs=0.2)
    assert np.std(deeprecsys) == pytest.approx(16, rel=0.03)
    assert (len(mlperf), np.mean(mlperf), mlperf[0], mlperf[-1]) == (20, 270, 100, 700)
    assert list_sizes("fixed:32") == (32,)


@pytest.mark.parametrize("text", ("", "fixed", "fixed:", "fixed:0", "fixed:1025", "fixed:-1", "fixed:1e3", "other:3"))
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"serve\.queries is .*deeprecsys, mlperf, or fixed:N"):
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
        ({**LIMIT, "weights": "a", "train_samples": 1}, "both say what is served"),
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
        trained, served = resolve(name, ()), resolve(name, (), is_served=True)
        assert "serve" not in trained.tables and "serve" in served.tables
        assert trained.benchmark.definition_sha256 == served.benchmark.definition_sha256
        assert trained.benchmark.definition_sha256 == load_benchmark(name).definition_sha256
        assert not [key for key in trained.values() if key.startswith("serve.")]
    others = {*shipped_names(), *workload_names()} - {"dlrm_small", "dlrm_tiny"}
    assert not [name for name in others if "serve" in read_toml(load_benchmark(name).path) and name[:2] != "rm"]


def test_a_key_of_serve_is_refused_where_nothing_is_served() -> None:
    asked = [Override(key="serve.batch", value=2, source="--set serve.batch")]
    with pytest.raises(ConfigError, match=r"serve\.batch is for 'dlrmbench serve'"):
        resolve("dlrm_tiny", asked)
    values = resolve("dlrm_tiny", asked, is_served=True).values()
    assert values["serve.batch"] == {"value": 2, "source": "--set serve.batch"}
    assert values["serve.colocate"] == {"value": 1, "source": "default"}
    assert values["serve.percentile"] == {"value": 95, "source": "definition"}


# service times


def test_calls_reach_from_the_smallest_query_to_the_largest_full_one() -> None:
    sizes = (30, 10, 20, 40)
    assert choose_calls(sizes, None) == [(Part(place, 0, sizes[place]),) for place in (1, 2, 0, 3)]
    calls = [[part.items for part in call] for call in choose_calls(sizes, 160)]
    assert calls[:4] == [[10], [20], [30], [40]]
    totals = [sum(call) for call in calls[4:]]
    assert totals == sorted(totals) and 120 < totals[-1] <= 160 and all(len(call) > 1 for call in calls[4:])
    assert {items for call in calls[4:] for items in call} == set(sizes)


def test_parts_of_large_queries_are_timed_and_merged_with_others() -> None:
    calls = choose_calls((100, 10), 40)
    assert [[part.items for part in call] for call in calls[:3]] == [[10], [33], [34]]
    assert all(sum(part.items for part in call) <= 40 for call in calls)


def test_calls_are_timed_in_turns_for_as_long_as_asked() -> None:
    clock_s = [0.0]
    answered: list[int] = []

    def answer(parts: Sequence[Part]) -> None:
        answered.append(len(parts))
        clock_s[0] += 0.001 * sum(part.items for part in parts)

    timed = time_calls(answer, (1, 3), Workers(), 0.1, lambda: clock_s[0])
    assert [size.items for size in timed] == [1, 3]
    assert [size.mean_s for size in timed] == pytest.approx([0.001, 0.003])
    assert {len(size.seconds) for size in timed} == {25}
    assert len(answered) == 2 + 50


def test_an_error_of_the_model_ends_the_timing() -> None:
    def answer(parts: Sequence[Part]) -> None:
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        time_calls(answer, (1,), Workers(count=2), 0.0)


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
    served = Served(servable=model, sizes=tuple(sizes), pool=tuple(model.queries(sizes)))
    parts = [part for place, items in enumerate(sizes) for part in split_query(place, items, max_items)]
    assert served.answer(parts).tolist() == list(range(sum(sizes)))
    assert torch.cat([served.answer([part]) for part in parts]).tolist() == list(range(sum(sizes)))


# LoadGen's rule


@pytest.mark.parametrize(("share", "fewest"), ((0.9, 44), (0.95, 90), (0.97, 152), (0.99, 459), (0.999, 4603)))
def test_the_fewest_queries_that_loadgen_calls_valid(share: float, fewest: int) -> None:
    assert (most_late(fewest - 1, share), most_late(fewest, share)) == (None, 0)
    assert passing_share(fewest - 1, share) is None and passing_share(fewest, share) == 1


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20_000), st.sampled_from((0.5, 0.9, 0.95, 0.97, 0.99, 0.999)))
def test_so_many_may_be_late_that_chance_would_do_as_well_in_less_than_a_hundredth(num: int, share: float) -> None:
    late = most_late(num, share)
    assert binom.cdf(0 if late is None else late + 1, num, 1 - share) >= 0.0099999999
    assert late is None or binom.cdf(late, num, 1 - share) < 0.0100000001
    # The other half of the rule, the order statistic that LoadGen takes, is the weaker one.
    assert late is None or late <= num - 1 - int(num * share)


# the search


def valid_below(bound: float) -> Any:
    return lambda rate: Tried(rate=rate, is_valid=rate <= bound, found=None)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-2, 1e5), st.floats(0.3, 3))
def test_the_search_finds_the_bound_wherever_it_starts(bound: float, off: float) -> None:
    tried = search_highest(valid_below(bound), bound * off, max_attempts=20)
    best = max(attempt.rate for attempt in tried if attempt.is_valid)
    assert bound / (RESOLUTION * 1.0001) <= best <= bound


@pytest.mark.parametrize(("off", "most"), ((1.0, 2), (0.99, 2), (1.01, 2), (0.95, 5), (1.05, 5), (0.8, 8), (1.25, 8)))
def test_a_start_that_is_nearly_right_takes_few_attempts(off: float, most: int) -> None:
    tried = search_highest(valid_below(100), 100 * off)
    best = max(attempt.rate for attempt in tried if attempt.is_valid)
    assert len(tried) <= most and best >= 100 / (RESOLUTION * 1.0001)


def test_the_search_ends_after_so_many_attempts() -> None:
    rates = [attempt.rate for attempt in search_highest(valid_below(0), 100.0)]
    assert len(rates) == 8
    assert rates == sorted(rates, reverse=True) and rates[0] == 100 and 5 < rates[-1] < 10


@pytest.mark.parametrize("least", (60.0, 99.0, 100.0))
def test_the_search_tries_nothing_below_the_least_rate_and_that_once(least: float) -> None:
    rates = [attempt.rate for attempt in search_highest(valid_below(0), 100.0, least=least)]
    assert rates[-1] == least and len(set(rates)) == len(rates)


@pytest.mark.parametrize("limit_s", (0.025, 0.1))
def test_a_constant_service_time_is_bounded_within_five_percent_by_the_rule_of_loadgen(limit_s: float) -> None:
    """Queries and arrivals as LoadGen draws them, judged by its rule; what a real run has besides is its overhead."""
    service = ServiceTimes(by_items_s=np.full(2, 0.002), factors=np.ones(1))
    limit, workers, num_queries = Limit(seconds=limit_s, share=0.95), Workers(), 2000
    truth = model_bound(draw_traffic(200_000, (1,), service, 0), service, workers, limit).rate
    assert truth is not None
    ratios = []
    for seed in range(8):
        traffic = draw_traffic(30_000, (1,), service, seed)
        modelled = model_bound(traffic, service, workers, limit, lambda rate: num_queries).rate
        assert modelled is not None
        chosen = choose_schedule(seed, num_queries, modelled, traffic, service, workers, limit)
        drawn = draw_traffic(num_queries, (1,), service, seed)
        asked = replace(drawn, arrivals_s=draw_arrivals(chosen, num_queries))

        def attempt(rate: float, asked: Traffic = asked) -> Tried[None]:
            late = int((simulate(asked, rate, service, workers) > limit_s).sum())
            return Tried(rate=rate, is_valid=late <= (most_late(num_queries, 0.95) or 0), found=None)

        tried = search_highest(attempt, modelled)
        ratios.append(max(each.rate for each in tried if each.is_valid) / truth)
    assert min(ratios) >= 0.95 and max(ratios) <= 1.05, ratios


# LoadGen


def test_without_loadgen_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadgen, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match=r"pip install 'dlrmbench\[serve\]'") as refused:
        require_loadgen()
    assert refused.value.exit_code == ExitCode.USAGE


def line_of(workers: Workers, *sizes: int) -> Line:
    line = Line(workers)
    for number, items in enumerate(sizes):
        parts = split_query(number, items, workers.max_items)
        line.put(Query(number, 0.0, len(parts)), parts)
    line.close()
    return line


def test_a_worker_takes_what_is_there_up_to_a_full_call_and_leaves_the_end_to_others() -> None:
    line = line_of(Workers(count=2, max_items=20), 8, 8, 8, 20)
    taken = [[part.place for _, part in line.take()] for _ in range(5)]
    assert taken == [[0, 1], [2], [3], [], []]


def test_queries_are_calls_of_their_own_where_nothing_is_said() -> None:
    line = line_of(Workers(), 8, 8)
    assert [[part for _, part in line.take()] for _ in range(3)] == [[Part(0, 0, 8)], [Part(1, 0, 8)], []]


def test_a_large_query_is_answered_with_its_last_part() -> None:
    line = line_of(Workers(count=2, max_items=4), 10, 1)
    calls = [line.take() for _ in range(4)]
    assert [[(part.place, part.start, part.stop) for _, part in call] for call in calls] == [
        [(0, 0, 4)], [(0, 4, 7)], [(0, 7, 10), (1, 0, 1)], [],
    ]  # fmt: skip
    assert [line.finish(calls[number]) for number in (2, 0, 1)] == [[1], [], [0]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 3), st.integers(1, 12))
def test_a_crew_answers_every_item_once_and_every_query_once(sizes: list[int], count: int, max_items: int) -> None:
    line, answered, done = line_of(Workers(count=count, max_items=max_items), *sizes), [], []
    crew = start_crew(answered.append, line, count, done.extend, [])
    for worker in crew:
        worker.join(HANG_S)
    assert all(sum(part.items for part in call) <= max_items for call in answered)
    items = sorted((part.place, item) for call in answered for part in call for item in range(part.start, part.stop))
    assert items == [(place, item) for place, size in enumerate(sizes) for item in range(size)]
    assert sorted(done) == list(range(len(sizes)))


TRIAL = Trial(
    scenario="server", rate=100, limit_s=0.02, share=0.95, min_queries=100, min_duration_s=1, seed=1, schedule_seed=2
)  # fmt: skip
DETAIL = {
    "generated_samples_per_query": 1,
    "result_validity": "INVALID",
    "result_perf_constraints_met": False,
    "early_stopping_met": False,
    "result_min_duration_met": True,
    "result_query_count": 200,
    "result_overlatency_query_count": 30,
    "result_completed_samples_per_sec": 96.5,
    "result_mean_latency_ns": 12_000_000,
    "result_95.00_percentile_latency_ns": 31_000_000,
}


def write_detail(path: Path, content: dict[str, Any], more: str = "") -> Path:
    lines = [f":::MLLOG {json.dumps({'key': key, 'value': value})}" for key, value in content.items()]
    path.write_text("\n".join(["something else", *lines, more]), encoding="utf-8")
    return path


def test_a_judgement_is_read_with_its_reason(tmp_path: Path) -> None:
    found = read_judgement(write_detail(tmp_path / "detail.txt", DETAIL), TRIAL)
    assert not found.is_valid
    assert found.reason == "too many queries were late; too few queries to be sure that enough are in time"
    assert (found.num_queries, found.num_late, found.completed_per_s) == (200, 30, 96.5)
    assert found.latencies_s == {"95.00": pytest.approx(0.031)}


@pytest.mark.parametrize(
    "more", (":::MLLOG {", ":::MLLOG 3", ':::MLLOG {"key": []}', ':::MLLOG {"key": {}, "value": 1}')
)
def test_a_damaged_log_of_loadgen_is_no_judgement(tmp_path: Path, more: str) -> None:
    path = write_detail(tmp_path / "detail.txt", DETAIL, more)
    with pytest.raises(HarnessError, match="LoadGen ended without a result") as refused:
        read_judgement(path, TRIAL)
    assert refused.value.exit_code == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize("missing", ("result_validity", "result_query_count", "result_mean_latency_ns"))
def test_a_log_that_lacks_a_result_is_no_judgement(tmp_path: Path, missing: str) -> None:
    content = {key: value for key, value in DETAIL.items() if key != missing}
    with pytest.raises(HarnessError, match=f"LoadGen ended without a result.*{missing}"):
        read_judgement(write_detail(tmp_path / "detail.txt", content), TRIAL)
    with pytest.raises(HarnessError, match="LoadGen ended without a result"):
        read_judgement(tmp_path / "nothing.txt", TRIAL)


def judge_alone(folder: Path, **asked: Any) -> dict[str, Any]:
    """What LoadGen finds of a system of constant service time, in a process of its own."""
    if find_spec(loadgen.MODULE) is None:
        pytest.skip("MLPerf LoadGen is not installed: the extra dlrmbench[serve]")
    command = [sys.executable, serving_process.__file__, str(folder), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def read_keys(path: Path) -> dict[str, Any]:
    entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]
    return {entry["key"]: entry["value"] for entry in entries}


def test_loadgen_finds_a_valid_rate_and_its_files_are_kept(tmp_path: Path) -> None:
    """Half of the queries within 100 ms of a service of 1 ms: at some rate so on any system under any load."""
    (tmp_path / "audit.config").write_text("*.*.min_query_count = 100000000\n")
    found = judge_alone(tmp_path, service_s=0.001, target_latency_ms=100, percentile=50, queries="fixed:1")
    assert found["best"]["is_valid"] and found["best"]["reason"] is None
    assert found["best"]["latency_s"] <= 0.1
    assert found["best"]["completed_per_s"] == max(run["completed_per_s"] for run in found["runs"] if run["is_valid"])
    assert all(run["num_queries"] >= 100 for run in found["runs"])
    schedules = [read_keys(tmp_path / run["folder"] / loadgen.DETAIL) for run in found["runs"]]
    for run, keys in zip(found["runs"], schedules, strict=True):
        arrivals_s = draw_arrivals(keys["effective_schedule_rng_seed"], keys["generated_query_count"] + 1)
        expected_ns = arrivals_s[-1] / run["asked_per_s"] * 1e9
        assert keys["generated_query_duration"] == pytest.approx(expected_ns, abs=keys["generated_query_count"] + 100)
        assert run["is_valid"] == (run["num_late"] <= (most_late(run["num_queries"], 0.5) or 0))
        assert {f"{run['folder']}/{name}" for name in (loadgen.DETAIL, loadgen.SUMMARY)} <= set(found["files"])


@pytest.mark.long
def test_a_constant_service_time_is_bounded_within_five_percent_by_loadgen_itself(tmp_path: Path) -> None:
    """Of three calls the median, each against the truth of the service times that it had. A call says nothing of a
    system that was so busy meanwhile that sleep took a tenth longer."""
    service_s, limit_s, ratios = 0.005, 0.0625, []
    for number in range(9):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = judge_alone(folder, service_s=service_s, target_latency_ms=limit_s * 1e3, queries="fixed:1")
        took_s = np.array(found.get("took_s", [np.inf]))
        if took_s.mean() > 1.1 * service_s:
            continue
        service = ServiceTimes(by_items_s=np.full(2, took_s.mean()), factors=took_s / took_s.mean())
        traffic = draw_traffic(200_000, (1,), service, 0)
        truth = model_bound(traffic, service, Workers(), Limit(seconds=limit_s, share=0.95)).rate
        assert truth is not None
        ratios.append(found["best"]["completed_per_s"] / truth)
        if len(ratios) == 3:
            break
    if len(ratios) < 3:
        pytest.skip("this system is too busy to keep a constant service time")
    assert 0.95 <= np.median(ratios) <= 1.05, ratios


def test_a_limit_below_the_service_time_has_no_rate(tmp_path: Path) -> None:
    found = judge_alone(tmp_path, service_s=0.05, target_latency_ms=20, queries="fixed:1")
    assert found["exit_code"] == ExitCode.INCONCLUSIVE
    assert "service alone takes 5" in found["error"] and "the limit is 20 ms" in found["error"]


@pytest.mark.parametrize("scenario", ("offline", "single_stream"))
def test_the_other_scenarios_are_one_run(tmp_path: Path, scenario: str) -> None:
    found = judge_alone(tmp_path, service_s=0.002, scenario=scenario, queries="fixed:1")
    assert len(found["runs"]) == 1 or "VALID" in found.get("error", "")
    assert found["best"]["completed_per_s"] < 1 / 0.002


def test_an_error_of_the_system_ends_the_measurement(tmp_path: Path) -> None:
    found = judge_alone(tmp_path, service_s=0.001, fails=True, **LIMIT)
    assert found == {"error": "the system is broken", "exit_code": None}
