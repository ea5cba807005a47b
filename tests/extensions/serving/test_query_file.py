"""Queries of a file, and of a distribution with a heavy tail: their sizes, their moments, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from harness.extensions.serving.config import list_sizes, parse_serve
from harness.extensions.serving.job import KIND
from harness.extensions.serving.query_file import MAX_BYTES, read_query_file
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.queue_simulation import ServiceTimes, Workers, draw_traffic, replay_traffic, simulate

LIMIT = {"target_latency_ms": 25.0}


def file_of(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "queries.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_sizes_and_moments_are_those_of_the_file(tmp_path: Path) -> None:
    sizes = read_query_file(file_of(tmp_path, "# items\n3\n\n 1024 \n1"))
    assert (sizes.items, sizes.arrivals_s) == ((3, 1024, 1), None)
    timed = read_query_file(file_of(tmp_path, "0,3\n0,4\n1.5e-1,5\n2,6\n").rename(tmp_path / "other"))
    assert (timed.items, timed.arrivals_s) == ((3, 4, 5, 6), (0, 0, 0.15, 2))
    assert list_sizes(f"file:{tmp_path / 'other'}") == (3, 4, 5, 6)


def test_equal_files_are_equal_queries_wherever_they_lie(tmp_path: Path) -> None:
    one, other, third = (tmp_path / name for name in ("one", "other", "third"))
    for path, text in ((one, "1\n2\n"), (other, "1\n2\n"), (third, "1\n3\n")):
        path.write_text(text)
    asked = [parse_serve({**LIMIT, "queries": f"file:{path}"}) for path in (one, other, third)]
    assert asked[0].queries_label == asked[1].queries_label != asked[2].queries_label
    assert asked[0].problem_sha256 == asked[1].problem_sha256 != asked[2].problem_sha256


@pytest.mark.parametrize(
    "content, words",
    (
        ("1\n0\n", ":2: '0', expected a query of 1 to 1024 items"),
        ("1025\n", ":1: '1025'"),
        ("-1\n", ":1: '-1'"),
        ("1.5\n", ":1: '1.5'"),
        ("\u0661\n", ":1: "),
        ("\x1b[2J\n", r":1: '\\x1b[2J'"),
        ("1\n1,2\n", ":2: '1,2', expected ITEMS in every line, or SECONDS,ITEMS"),
        ("1,2\n2\n", ":2: '2', expected ITEMS in every line"),
        ("1,2,3\n", ":1: '1,2,3', expected ITEMS in every line"),
        ("nan,2\n", ":1: 'nan,2', expected the time of the query"),
        ("-1,2\n", ":1: '-1,2', expected the time of the query"),
        ("2,1\n1,1\n", ":2: '1,1', expected times in ascending order, at least 2"),
        ("1,1\n1,1\n", "all queries come at once"),
        ("# none\n", "has no query"),
        (b"\xff\xfe", ":1: "),
        (b"1\n" * (MAX_BYTES // 2 + 1), "16,777,218 bytes, expected a regular file of at most 16,777,216 bytes"),
        ("1\n" * 200_001, ":200001: '1', expected at most 200,000 queries"),
    ),
)
def test_what_is_no_query_is_refused_with_its_line(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(HarnessError) as refused:
        read_query_file(file_of(tmp_path, content))
    assert refused.value.exit_code == ExitCode.INPUT and words.replace("\\\\", "\\") in str(refused.value)


def test_a_file_that_is_not_there_is_input_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such file") as refused:
        parse_serve({**LIMIT, "queries": f"file:{tmp_path / 'none'}"})
    assert refused.value.exit_code == ExitCode.INPUT


def test_moments_are_for_simulations_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.extensions.serving.job.require_loadgen", lambda: None)
    from harness.config.run_config import Override

    path = file_of(tmp_path, "0,3\n1,4\n")
    asked = {"serve.target_latency_ms": 25.0, "serve.queries": f"file:{path}"}
    overrides = [Override(key=key, value=value, source="test") for key, value in asked.items()]
    with pytest.raises(HarnessError, match="LoadGen draws times itself") as refused:
        KIND.resolve("dlrm_tiny", overrides, None)
    assert refused.value.exit_code == ExitCode.USAGE


def test_queries_are_replayed_in_their_order_at_any_rate() -> None:
    service = ServiceTimes(by_items_s=np.array([0, 1, 2, 3.0]), factors=np.ones(1))
    traffic = replay_traffic((1, 3, 1), (10, 10, 14), service, 0)
    assert traffic.arrivals_s.tolist() == [0, 0, 2]
    assert simulate(traffic, 1, service, Workers()).tolist() == [1, 4, 3]
    assert simulate(traffic, 0.25, service, Workers()).tolist() == [1, 4, 1]


def test_a_heavy_tail_lowers_what_is_within_a_limit() -> None:
    """Equal means: the tail of the sizes makes more queries wait behind a large one."""
    heavy = list_sizes("lognormal:100:0.8")
    assert np.median(heavy) == pytest.approx(100, abs=1) and max(heavy) > 500 and len(heavy) == 256
    mean = round(float(np.mean(heavy)))
    service = ServiceTimes(by_items_s=np.arange(1025) * 1e-5, factors=np.ones(1))
    load = 0.7 / (mean * 1e-5)
    tails = [
        np.percentile(simulate(draw_traffic(50_000, sizes, service, 1), load, service, Workers()), 95)
        for sizes in ((mean,), heavy)
    ]
    assert tails[1] > 1.5 * tails[0]
