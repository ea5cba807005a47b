"""How queries are answered, chosen by timing: workers, threads, the bound of a call, and the size that is split."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small_set import write_definition

from harness.autotune.choices import Candidates, find_candidates
from harness.autotune.tuning import Preparation, autotune
from harness.config.run_config import Override, RunConfig, resolve
from harness.extensions.serving.bound import MAX_CALL, climb
from harness.extensions.serving.choice import fewest_parts, rates_of_calls
from harness.extensions.serving.config import ServeConfig, parse_serve
from harness.extensions.serving.job import resolve_served, with_choice
from harness.extensions.serving.timing import TimedSize, choose_all_calls
from harness.extensions.serving.worker_pool import Query, RequestQueue, split_query
from harness.foundation.queue_simulation import ServiceTimes, Workers, finish_batches
from reference_models.process.errors import ConfigError
from reports.results.measured import read_measured
from rules.errors import InputError
from rules.records.run_set import ChoiceRecord, ServiceChoice, ServiceWayRecord

SIZES = (127, 150, 165, 180, 203)
ITEMS = st.integers(1, 40)


def way(
    workers: int, threads: int, rate: float, batch: int | None = None, split: int | None = None
) -> ServiceWayRecord:
    return ServiceWayRecord(
        num_workers=workers, num_threads=threads, batch_items=batch, split_items=split, queries_per_s=rate
    )


def config_of(**serve: object) -> RunConfig:
    overrides = [
        Override(
            key=f"{'runtime' if key == 'runtime_threads' else 'serve'}.{key.removeprefix('runtime_')}",
            value=value,
            source="test",
        )
        for key, value in {"target_latency_ms": 25.0, **serve}.items()
    ]
    return resolve("dlrm_tiny", overrides, derived_suffix="_serve", sections=("serve",))


def timed(call_s: float, item_s: float, sizes: Sequence[int] = SIZES) -> list[TimedSize]:
    """Calls whose time is a part of its own for the call, and one for each item."""
    counts = [sum(part.items for part in call) for call in choose_all_calls(sizes, MAX_CALL)]
    return [TimedSize(items=count, num_queries=1, seconds=(call_s + item_s * count,) * 2) for count in counts]


def test_calls_of_every_size_up_to_the_most_are_timed() -> None:
    calls = choose_all_calls(SIZES, 1000)
    counts = [sum(part.items for part in call) for call in calls]
    assert counts[:8] == [1, 2, 4, 8, 16, 32, 64, 128] and 700 < counts[-1] <= 1000
    assert all(len(call) == 1 for call in calls[:8]) and all(len(call) > 1 for call in calls[-2:])


def test_a_tie_is_the_fewest_threads_then_workers_then_the_plainest_calls() -> None:
    assert fewest_parts([way(2, 2, 104), way(1, 2, 103), way(1, 1, 100)]) == way(1, 1, 100)
    assert fewest_parts([way(2, 2, 106), way(1, 1, 100), way(1, 2, 102)]).setup == (1, 2, None, None)
    assert fewest_parts([way(2, 2, 100), way(2, 2, 101, 256), way(2, 2, 104, 256, 100)]) == way(2, 2, 100)
    assert fewest_parts([way(1, 1, 200, 256), way(1, 1, 210, 512), way(1, 1, 100)]) == way(1, 1, 210, 512)


@pytest.mark.parametrize("item_s, is_merging", ((0.0, True), (1e-5, False)))
def test_offline_merges_queries_where_a_call_has_a_price_of_its_own(item_s: float, is_merging: bool) -> None:
    serve = parse_serve({"scenario": "offline"})
    assert serve.is_batch_searched
    found = rates_of_calls(timed(0.0 if not is_merging else 1e-3, item_s), serve, SIZES, Workers())
    best = fewest_parts([way(1, 1, rate, key.max_items, key.split_from) for key, rate in found.items()])
    assert (best.batch_items is not None) == is_merging
    if is_merging:  # a call takes a millisecond, whatever it holds
        assert best.queries_per_s == pytest.approx((best.batch_items or 0) // max(SIZES) / 1e-3, rel=0.3)


@pytest.mark.slow
def test_the_climb_finds_what_trying_everything_finds() -> None:
    """A limit that a large call misses: the rate rises and then falls with the bound of a call."""
    serve = parse_serve({"target_latency_ms": 8.0, "batch": "auto"})
    found = rates_of_calls(timed(2e-3, 5e-6), serve, SIZES, Workers())
    every: dict[Workers, float] = {}
    for power in range(4, MAX_CALL.bit_length()):
        asked = parse_serve({"target_latency_ms": 8.0, "batch": 1 << power})
        every |= rates_of_calls(timed(2e-3, 5e-6), asked, SIZES, Workers(max_items=1 << power))
    assert max(found.values()) == pytest.approx(max(every.values()), rel=0.02)
    assert max(every.values()) > 1.5 * found[Workers()]


@pytest.mark.slow
def test_large_queries_are_split_over_workers_where_that_keeps_the_limit() -> None:
    """A whole query takes 20 ms, of which half is within the limit; with one worker there is nothing to split."""
    serve = parse_serve({"target_latency_ms": 15.0, "batch": "auto"})
    four = rates_of_calls(timed(0, 1e-4, (200,)), serve, (200,), Workers(count=4))
    assert four and all(len(way.split(200)) > 1 for way in four)
    assert not any(way.split_from for way in rates_of_calls(timed(0, 1e-5), serve, SIZES, Workers()))


def test_a_way_without_any_rate_is_left_out() -> None:
    assert climb(lambda workers: None, Workers(count=2), SIZES) == {}
    assert rates_of_calls(timed(1, 0), parse_serve({"target_latency_ms": 5.0}), SIZES, Workers()) == {}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 4), st.integers(8, 40), st.integers(1, 40)
)
def test_parts_of_one_query_are_never_in_one_call(sizes: list[int], count: int, most: int, split: int) -> None:
    workers = Workers(count=count, max_items=most, split_from=split)
    line, num_parts = RequestQueue(workers), 0
    for place, items in enumerate(sizes):
        parts = split_query(place, items, workers)
        assert sum(part.items for part in parts) == items and max(part.items for part in parts) <= most
        assert len(parts) >= min(items, count) or items < split
        num_parts += len(parts)
        line.put(Query(place, 0.0, len(parts)), parts)
    line.close()
    calls = []
    while call := line.take():
        assert len({part.place for _, part in call}) == len(call)
        assert sum(part.items for _, part in call) <= most
        calls.append(call)
    assert sum(map(len, calls)) == num_parts
    # All are there at once and a call takes a second: one worker answers them in so many simulated calls.
    alone = Workers(count=1, max_items=most)
    service = ServiceTimes(by_items_s=np.ones(most + 1), factors=np.ones(1))
    found = finish_batches(np.zeros(len(sizes)), np.array(sizes), np.ones(len(sizes)), service, alone)
    plain = RequestQueue(alone)
    for place, items in enumerate(sizes):
        plain.put(Query(place, 0.0, 1), split_query(place, items, alone))
    plain.close()
    assert found.max() == sum(1 for _ in iter(plain.take, []))


def test_the_simulation_answers_split_queries_at_once() -> None:
    service = ServiceTimes(by_items_s=np.arange(11, dtype=np.float64), factors=np.ones(1))
    workers = Workers(count=2, max_items=10, split_from=6)
    assert finish_batches(np.zeros(1), np.array([8]), np.ones(1), service, workers).tolist() == [4]
    # Five items are one part; the eight behind them two, and the second waits for a worker.
    assert finish_batches(np.zeros(2), np.array([5, 8]), np.ones(1), service, workers).tolist() == [9, 9]
    assert finish_batches(np.zeros(2), np.array([8, 1]), np.ones(1), service, workers).tolist() == [5, 5]


def cores(monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...]) -> None:
    for module in ("harness.autotune.choices", "harness.extensions.serving.choice"):
        monkeypatch.setattr(f"{module}.powers", lambda most: tuple(n for n in counts if n <= most))
        monkeypatch.setattr(f"{module}.read_resources", lambda: type("Resources", (), {"num_cores": max(counts)})())


def ways_of(**serve: object) -> tuple[tuple[int, int], ...] | None:
    found = find_candidates(config_of(**serve), Path("data"))
    return None if found is None or found.own is None else tuple(map(tuple, found.own.chosen_for["ways"]))


def test_workers_and_threads_are_tried_and_what_is_given_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cores(monkeypatch, (1, 2, 4))
    assert ways_of() == ((1, 1), (1, 2), (2, 2), (1, 4), (2, 4), (4, 4))
    assert ways_of(threads=2) == ((2, 1), (2, 2), (2, 4))
    assert ways_of(runtime_threads=2) == ((1, 2), (2, 2))
    assert ways_of(threads=1, runtime_threads=1) is None
    assert ways_of(threads=1, runtime_threads=1, batch="auto") == ((1, 1),)
    assert ways_of(colocate=4) is None


def test_a_choice_is_kept_for_what_asks_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores(monkeypatch, (1, 2))
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: False)
    prepared = Preparation(data_dir=tmp_path, num_threads=2, size=(1, 1))
    asked: list[Candidates] = []

    def measure(candidates: Candidates, earlier: object) -> ChoiceRecord:
        asked.append(candidates)
        chosen = way(2, 2, 1000, 256)
        return ChoiceRecord(
            key=candidates.key,
            num_threads=2,
            spin_count=None,
            tried=(),
            matmul=None,
            matmul_source=None,
            chosen_utc="2026-11-01T00:00:00+00:00",
            service=ServiceChoice(chosen=chosen, tried=(way(2, 2, 700), chosen)),
        )

    made = autotune(config_of(batch="auto"), prepared, known={}, measure=measure, quiet=True)
    assert made.num_threads == 2 and made.choice is not None and made.choice.service is not None
    assert made.choice.service.settings == {"serve.threads": 2, "serve.batch": 256}
    for same in ({"duration_s": 60.0}, {"weights": "elsewhere"}):
        again = autotune(config_of(batch="auto", **same), prepared, known={}, measure=measure, quiet=True)
        assert again.choice == made.choice
    assert len(asked) == 1
    for other in ({"target_latency_ms": 5.0}, {"queries": "mlperf"}, {"percentile": 99.0}):
        autotune(config_of(**{"batch": "auto", **other}), prepared, known={}, measure=measure, quiet=True)
    assert len(asked) == 4
    tables = with_choice({"serve": {"batch": "auto", "target_latency_ms": 25.0}}, made.choice.service)
    assert tables["serve"] == {"batch": 256, "threads": 2, "target_latency_ms": 25.0}


@pytest.mark.parametrize(
    "asked, words",
    (({"split_from": 64}, "serve.split_from"), ({"batch": "all"}, "serve.batch"), ({"threads": 0}, "serve.threads")),
)
def test_what_cannot_be_is_refused_by_its_key(asked: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
        parse_serve({"target_latency_ms": 25.0, **asked})


def test_nothing_is_chosen_where_nobody_asks() -> None:
    serve = ServeConfig(target_latency_ms=25.0)
    assert (serve.num_workers, serve.max_items, serve.is_batch_searched) == (1, None, False)


def test_no_precision_is_chosen_for_what_serves(command: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = command("serve", "dlrm_tiny", "--target-latency", "25ms", "--set", "runtime.precision=auto")
    assert code == 2 and "runtime.precision is 'auto'" in err


def test_what_serves_makes_no_checkpoint() -> None:
    asked = [Override(key="checkpoint.every", value="5%", source="here")]
    with pytest.raises(ConfigError, match="is only for training"):
        resolve_served("dlrm_tiny", asked, None)


def test_who_lacks_a_measurement_is_told_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no extra/serve\.json\. Measure again with 'dlrmbench serve'\."):
        read_measured(tmp_path, "serve")


def test_a_control_is_not_served(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    definition = write_definition(tmp_path / "mine.toml")
    code, _, err = command("simulate", definition, "--target-latency", "1s", "--set", "id_map.kind=classes")
    assert code == 2 and "which is a control" in err
