"""Serving by LoadGen: what waits in line for workers, how its log is read, and LoadGen in processes of its own."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serving_process
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import HANG_S, skip_where_busy

from harness.extensions.serving import loadgen
from harness.extensions.serving.bound import Limit, model_bound
from harness.extensions.serving.loadgen import ScheduledRun, Seeds, read_judgement, require_loadgen
from harness.extensions.serving.rounds import FORMS
from harness.extensions.serving.rule import most_late
from harness.extensions.serving.schedule import draw_arrivals
from harness.extensions.serving.worker_pool import Query, QueryPart, RequestQueue, split_query, start_workers
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.queue_simulation import ServiceTimes, Workers, draw_traffic

LIMIT = {"target_latency_ms": 25}


def test_without_loadgen_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadgen, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match=r"pip install '\.\[serve\]'") as refused:
        require_loadgen()
    assert refused.value.exit_code == ExitCode.USAGE


def line_of(workers: Workers, *sizes: int) -> RequestQueue:
    line = RequestQueue(workers)
    for number, items in enumerate(sizes):
        parts = split_query(number, items, workers)
        line.put(Query(number, 0.0, len(parts)), parts)
    line.close()
    return line


def test_a_worker_takes_what_is_there_up_to_a_full_call_and_leaves_the_end_to_others() -> None:
    line = line_of(Workers(count=2, max_items=20), 8, 8, 8, 20)
    taken = [[part.place for _, part in line.take()] for _ in range(5)]
    assert taken == [[0, 1], [2], [3], [], []]


def test_queries_are_calls_of_their_own_where_nothing_is_said() -> None:
    line = line_of(Workers(), 8, 8)
    assert [[part for _, part in line.take()] for _ in range(3)] == [[QueryPart(0, 0, 8)], [QueryPart(1, 0, 8)], []]


def test_a_large_query_is_answered_with_its_last_part() -> None:
    line = line_of(Workers(count=2, max_items=4), 10, 1)
    calls = [line.take() for _ in range(4)]
    assert [[(part.place, part.start, part.stop) for _, part in call] for call in calls] == [
        [(0, 0, 4)],
        [(0, 4, 7)],
        [(0, 7, 10), (1, 0, 1)],
        [],
    ]
    assert [line.finish(calls[number]) for number in (2, 0, 1)] == [[1], [], [0]]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 3), st.integers(1, 12))
def test_a_crew_answers_every_item_once_and_every_query_once(sizes: list[int], count: int, max_items: int) -> None:
    line, answered, done = line_of(Workers(count=count, max_items=max_items), *sizes), [], []
    crew = start_workers(answered.append, line, count, done.extend, [])
    for worker in crew:
        worker.join(HANG_S)
    assert all(sum(part.items for part in call) <= max_items for call in answered)
    items = sorted((part.place, item) for call in answered for part in call for item in range(part.start, part.stop))
    assert items == [(place, item) for place, size in enumerate(sizes) for item in range(size)]
    assert sorted(done) == list(range(len(sizes)))


TRIAL = ScheduledRun(
    scenario="server",
    rate=100,
    limit_s=0.02,
    share=0.95,
    min_queries=100,
    min_duration_s=1,
    seeds=Seeds(library=1, samples=2, schedule=3),
)
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
        pytest.skip("MLPerf LoadGen is not installed: the extra serve")
    command = [sys.executable, serving_process.__file__, str(folder), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def unless_too_busy(found: dict[str, Any]) -> dict[str, Any]:
    """What was found, where the system had the time to keep any pace; else the error must say that no rate was."""
    if "error" in found:
        assert found["exit_code"] == ExitCode.INCONCLUSIVE, found
        skip_where_busy(found["error"])
    return found


def read_keys(path: Path) -> dict[str, Any]:
    entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]
    return {entry["key"]: entry["value"] for entry in entries}


@pytest.mark.slow
def test_loadgen_finds_a_valid_rate_and_its_files_are_kept(tmp_path: Path) -> None:
    """Half of the queries within 100 ms of a service of 1 ms: at some rate so on any system under any load."""
    (tmp_path / "audit.config").write_text("*.*.min_query_count = 100000000\n")
    asked = {"service_s": 0.001, "target_latency_ms": 100, "percentile": 50, "queries": "fixed:1"}
    found = unless_too_busy(judge_alone(tmp_path, **asked))
    assert found["best"]["is_valid"] and found["best"]["reason"] is None
    assert found["best"]["latency_s"] <= 0.1
    assert found["best"] in found["runs"]
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
        ratios.append(found["bounded"] / truth)
        if len(ratios) == 3:
            break
    if len(ratios) < 3:
        pytest.skip("this system is too busy to keep a constant service time")
    assert 0.95 <= np.median(ratios) <= 1.05, ratios


@pytest.mark.slow
def test_a_limit_below_the_service_time_has_no_rate(tmp_path: Path) -> None:
    found = judge_alone(tmp_path, service_s=0.05, target_latency_ms=20, queries="fixed:1")
    assert found["exit_code"] == ExitCode.INCONCLUSIVE
    # How long a sleep of 50 ms took is the machine's matter.
    assert re.search(r"service alone takes \d[\d.e+]* ms", found["error"]), found["error"]
    assert "the limit is 20 ms" in found["error"]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ("offline", "single_stream"))
def test_the_other_scenarios_are_one_run(tmp_path: Path, scenario: str) -> None:
    found = unless_too_busy(judge_alone(tmp_path, service_s=0.002, scenario=scenario, queries="fixed:1"))
    assert len(found["runs"]) == 1
    assert found["best"]["completed_per_s"] < 1 / 0.002


@pytest.mark.slow
def test_an_error_of_the_system_ends_the_measurement(tmp_path: Path) -> None:
    found = judge_alone(tmp_path, service_s=0.001, fails=True, **LIMIT)
    assert found == {"error": "the system is broken", "exit_code": None}


OFFICIAL = {
    "performance_sample_count": 204_800,
    "target_latency_ns": 60_000_000,
    "samples_per_query": 24_576,
    "qsl_rng_seed": 1780908523862526354,
    "sample_index_rng_seed": 14771362308971278857,
    "schedule_rng_seed": 18209322760996052031,
}
"""What the official PerformanceCheck asks of dlrm-v2-99 in round v5.1 (mlcommons/inference, tools/submission,
submission_checker/constants.py); the least duration is shortened here, and nothing else."""


def refused_officially(keys: dict[str, Any], min_duration_ms: int) -> list[str]:
    """The checks of PerformanceCheck that depend on what was asked of LoadGen, not on how it was answered."""
    seeds = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
    found = [name for name in seeds if keys[f"effective_{name}"] != OFFICIAL[name]]
    if keys["effective_performance_sample_count"] < OFFICIAL["performance_sample_count"]:
        found.append("performance_sample_count")
    if keys["effective_min_duration_ms"] < min_duration_ms:
        found.append("min_duration")
    if keys["effective_scenario"] == "Server":
        if keys["effective_target_latency_ns"] > OFFICIAL["target_latency_ns"]:
            found.append("target_latency")
    elif keys["effective_samples_per_query"] < OFFICIAL["samples_per_query"]:
        found.append("samples_per_query")
    return found + [key for key in keys if key.startswith("error")]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ("offline", pytest.param("server", marks=pytest.mark.long)))
def test_the_official_check_passes_on_what_mlperfs_form_asks(tmp_path: Path, scenario: str) -> None:
    rate = {"offline": 20_000, "server": 500}[scenario]
    form = {**FORMS["dlrm-v2"][scenario], "mlperf": True, "scenario": scenario, "duration_s": 5, "target_qps": rate}
    judge_alone(tmp_path, **form, service_s=0, shortened={"min_duration_s": 0.5})
    keys = read_keys(tmp_path / "run_1" / loadgen.DETAIL)
    assert refused_officially(keys, 500) == []
    assert keys["effective_scenario"].lower() == scenario
    if scenario == "server":
        assert keys["effective_target_latency_percentile"] == pytest.approx(0.99)
        assert keys["effective_target_qps"] == rate


@pytest.mark.slow
def test_the_official_check_refuses_what_is_asked_without_the_form(tmp_path: Path) -> None:
    judge_alone(tmp_path, scenario="offline", queries="fixed:1", service_s=0.001, duration_s=1)
    refused = set(refused_officially(read_keys(tmp_path / "run_1" / loadgen.DETAIL), 600_000))
    assert {"qsl_rng_seed", "schedule_rng_seed", "performance_sample_count", "min_duration"} <= refused


@pytest.mark.slow
def test_a_rate_that_cannot_be_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    asked = {"target_latency_ms": 1000, "queries": "fixed:1", "service_s": 0.01, "target_qps": 1e5}
    found = judge_alone(tmp_path, **asked)
    assert found["exit_code"] == ExitCode.USAGE and not (tmp_path / "run_1").exists()
    assert re.search(
        r"serve.target_qps is 1e\+05, more than 10 times the \d+[\d.]* queries/s that can", found["error"]
    )
