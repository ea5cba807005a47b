"""`trace`: lookups of a benchmark or a file in a folder, with its study; what is no trace is refused."""

import errno
import json
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import Command

from harness.extensions.memory.trace import KeptTrace, keep_trace, read_trace
from harness.foundation.errors import ExitCode, HarnessError, exit_code_of
from reference_models.data.traces.trace import AccessTrace

TRACE = AccessTrace(
    num_rows=(4, 3), num_bags=2, indices=np.array([0, 3, 1, 2]), offsets=np.array([0, 2, 2, 3, 4], dtype=np.int64)
)
ABOUT: dict[str, Any] = {
    "source": "a test",
    "benchmark": None,
    "definition_sha256": None,
    "dataset_sha256": None,
    "seed": None,
    "row_bytes": None,
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    keep_trace(KeptTrace(trace=TRACE, about=ABOUT), tmp_path / "t")
    return tmp_path / "t"


def refusal(folder: Path) -> tuple[ExitCode, str]:
    with pytest.raises(HarnessError) as caught:
        read_trace(folder)
    return caught.value.exit_code, str(caught.value)


def test_a_trace_comes_back_as_it_was(kept: Path) -> None:
    manifest, trace = read_trace(kept)
    assert [(table.num_rows, table.num_lookups) for table in manifest.tables] == [(4, 2), (3, 2)]
    assert (trace.num_rows, trace.num_bags) == (TRACE.num_rows, TRACE.num_bags)
    assert np.array_equal(trace.indices, TRACE.indices) and np.array_equal(trace.offsets, TRACE.offsets)


def test_nothing_that_is_there_gives_way_to_a_trace(kept: Path) -> None:
    (kept / "thesis.txt").write_text("precious")
    with pytest.raises(HarnessError, match="exists already"):
        keep_trace(KeptTrace(trace=TRACE, about=ABOUT), kept)
    assert (kept / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("tables", [{"num_rows": 1 << 62, "num_lookups": 2}] * 2, "rows, expected at most"),
        ("num_bags", 3, "4 lookups in 2 x 3 bags"),
        ("tables", [{"num_rows": 4, "num_lookups": 4}], "4 lookups in 1 x 2 bags"),
        ("tables", [{"num_rows": 3, "num_lookups": 2}] * 2, "table 0, lookup 1: row 3"),
        ("arrays", {}, "arrays"),
        ("source", 7, "source"),
        ("num_bags", -1, "num_bags"),
        ("samples_per_query", 3, "expected a divisor of the 2 bags"),
        ("tables", [{"num_rows": 4, "num_lookups": 2, "row_bytes": 1 << 40}] * 2, "row_bytes"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(member: str, value: object, said: str, kept: Path) -> None:
    manifest = json.loads((kept / "manifest.json").read_text())
    (kept / "manifest.json").write_text(json.dumps({**manifest, member: value}))
    code, message = refusal(kept)
    assert code == ExitCode.INPUT and said in message


def test_damage_names_its_file(kept: Path) -> None:
    content = (kept / "indices.npy").read_bytes()
    (kept / "indices.npy").write_bytes(content[:-1] + b"\x01")
    code, message = refusal(kept)
    assert code == ExitCode.INPUT and "indices.npy" in message and "dlrmbench trace" in message
    (kept / "indices.npy").write_bytes(content[:-8])
    assert "indices.npy" in refusal(kept)[1]
    (kept / "manifest.json").unlink()
    assert refusal(kept)[0] == ExitCode.INPUT and "manifest.json" in refusal(kept)[1]


def test_a_benchmark_is_traced_and_its_study_kept(inside: Command, tmp_path: Path) -> None:
    done = inside("trace", "rm1_deeprecsys", "-o", "t", "--lookups", 64_000, "--format", "json")
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    assert study == json.loads((tmp_path / "t" / "study.json").read_text()) and study["kind"] == "trace"
    assert [check["is_passed"] for check in study["checks"]] == [True]
    assert "64,000 lookups touch" in study["findings"][0]
    assert "no other policy misses fewer" in study["findings"][-1] and "simulated" in study["findings"][-1]
    assert all(len(table["title"]) <= 100 for table in study["tables"]) and max(map(len, study["findings"])) <= 400
    assert "LRU has the lowest miss ratio at" in study["findings"][-1] and "measured" not in study["findings"][-1]
    assert "Miss ratio by cache size" in (tmp_path / "t" / "report.html").read_text()
    manifest, trace = read_trace(tmp_path / "t")
    assert (manifest.benchmark, manifest.row_bytes, trace.num_bags) == ("rm1_deeprecsys", 128, 100)
    again = inside("trace", "rm1_deeprecsys", "-o", "t", "--lookups", 64_000)
    assert again.returncode == 2 and "exists already" in again.stderr


@pytest.mark.slow
def test_a_sample_of_the_other_split_has_a_range(inside: Command, tmp_path: Path) -> None:
    words = ("--split", "eval", "--sample-rate", "1%", "--policy", "lru")
    other = inside("trace", "rm1_deeprecsys", "-o", "u", "--lookups", 32_000, *words)
    said = " ".join(other.stdout.split())
    assert other.returncode == 0 and "LRU cache of 10 % of the rows misses " in said and "static" not in said
    study = json.loads((tmp_path / "u" / "study.json").read_text())
    estimated = study["tables"][0]
    assert "estimated from" in study["title"] and "estimated from" in estimated["title"]
    assert "modelled" not in json.dumps(study) and "SHARDS" in json.dumps(study)
    assert [column["name"] for column in estimated["columns"]] == ["Cache", "Rows", "Miss ratio", "Lowest", "Highest"]
    assert all(0 <= row[3] <= row[2] <= row[4] <= 1 for row in estimated["rows"]) and len(estimated["rows"]) > 3
    assert inside("trace", "rm1_deeprecsys", "-o", "t", "--lookups", 32_000, "--policy", "lru").returncode == 0
    assert not np.array_equal(*(read_trace(tmp_path / name)[1].indices for name in "tu"))


def test_a_dataset_in_files_is_traced_as_models_see_it(inside: Command, tmp_path: Path, data_root: Path) -> None:
    done = inside("trace", "dlrm_tiny", "-o", "t", "--lookups", 26_000, "--data", data_root)
    assert done.returncode == 0, done.stderr
    manifest, trace = read_trace(tmp_path / "t")
    (folder,) = {path.parent for path in data_root.rglob("train_indices.npy") if "tiny" in str(path)}
    ids = np.load(folder / "train_indices.npy")[: trace.num_bags]
    assert np.array_equal(trace.indices, ids.T.reshape(-1)) and manifest.dataset_sha256 is not None


@pytest.mark.parametrize(("name", "said"), [("dlrmv4_small", "pools no bags"), ("d2nn_small", "no embedding tables")])
def test_models_without_bags_are_refused_with_the_reason(
    name: str, said: str, inside: Command, tmp_path: Path
) -> None:
    done = inside("trace", name, "-o", "t")
    assert done.returncode == 2 and said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_are_traced(inside: Command, tmp_path: Path) -> None:
    tensors = (torch.tensor([3, 0, 1, 1, 2]), torch.tensor([0, 1, 3, 3, 5]), torch.tensor([[1, 2], [0, 2]]))
    torch.save(tensors, tmp_path / "lookups.pt")
    done = inside("trace", "lookups.pt", "-o", "t")
    assert done.returncode == 0 and "lookups in lookups.pt: 5 lookups touch 5 of at least 7 rows" in " ".join(
        done.stdout.split()
    )
    torch.save((tensors[0] - 4, *tensors[1:]), tmp_path / "bad.pt")
    bad = inside("trace", "bad.pt", "-o", "u")
    assert bad.returncode == 8 and "bad.pt: table 0, lookup 0" in bad.stderr and not (tmp_path / "u").exists()
    missing = inside("trace", "nothing.pt", "-o", "u")
    assert missing.returncode == 8 and "nothing.pt" in missing.stderr


def save_lookups(path: Path) -> None:
    """Lookups of rows 3, 0, 1 of table 0 and 1, 2 of table 1."""
    torch.save((torch.tensor([3, 0, 1, 1, 2]), torch.tensor([0, 1, 3, 3, 5]), torch.tensor([[1, 2], [0, 2]])), path)


def test_rows_of_a_file_are_at_least_its_highest_until_a_file_of_tables_says_more(
    inside: Command, tmp_path: Path
) -> None:
    save_lookups(tmp_path / "x.pt")
    done = inside("trace", "x.pt", "-o", "t")
    assert done.returncode == 0 and "at least 7 rows" in " ".join(done.stdout.split()), done.stderr
    assert read_trace(tmp_path / "t")[1].are_rows_least
    study = json.loads((tmp_path / "t" / "study.json").read_text())
    assert [column["name"] for column in study["tables"][2]["columns"]][1] == "Rows, at least"
    tiers = inside("tiers", "--trace", "t", "--row-size", "64", "--format", "json")
    assert "--tables" in " ".join(json.loads(tiers.stdout)["findings"]), tiers.stderr
    (tmp_path / "t.csv").write_text("name,rows\na,100\nb,3\n")
    told = inside("trace", "x.pt", "-o", "u", "--tables", "t.csv", "--format", "json")
    assert told.returncode == 0 and "5 of 103 rows" in json.loads(told.stdout)["findings"][0], told.stderr
    trace = read_trace(tmp_path / "u")[1]
    assert trace.num_rows == (100, 3) and not trace.are_rows_least
    assert {each["name"] for each in json.loads(told.stdout)["made"]["inputs"]} == {"x.pt", "t.csv"}
    assert any(
        "first lookups" in each and "take a longer trace" in each for each in json.loads(told.stdout)["findings"]
    )


@pytest.mark.parametrize(
    ("what", "tables", "code", "said"),
    [
        ("x.pt", "name,rows\na,100\n", 8, "t.csv: 1 tables, but x.pt has lookups of 2"),
        ("x.pt", "name,rows\na,3\nb,3\n", 8, "t.csv:2: rows: found 3, but x.pt looks up row 3 of table 0"),
        ("x.pt", "name\na\n", 8, "t.csv:1: no column 'rows'"),
        ("rm1_deeprecsys", "name,rows\na,3\n", 2, "are for files"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    what: str, tables: str, code: int, said: str, inside: Command, tmp_path: Path
) -> None:
    save_lookups(tmp_path / "x.pt")
    (tmp_path / "t.csv").write_text(tables)
    done = inside("trace", what, "-o", "t", "--tables", "t.csv")
    assert done.returncode == code and said in " ".join(done.stderr.split()), done.stderr
    assert not (tmp_path / "t").exists()


TABLES = """name,rows,width,pooling,side,precision
user_id,20000,64,1,user,int8
history,5000,32,20.5,user,
ad,3000,16,2,item,fp16
"""
"""Of 72, 128 and 32 bytes a row."""


@pytest.mark.parametrize("name", ["model.csv", pytest.param("model.json", marks=pytest.mark.slow)])
def test_tables_of_unlike_widths_and_sides_are_drawn_and_traced(name: str, inside: Command, tmp_path: Path) -> None:
    header, *lines = TABLES.splitlines()
    as_json = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    as_json = [{key: value or None for key, value in each.items()} for each in as_json]
    (tmp_path / name).write_text(TABLES if name == "model.csv" else json.dumps(as_json))
    done = inside("trace", name, "-o", "t", "--items", 10, "--lookups", 20_000, "--format", "json")
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    assert [check["is_passed"] for check in study["checks"]] == [True]
    page = (tmp_path / "t" / "report.html").read_text()
    assert "share of all bytes" in page and "share of all rows" not in page
    assert any("first lookups" in each and "longer trace (--lookups)" in each for each in study["findings"])
    assert "10 % of the bytes" in study["title"] and "10 % of the bytes" in study["findings"][-1]
    assert [row[:4] for row in study["tables"][2]["rows"]][1:] == [
        ["user_id", 20_000, 72, "user"],
        ["history", 5_000, 128, "user"],
        ["ad", 3_000, 32, "item"],
    ]
    whole = 20_000 * 72 + 5_000 * 128 + 3_000 * 32
    assert study["tables"][0]["rows"][-1][:2] == [1.0, whole]
    manifest, trace = read_trace(tmp_path / "t")
    assert (manifest.samples_per_query, trace.num_bags % 10, trace.names) == (10, 0, ("user_id", "history", "ad"))
    lengths = np.diff(trace.offsets).reshape(3, -1, 10)
    assert (lengths[2] == 2).all() and (lengths[0, :, 0] == 1).all() and not lengths[:2, :, 1:].any()
    assert {*lengths[1, :, 0].tolist()} == {20, 21} and abs(lengths[1, :, 0].mean() - 20.5) < 0.2
    assert abs(len(trace.indices) - 20_000) < 300


def test_samples_of_a_file_are_joined_to_queries_that_look_the_user_up_once(inside: Command, tmp_path: Path) -> None:
    save_lookups(tmp_path / "x.pt")
    (tmp_path / "t.csv").write_text("name,rows,width,side\na,100,8,user\nb,3,16,item\n")
    done = inside("trace", "x.pt", "-o", "t", "--tables", "t.csv", "--items", 2)
    assert done.returncode == 0, done.stderr
    trace = read_trace(tmp_path / "t")[1]
    assert (trace.indices.tolist(), trace.offsets.tolist()) == ([3, 1, 2], [0, 1, 1, 1, 3])
    assert trace.row_units == (1, 2) and trace.units_of(np.array([0, 99, 100, 102])).tolist() == [1, 1, 2, 2]
    many = inside("trace", "x.pt", "-o", "u", "--items", 3)
    assert many.returncode == 8 and "2 samples, less than one query" in many.stderr


@pytest.mark.parametrize(
    ("tables", "more", "code", "said"),
    [
        ("name,rows,width\na,3,4\n", (), 8, "x.csv:2: pooling: is missing"),
        ("name,rows,width,pooling\na,1099511627776,4,1\nb,9,4,1\n", (), 8, "x.csv: tables of 1,099,511,627,785 rows"),
        ("name,rows,width,pooling\na,3,4,0.000001\n", (), 9, "Ask for fewer"),
        ("name,rows,width,pooling\na,3,4,1000000\n", ("--items", 1_000_000), 9, "Ask for fewer"),
        ("name,rows,width,pooling\na,3,4,1\n", ("--tables", "x.csv"), 2, "describes tables itself"),
    ],
)
def test_tables_that_cannot_be_drawn_are_refused(
    tables: str, more: tuple[object, ...], code: int, said: str, inside: Command, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text(tables)
    done = inside("trace", "x.csv", "-o", "t", *more)
    assert done.returncode == code and said in " ".join(done.stderr.split()), done.stderr
    assert not (tmp_path / "t").exists()


def test_a_file_above_the_memory_is_refused(inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from harness.extensions.memory import trace
    from harness.system.resources import read_resources

    found = replace(read_resources(), available_memory_bytes=100)
    monkeypatch.setattr(trace, "read_resources", lambda: found)
    torch.save((torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([[1]])), tmp_path / "lookups.pt")
    done = inside("trace", "lookups.pt", "-o", "t")
    assert done.returncode == 9 and "100 bytes of memory" in done.stderr


def test_more_lookups_than_memory_are_refused_before_any_is_drawn(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "p.log").write_text("0, 1\n0, 1\n.5, 1")
    for what in ("p.log", "rm1_deeprecsys"):
        done = inside("trace", what, "-o", "t", "--lookups", 1 << 66)
        assert done.returncode == 9 and "bytes of memory that are free. Ask for fewer" in done.stderr, done.stderr


def test_a_trace_is_there_with_its_study_and_its_page_or_not_at_all(
    inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "report.html")

    (tmp_path / "p.log").write_text("0, 1\n0, 1\n.5, 1")
    words = ("trace", "p.log", "-o", "t", "--lookups", 100)
    with monkeypatch.context() as patched:
        patched.setattr("reports.page.report.write_page", fail)
        done = inside(*words)
    assert done.returncode == 9 and [path.name for path in tmp_path.iterdir()] == ["p.log"]
    (tmp_path / "t.0123456789abcdef.partial").mkdir()  # what `kill -9` leaves
    done = inside(*words)
    assert done.returncode == 0 and "page   t/report.html" in done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.log", "t"]
    assert {path.name for path in (tmp_path / "t").iterdir()} >= {"study.json", "report.html", "manifest.json"}


@pytest.mark.parametrize("kind", ["pipe", "device", "hole", "folder"])
@pytest.mark.parametrize("name", ["x.log", "x.txt", "x.pt", "x.pt.gz"])
def test_only_regular_files_of_a_size_are_traced(name: str, kind: str, inside: Command, tmp_path: Path) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 42)
    done = inside("trace", name, "-o", "t")
    assert done.returncode in (8, 9) and name in done.stderr, done.stderr
    assert kind == "hole" or "expected a regular file" in done.stderr


@pytest.mark.parametrize("rate", ["0", "101%", "x", "-1", "nan"])
def test_rates_that_are_none_are_refused(rate: str, inside: Command) -> None:
    done = inside("trace", "rm1_deeprecsys", "-o", "t", "--sample-rate", rate)
    assert done.returncode == 2 and "--sample-rate" in done.stderr


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = AccessTrace(
        num_rows=(1,), num_bags=1, indices=np.zeros(1 << 15, np.int64), offsets=np.array([0, 1 << 15], np.int64)
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(OSError) as caught:
            keep_trace(KeptTrace(trace=large, about=ABOUT), tmp_path / "t")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert exit_code_of(caught.value) == ExitCode.RESOURCES and "indices.npy" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_a_stranger_wrote_into_a_trace_reaches_no_page_as_code(kept: Path, inside: Command) -> None:
    manifest = json.loads((kept / "manifest.json").read_text())
    hostile = "<script>alert(1)</script>\x1b[31m"
    (kept / "manifest.json").write_text(json.dumps({**manifest, "source": hostile, "row_bytes": 64}))
    done = inside("tiers", "--trace", "t")
    assert done.returncode == 0, done.stderr
    assert "\x1b[31m" not in done.stdout
    (page,) = (kept.parent / "results").glob("*/report.html")
    assert "<script>alert(1)" not in page.read_text()
