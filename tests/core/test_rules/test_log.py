"""The log parser: any bytes in, records with file and line number out, never an exception."""

import json
import os
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import Record, make_records, parse_lines, to_text

from reports.parts.score import score_sets
from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.checks.rule import MAX_FINDINGS_PER_RULE, judge
from rules.checks.subject import JudgedSet, SetFiles, make_log_subject
from rules.checks.verdict import Verdict
from rules.errors import InputError
from rules.judge.families import RULES
from rules.judge.sets import check_log, make_set_subject
from rules.logs.log import (
    MAX_NUM_UNPARSED,
    MAX_RECORD_BYTES,
    MAX_RECORD_TEXT_BYTES,
    RunLog,
    as_number,
    as_whole,
    parse_log,
    read_log,
)
from rules.logs.text import printable
from rules.scoring.results import read_run_result
from rules.scoring.scoring import score_runs
from rules.tree.result_set import ResultSet

GOOD = (
    ':::MLLOG {"namespace": "", "time_ms": 1000, "event_type": "POINT_IN_TIME", "key": "seed", "value": 7, '
    '"metadata": {"file": "a.py", "lineno": 1}}'
)


def test_record_is_read_with_its_place() -> None:
    log = parse_lines(f"noise\n\n{GOOD}\n", "result_0.txt")
    (line,) = log.lines
    assert (line.path, line.line_num, line.key, line.value, line.time_s) == ("result_0.txt", 3, "seed", 7, 1.0)
    assert line.event_type == "POINT_IN_TIME"
    assert line.metadata["file"] == "a.py"
    assert line.problems == ()
    assert log.value("seed") == 7 and log.first("nothing") is None and log.value("nothing") is None


@pytest.mark.parametrize("prefix", ["0: ", "[3] ", " 12: ", "+ echo ", "\x1b[32m", "\ufeff"])
def test_prefixes_of_launchers_are_noise(prefix: str) -> None:
    assert len(parse_lines(f"{prefix}{GOOD}\r\n").lines) == 1


def test_crlf_and_missing_last_newline_change_nothing() -> None:
    text = to_text(make_records(load_benchmark("dlrm_tiny"), num_evals=2))
    unix, windows = parse_lines(text), parse_lines(text.replace("\n", "\r\n").rstrip())
    assert [(line.line_num, line.key, line.value) for line in unix.lines] == [
        (line.line_num, line.key, line.value) for line in windows.lines
    ]
    assert windows.unparsed == ()


def test_glued_records_are_both_read() -> None:
    log = parse_lines(f"{GOOD}{GOOD.replace('seed', 'train_samples')} {GOOD}\n")
    assert [line.key for line in log.lines] == ["seed", "train_samples", "seed"]
    assert {line.line_num for line in log.lines} == {1}
    assert log.unparsed == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD[:60], "cut off before its end"),
        (":::MLLOG ", "not valid JSON"),
        (":::MLLOG {}", "no 'key'"),
        (":::MLLOG []", "not a JSON object"),
        (":::MLLOG 7", "not a JSON object"),
        (GOOD.replace('"time_ms": 1000', '"time_ms": "1000"'), "time_ms"),
        (GOOD.replace('"time_ms": 1000', '"time_ms": true'), "time_ms"),
        (GOOD.replace('"time_ms": 1000', '"time_ms": NaN'), "time_ms"),
        (GOOD.replace('"time_ms": 1000', '"time_ms": -5'), "time_ms"),
        (GOOD.replace('"time_ms": 1000', '"time_ms": 1e999'), "time_ms"),
        (GOOD.replace('"key": "seed"', '"key": 5'), "no 'key'"),
        (GOOD.replace('"value": 7', '"value": 7, "value": 8'), "occurs twice"),
        (GOOD.replace('"value": 7', '"value": ' + "[" * 40 + "]" * 40), "nested"),
        (GOOD.replace('"value": 7', '"value": ' + "[" * 100_000), "nested"),
        (GOOD.replace('"value": 7', '"value": "\\ud800"'), "Unicode"),
        (GOOD.replace('"value": 7', '"value": ' + "9" * 5000), "digits"),
        (GOOD + " and so on", "text follows"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, reason: str) -> None:
    log = parse_lines(f"first\n{text}\n", "x.txt")
    (one,) = log.unparsed
    assert (one.path, one.line_num) == ("x.txt", 2)
    assert reason in one.reason
    assert len(one.excerpt) <= 500 and one.excerpt.isprintable()


def test_same_key_twice_with_the_same_value_is_read() -> None:
    assert parse_lines(GOOD.replace('"value": 7', '"value": 7, "value": 7')).value("seed") == 7


@pytest.mark.parametrize(
    ("removed", "problem"),
    [
        (', "metadata": {"file": "a.py", "lineno": 1}', "metadata"),
        ('"value": 7, ', "value"),
        ('"event_type": "POINT_IN_TIME", ', "event_type"),
    ],
)
def test_incomplete_record_is_kept_and_says_what_is_missing(removed: str, problem: str) -> None:
    (line,) = parse_lines(GOOD.replace(removed, "")).lines
    assert line.problems == (f"no '{problem}'",)


def test_metadata_that_is_text_is_kept_as_a_problem() -> None:
    (line,) = parse_lines(GOOD.replace('{"file": "a.py", "lineno": 1}', '""')).lines
    assert line.metadata == {} and line.problems == ("'metadata' is not an object; found \"\"",)


def test_non_finite_values_are_values() -> None:
    log = parse_lines(
        GOOD.replace('"value": 7', '"value": NaN') + "\n" + GOOD.replace('"value": 7', '"value": -Infinity')
    )
    assert len(log.lines) == 2
    assert [as_number(line.value) for line in log.lines] == [None, None]


def test_latin_1_bytes_are_read() -> None:
    log = parse_lines(b"caf\xe9\n" + GOOD.replace("a.py", "caf\u00e9.py").encode("latin-1") + b"\n")
    assert log.lines[0].metadata["file"] == "café.py"


def test_utf_16_says_so() -> None:
    log = parse_lines(GOOD.encode("utf-16"))
    assert not log.lines and "UTF-16" in log.unparsed[0].reason


@pytest.mark.parametrize(
    ("first_bytes", "what"),
    [(b"\x1f\x8b\x08", "gzip"), (b"PK\x03\x04", "zip"), (b"BZh9", "bzip2"), (b"\xfd7zXZ\0", "xz")],
)
def test_compressed_files_say_so(first_bytes: bytes, what: str) -> None:
    (one,) = parse_lines(first_bytes + b"\0\xff\n\0").unparsed
    assert what in one.reason and "unpack" in one.reason and one.line_num == 1


def test_carriage_returns_of_progress_bars_end_lines() -> None:
    """As for the official parser, which reads with universal newlines; line numbers count line feeds."""
    log = parse_lines(f"10 %\r20 %\r{GOOD}\r30 %\n{GOOD}\r{GOOD}\r\n{GOOD}")
    assert [(line.line_num, line.is_glued) for line in log.lines] == [(1, False), (2, False), (2, False), (3, False)]
    assert log.unparsed == ()
    assert [line.is_glued for line in parse_lines(f"{GOOD} {GOOD}\r{GOOD}").lines] == [False, True, False]


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("0: ", 0),
        ("[3] ", 3),
        (" 12: ", 12),
        ("", None),
        ("node7: ", None),
        ("+ ", None),
        ("10 %\r", None),
        ("1: 2: ", None),
    ],
)
def test_launchers_name_the_rank(prefix: str, rank: int | None) -> None:
    assert parse_lines(f"{prefix}{GOOD}\n").lines[0].rank == rank


def peak_bytes(path: Path) -> tuple[RunLog, int]:
    """The log, and the most memory that reading it held at once."""
    tracemalloc.start()
    try:
        log = read_log(path)
        return log, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [32 << 20, pytest.param(240 << 20, marks=pytest.mark.slow)])
def test_line_without_an_end_is_not_held(size: int, tmp_path: Path) -> None:
    """A sparse file: the memory held is that of a few chunks, whatever its size."""
    path = tmp_path / "result_0.txt"
    with path.open("wb") as file:
        file.seek(size)
        file.write(f"{GOOD}\n{GOOD}\n".encode())
    log, held = peak_bytes(path)
    assert [line.line_num for line in log.lines] == [1, 2]
    assert log.num_bytes == size + 2 * len(GOOD) + 2
    assert held < 16 << 20


@pytest.mark.slow
def test_noise_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(f"{'+ shell trace of some length' * 4}\n" * 50_000 + GOOD)
    log, held = peak_bytes(path)
    assert [line.line_num for line in log.lines] == [50_001]
    assert held < 8 << 20


def test_flood_of_records_is_held_within_bounds_and_said(tmp_path: Path) -> None:
    """However large the records, no more than MAX_RECORD_TEXT_BYTES of them are kept."""
    path = tmp_path / "result_0.txt"
    large = GOOD.replace('"value": 7', f'"value": "{"x" * (MAX_RECORD_BYTES // 2)}"')
    path.write_text(f"{large}\n" * (2 + 3 * MAX_RECORD_TEXT_BYTES // len(large)))
    log, held = peak_bytes(path)
    assert len(log.lines) <= MAX_RECORD_TEXT_BYTES // len(large)
    assert log.unread is not None and "was not read" in log.unread.reason
    assert held < 2 * MAX_RECORD_TEXT_BYTES
    assert log.num_bytes < path.stat().st_size


def test_overlong_record_is_dropped_and_its_neighbours_are_read(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    huge = GOOD.replace('"value": 7', '"value": "' + "x" * (4 * MAX_RECORD_BYTES) + '"')
    path.write_text(f"{GOOD}\n{huge}\n{GOOD}\n" + "." * (3 * MAX_RECORD_BYTES) + GOOD + "\n" + GOOD)
    log = read_log(path)
    assert [line.line_num for line in log.lines] == [1, 3, 4, 5]
    assert [(rejected.line_num, rejected.reason) for rejected in log.unparsed] == [
        (2, f"record longer than {MAX_RECORD_BYTES} bytes")
    ]


def test_record_across_the_reader_s_chunks_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    for filler in range(MAX_RECORD_BYTES - 20, MAX_RECORD_BYTES + 2, 3):
        path.write_text("." * filler + GOOD + GOOD + "\n" + GOOD)
        log = read_log(path)
        assert [line.line_num for line in log.lines] == [1, 1, 2]
        assert log.unparsed == ()


@pytest.mark.parametrize(("num_broken", "num_counted"), [(99, 99), (970, 970), (5000, 4682)])
def test_flood_of_broken_records_is_counted_and_not_held(
    num_broken: int, num_counted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every one up to the end of reading, which is counted too, and listed first."""
    monkeypatch.setattr("rules.logs.log.MAX_RECORD_TEXT_BYTES", 1 << 16)
    path = tmp_path / "result_0.txt"
    path.write_text(":::MLLOG {bad\n" * num_broken)
    log = read_log(path)
    assert log.num_unparsed == num_counted and len(log.unparsed) <= MAX_NUM_UNPARSED
    verdict = check_log(path)
    found = [finding.message for finding in verdict.findings if finding.code == "ST101"]
    assert len(found) == MAX_FINDINGS_PER_RULE + 1
    # The file holds no record either, which is one more.
    assert found[-1] == f"{num_counted + 1 - MAX_FINDINGS_PER_RULE} more findings of ST101 are not listed"
    assert ("the rest was not read" in found[0]) == (num_counted < num_broken)


def test_many_broken_records_on_one_line_are_cheap() -> None:
    log = parse_lines(":::MLLOG {" * 100_000)
    assert 0 < len(log.unparsed) <= 1001 and not log.lines


def test_file_and_text_give_the_same_log(tmp_path: Path) -> None:
    text = to_text(make_records(load_benchmark("dlrm_tiny"), num_evals=2))
    path = tmp_path / "result_0.txt"
    path.write_text(text)
    from_file, from_text = read_log(path), parse_lines(text, str(path))
    assert from_file.lines == from_text.lines
    assert (from_file.sha256, from_file.num_bytes) == (from_text.sha256, len(text))


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_unreadable_path_is_an_input_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Give a log"):
        read_log(tmp_path / name)


def test_device_is_not_read() -> None:
    with pytest.raises(InputError, match="not a regular file"):
        read_log("/dev/zero")


def judge_everything(text: str | bytes) -> None:
    """Read, judge and summarise under every kind of benchmark; the point is that nothing raises."""
    log = parse_lines(text)
    for name, round_name in ((None, None), ("dlrm_tiny", None), ("dlrm_dcnv2", "6.0"), ("dlrm", "2.1")):
        benchmark = load_benchmark(name) if name is not None else None
        outcomes = judge(RULES["log"], make_log_subject(log, benchmark, round_name), log.path)
        for outcome in outcomes:
            for finding in outcome.findings:
                for shown in (finding.path, finding.message, finding.found, finding.expected):
                    assert shown is None or shown.isprintable(), finding
                json.dumps(finding.message).encode()
        read_run_result(log, benchmark)
        judge_as_a_set(log, benchmark, round_name)


def judge_as_a_set(log: RunLog, benchmark: Benchmark | None, round_name: str | None) -> None:
    """Five or ten times the same log, as a set: twins are findings, and sums over them must not overflow."""
    bare = ResultSet(
        folder=Path(),
        logs=(),
        system_json=None,
        root=None,
        organization="a",
        system=None,
        benchmark="b",
        round=round_name,
    )
    logs = (log,) * (benchmark.score.num_runs if benchmark is not None else 3)
    subject = make_set_subject(bare, logs, benchmark, round_name)
    judge(RULES["set"], subject, "set")
    verdict = Verdict(
        subject="set", level="set", outcome="invalid", benchmark=None, round=None, ruleset="", ruleset_source="",
        findings=(), outcomes=(),
    )  # fmt: skip
    score = score_runs(subject.runs, benchmark, round_name)
    files = SetFiles(Path())
    score_sets([JudgedSet(result_set=bare, verdict=verdict, result=score, rounds=(), system_desc=None, files=files)])


@settings(max_examples=examples(150))
@given(st.binary(max_size=300))
def test_any_bytes_are_judged(data: bytes) -> None:
    judge_everything(data)


_EXTREME = [10**400, 10**300, 2**63, -(2**63), 1e300, -1e300, 1e-300, 5e-324, 0, -0.0, 1, 0.8, 1.75]
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(_EXTREME),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_BASE = make_records(load_benchmark("dlrm_tiny"), num_evals=2)
_OFFICIAL = make_records(load_benchmark("dlrm_dcnv2"), num_evals=4)
_FIELDS = ["time_ms", "event_type", "key", "value", "metadata"]
_METADATA = ["epoch_num", "samples_count", "status", "reason", "method", "first_epoch_num", "epoch_count"]
_line = st.integers(0, len(_BASE) - 1)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(
    st.sampled_from([_BASE, _OFFICIAL]),
    st.lists(st.tuples(_line, st.sampled_from(_FIELDS), _json), max_size=4),
    st.lists(st.tuples(_line, st.sampled_from(_METADATA), _json), max_size=3),
)
def test_logs_with_any_values_are_judged(
    base: list[Record], changes: list[tuple[int, str, object]], places: list[tuple[int, str, object]]
) -> None:
    records = [{**record, "metadata": dict(record["metadata"])} for record in base]
    for index, name, value in places:
        records[index]["metadata"][name] = value
    for index, name, value in changes:
        records[index][name] = value
    judge_everything(to_text(records))


@given(st.text(max_size=30))
def test_printable_text_is_printable_and_keeps_what_was(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [(1, 1.0, 1), (2.0, 2.0, 2), (2.5, 2.5, None), (True, None, None), ("1", None, None), (None, None, None),
     (float("nan"), None, None), (float("inf"), None, None), (10**400, None, None), (10**20, 1e20, None),
     (2**62, 2.0**62, 2**62)],
)  # fmt: skip
def test_numbers(value: object, number: float | None, whole: int | None) -> None:
    assert as_number(value) == number
    assert as_whole(value) == whole


@pytest.mark.parametrize("noise", [0, 100, MAX_RECORD_BYTES - 1, MAX_RECORD_BYTES, 3 * MAX_RECORD_BYTES, 5 << 20])
def test_a_file_is_read_the_same_at_once_and_piece_by_piece(tmp_path: Path, noise: int) -> None:
    """A usual log is read at once; one that is large, or has a line longer than a record may be, is not."""
    line = b'{"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "k", "value": 1, "metadata": {}}'
    content = b"x" * noise + b"\n:::MLLOG " + line + b"\r\n:::MLLOG " + line
    (tmp_path / "log.txt").write_bytes(content)
    pieces = BytesIO(content)
    expected = parse_log(iter(lambda: pieces.readline(MAX_RECORD_BYTES), b""), str(tmp_path / "log.txt"))
    assert [entry.line_num for entry in expected.lines] == [2, 3]
    assert read_log(tmp_path / "log.txt") == expected


def test_no_more_of_a_log_is_read_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rules.logs.log.MAX_LOG_BYTES", 6 << 20)
    path = tmp_path / "log.txt"
    path.write_bytes(b"noise\n" * 1000)
    os.truncate(path, 1 << 40)
    log = read_log(path)
    assert log.lines == () and log.num_bytes <= 6 << 20 and log.num_unparsed == 1
    assert log.unread is not None and log.unparsed == ()
    assert (log.unread.line_num, log.unread.reason) == (1001, "more than 6,291,456 bytes; the rest was not read")
