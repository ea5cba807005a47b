"""Files beside the logs: what is there is read, what is odd is left out, nothing breaks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_builder import write_attempt, write_run_set

from reports.facts.extras import Extras, read_extras
from rules.tree.inventory import find_result_sets

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
RUN_SET_KEYS = (
    "name", "created_utc", "command", "base_seed", "num_runs", "benchmark", "config", "environment", "preflight",
    "dataset", "system",
)  # fmt: skip


def read(root: Path) -> Extras:
    return read_extras(find_result_sets(root)[0])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_run_set(tmp_path / "set")


def test_records_of_our_own_sets_are_read(root: Path) -> None:
    extras = read(root)
    assert extras.problems == ()
    assert extras.run_set is not None
    assert extras.run_set.command == "dlrmbench run dlrm_tiny"
    assert [(one.key, one.value, one.source) for one in extras.run_set.config] == [
        ("train.global_batch_size", "512", "definition"),
        ("runtime.threads", "2", "option --threads"),
    ]
    assert [(one.run_index, one.attempt, one.status) for one in extras.attempts[:3]] == [
        (0, 0, "interrupted"), (0, 1, "success"), (1, 0, "success"),
    ]  # fmt: skip
    assert extras.attempts[1].blocks[1].first_sample == 1000
    assert ("status", "Available on-premise") in extras.system


def test_logs_without_records_have_none(root: Path) -> None:
    for path in sorted((root / "extra").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "extra").rmdir()
    extras = read(root)
    assert (extras.run_set, extras.attempts, extras.problems) == (None, (), ())


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"null"]
)
def test_an_unreadable_file_is_one_problem_that_names_it(root: Path, content: bytes) -> None:
    (root / "extra" / "run_set.json").write_bytes(content)
    (problem,) = read(root).problems
    assert "run_set.json" in problem


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_is_not_opened(root: Path) -> None:
    (root / "extra" / "run_set.json").unlink()
    os.mkfifo(root / "extra" / "run_set.json")
    assert "not a regular file" in read(root).problems[0]


def test_an_attempt_without_a_record_is_still_an_attempt(root: Path) -> None:
    (root / "extra" / "run_3" / "attempt_7").mkdir(parents=True)
    (found,) = [one for one in read(root).attempts if one.attempt == 7]
    assert (found.run_index, found.status, found.blocks) == (3, None, ())


@pytest.mark.parametrize("value", [True, -1, 0, "many", float("inf"), 10**400, [1], None])
def test_impossible_measurements_are_not_known(root: Path, value: Any) -> None:
    write_attempt(
        root, 1, 0, peak_rss_bytes=value, blocks=[{"first_sample": 0, "num_samples": 5, "duration_s": value}]
    )
    (found,) = [one for one in read(root).attempts if one.run_index == 1]
    assert (found.peak_rss_bytes, found.blocks) == (None, ())


@pytest.mark.parametrize(
    "block",
    [
        {"first_sample": -1, "num_samples": 5, "duration_s": 1.0},
        {"first_sample": 2**100, "num_samples": 5, "duration_s": 1},
        {"first_sample": 0, "num_samples": 0, "duration_s": 1.0},
        {"first_sample": 0, "num_samples": 5, "duration_s": 1e-308},
    ],
)  # fmt: skip
def test_impossible_blocks_are_left_out(root: Path, block: dict[str, Any]) -> None:
    write_attempt(root, 1, 0, blocks=[block, {"first_sample": 0, "num_samples": 5, "duration_s": 2.0}])
    (found,) = [one for one in read(root).attempts if one.run_index == 1]
    assert [(one.num_samples, one.duration_s) for one in found.blocks] == [(5, 2.0)]


@given(content=st.fixed_dictionaries({}, optional=dict.fromkeys(RUN_SET_KEYS, json_values)))
def test_no_content_of_run_set_json_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    root = tmp_path_factory.getbasetemp() / "fuzzed"
    if not root.exists():
        write_run_set(root)
    (root / "extra" / "run_set.json").write_text(json.dumps(content), encoding="utf-8")
    record = read(root).run_set
    assert record is None or all(isinstance(one.value, str) for one in record.config)
