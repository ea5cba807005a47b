"""Files beside the logs: what is there is read, a damaged file is one problem, nothing breaks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records_builder import run_set_content
from report_builder import write_attempt, write_run_set

from reports.results.logs import gather
from reports.results.records import MAX_ITEMS, SetRecords, config_texts, read_set_records
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


def read(root: Path) -> SetRecords:
    return read_set_records(find_result_sets(root)[0])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_run_set(tmp_path / "set")


def test_records_of_our_own_sets_are_read(root: Path) -> None:
    records = read(root)
    assert records.problems == ()
    assert records.run_set is not None
    assert records.run_set.command == "dlrmbench run dlrm_tiny"
    assert config_texts(records.run_set) == {
        "train.global_batch_size": ("512", "definition"),
        "runtime.threads": ("2", "option --threads"),
    }
    assert [(one.run_index, one.attempt, one.record and one.record.status) for one in records.attempts[:3]] == [
        (0, 0, "interrupted"),
        (0, 1, "success"),
        (1, 0, "success"),
    ]
    record = records.attempts[1].record
    assert record is not None and record.blocks[1].first_sample == 1000
    assert ("status", "Available on-premise") in records.system


def test_logs_without_records_have_none(root: Path) -> None:
    for path in sorted((root / "extra").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "extra").rmdir()
    records = read(root)
    assert (records.run_set, records.attempts, records.problems) == (None, (), ())


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
    assert "no regular file" in read(root).problems[0]


def test_an_attempt_without_a_record_is_still_an_attempt(root: Path) -> None:
    (root / "extra" / "run_3" / "attempt_7").mkdir(parents=True)
    (found,) = [one for one in read(root).attempts if one.attempt == 7]
    assert (found.run_index, found.record) == (3, None)


@pytest.mark.parametrize(
    ("member", "value"),
    [("peak_rss_bytes", value) for value in (True, -1, "many", float("inf"), 10**400, [1])]
    + [("blocks[0].duration_s", value) for value in (-1, None, "1", 10**400)]
    + [("blocks[0].first_sample", value) for value in (-1, 2**100, 1.5)],
)
def test_a_damaged_record_is_one_problem_that_names_the_member_and_is_not_used(
    root: Path, member: str, value: Any
) -> None:
    block = {"first_sample": 0, "num_samples": 5, "duration_s": 1.0}
    changes = {member: value} if "[" not in member else {"blocks": [block | {member.rpartition(".")[2]: value}]}
    write_attempt(root, 1, 0, **changes)
    records = read(root)
    (found,) = [one for one in records.attempts if one.run_index == 1]
    assert found.record is None
    (problem,) = records.problems
    assert f"run_1/attempt_0/run.json: {member}: found " in problem and problem.endswith("; not used.")


def test_texts_are_printable_and_lists_are_cut(root: Path) -> None:
    config = {f"a.b{number}": {"value": "\x1b[31m\u202e", "source": "x" * 1000} for number in range(MAX_ITEMS + 9)}
    path = root / "extra" / "run_set.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"config": config, "command": "y" * 3000}))
    record = read(root).run_set
    assert record is not None and len(record.config) == MAX_ITEMS and record.command == "y" * 3000
    value, source = config_texts(record)["a.b0"]
    assert value.isprintable() and len(source) < 500


def test_what_rules_have_read_is_printable_too(root: Path) -> None:
    """Rules judge a record as it is; shown is what is safe to print."""
    write_attempt(root, 1, 0, reason="\x1b[31m  far  off", log_sha256=None)
    write_attempt(root, 2, 0, started_utc="x" * 1000)
    (result,) = gather([root], second_opinion=False)
    by_run = {
        attempt.run_index: attempt.record
        for attempt in (*(run.attempt for run in result.runs), *result.unfinished)
        if attempt is not None
    }
    assert by_run[1] is not None and by_run[1].reason == "\\x1b[31m far off"
    assert by_run[2] is not None and len(str(by_run[2].started_utc)) < 500
    records = read(root)
    assert (result.asked, result.problems, result.system.fields) == (
        records.run_set,
        records.problems,
        records.system,
    )


@pytest.mark.slow
@given(content=st.fixed_dictionaries({}, optional=dict.fromkeys(RUN_SET_KEYS, json_values)))
def test_no_content_of_run_set_json_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    root = tmp_path_factory.getbasetemp() / "fuzzed"
    if not root.exists():
        write_run_set(root)
    (root / "extra" / "run_set.json").write_text(json.dumps(run_set_content(**content)), encoding="utf-8")
    records = read(root)
    assert (records.run_set is None) == (len(records.problems) == 1)
