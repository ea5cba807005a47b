"""MLPerf's other benchmarks: named in one line by every verb, never judged, scored or drawn."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from log_builder import make_runs, to_text, write_log, write_set
from other_benchmark_builder import make_other_run, write_other_set
from pinned_definition import DEFINITION
from submission_builder import DCNV2, SYSTEM, set_folder, write, write_submission

from reports.frames import read
from rules.benchmarks.loader import load_benchmark
from rules.judge.document import VerdictDocument
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
WORDS = "llama31_8b is an MLPerf benchmark that dlrmbench does not judge"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A submission of nothing but another benchmark; returns its result directory."""
    top = write_submission(tmp_path / "training_results_v5.1")
    set_folder(top).rename(tmp_path / "aside")
    return write_other_set(set_folder(top).with_name("llama31_8b"))


def check(command: Command, *arguments: object) -> tuple[int, str]:
    code, out, _ = command("check", *arguments, "--no-second-opinion")
    return code, " ".join(out.split())


def test_a_log_a_set_a_submission_and_a_round_of_another_benchmark_are_not_judged(
    command: Command, other: Path, tmp_path: Path
) -> None:
    for path in (other / "result_0.txt", other):
        code, out = check(command, path)
        assert (code, out) == (8, f"NOT JUDGED {path} {WORDS}")
    for path in (top := other.parents[2], top.parent):
        code, out = check(command, path)
        assert code == 8 and out.startswith("NOT JUDGED")
        assert "rules: layout only (it holds no benchmark that dlrmbench judges)" in out
        assert " log" not in out.partition(")")[2].partition("judgements")[0].replace("no logs", "")
        assert "ST1" not in out and "Use the benchmark's keyword" not in out
    bare = write_other_set(tmp_path / "somewhere")
    assert check(command, bare) == (8, f"NOT JUDGED {bare} {WORDS}")


def test_every_form_says_not_judged(command: Command, other: Path) -> None:
    code, out, err = command("check", other, "--no-second-opinion", "--format", "json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(json_schema(VerdictDocument)).validate(document)
    (verdict,) = document["verdicts"]
    assert (code, err, verdict["outcome"], verdict["benchmark"]) == (8, "", "not judged", "llama31_8b")
    assert (verdict["ruleset"], verdict["ruleset_source"]) == ("none", WORDS.partition(" is ")[2])
    code, out, _ = command("check", other, "--no-second-opinion", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (code, row["outcome"], row["benchmark"], row["code"]) == (8, "not judged", "llama31_8b", "")
    code, out, _ = command("check", other, "--no-second-opinion", "--format", "md")
    assert code == 8 and "NOT JUDGED" in out and WORDS.replace("_", "\\_") in out
    code, out, _ = command("check", other, "--no-second-opinion", "--format", "sarif")
    (run,) = json.loads(out)["runs"]
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (code, run["results"]) == (8, []) and "an MLPerf benchmark that dlrmbench" in said["message"]["text"]
    code, out, _ = command("check", other, "--no-second-opinion", "--format", "junit")
    root = ET.fromstring(out)
    assert (code, root.get("tests"), root.get("failures"), root.get("skipped")) == (8, "1", "0", "1")
    skipped = root.find("testsuite/testcase/skipped")
    assert skipped is not None and skipped.get("message") == WORDS.partition(" is ")[2]


def test_beside_judged_sets_it_is_one_line_and_the_others_decide(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "training_results_v5.1"
    top = write_submission(folder)
    write_other_set(set_folder(top).with_name("llama31_8b"))
    away = write_submission(folder, organization="Other")
    set_folder(away).rename(tmp_path / "aside")
    write_other_set(set_folder(away).with_name("bert"), "bert")
    code, out = check(command, top)
    assert code == 0 and out.startswith("VALID submission") and "dlrm_dcnv2; rules: MLPerf Training 5.1" in out
    assert "2 sets: 1 valid, 1 not judged" in out and "; 10 logs" in out
    assert f"not judged results/{SYSTEM}/llama31_8b an MLPerf benchmark that dlrmbench does not judge" in out
    code, out = check(command, folder)
    assert code == 0 and "dlrm_dcnv2; rules: MLPerf Training 5.1 (from the directory's name); 10 logs" in out
    assert "layout only" not in out and "2 submissions: 1 valid, 1 not judged" in out
    (set_folder(top) / "result_3.txt").write_text("")
    assert check(command, folder)[0] == 3


def test_several_have_a_line_each_below_what_is_judged(command: Command, tmp_path: Path) -> None:
    write_set(tmp_path / "ours", TINY, make_runs(TINY, 5))
    for number in range(24):
        write_other_set(tmp_path / f"{number:02}", num_runs=1)
    code, out = check(command, tmp_path)
    assert code == 0 and out.startswith("VALID ") and out.endswith("1 valid, 24 not judged")
    assert "NOT JUDGED 24 directories or logs" in out
    assert f"- {tmp_path / '00'}: {WORDS}" in out and out.count(WORDS) == 20 and "- and 4 more (-v shows all)" in out
    assert check(command, tmp_path, "-v")[1].count(WORDS) == 24


def test_a_broken_layout_is_an_error_also_where_no_benchmark_is_ours(command: Command, other: Path) -> None:
    (other / "notes").symlink_to("nowhere")
    code, out = check(command, other.parents[2])
    assert code == 3 and out.startswith("INVALID") and "SU109" in out


@pytest.mark.parametrize("verb", ["score", "report", "compare", "diff"])
def test_the_other_verbs_refuse_it_and_write_nothing(
    verb: str, command: Command, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (other, other / "result_0.txt", other.parents[2]):
        code, out, err = command(verb, *([path] if verb in ("score", "report") else [path, path]))
        assert (code, out) == (8, "") and f"{path}: NOT JUDGED: {WORDS}." in err
    assert not (tmp_path / "report.html").exists()


def test_diff_leaves_it_out(command: Command, tmp_path: Path) -> None:
    top = write_submission(tmp_path / "a")
    lost = write_other_set(set_folder(top).with_name("llama31_8b"))
    code, out, err = command("diff", top, set_folder(top))
    assert (code, err) == (0, f"not judged: {lost}: {WORDS}.\n") and "llama" not in out


def test_score_and_report_and_compare_leave_it_out(command: Command, other: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    write_set(mixed / "ours", TINY, make_runs(TINY, 5))
    lost = write_other_set(mixed / "theirs" / "llama31_8b")
    code, out, err = command("score", mixed, "--format", "json")
    assert (code, [record["benchmark"] for record in json.loads(out)["scores"]]) == (0, ["dlrm_tiny"])
    assert err == f"not judged: {lost}: {WORDS}.\n"
    code, out, err = command("score", other, mixed, "--format", "json")
    assert (code, len(json.loads(out)["scores"]), err.count(WORDS)) == (0, 1, 2)
    code, out, err = command("report", mixed, "--no-second-opinion", "--format", "json")
    assert (code, [found["benchmark"] for found in json.loads(out)["configurations"]]) == (0, ["dlrm_tiny"])
    assert err == f"not judged: {lost}: {WORDS}.\n"
    page = tmp_path / "page.html"
    assert command("report", mixed, "--no-second-opinion", "-o", page)[0] == 0
    assert "llama" not in page.read_text() and "3.29" not in page.read_text()
    words = "Not on this page: 1 result directory of an MLPerf® benchmark that dlrmbench does not judge."
    assert words in page.read_text()
    write_set(tmp_path / "later", TINY, make_runs(TINY, 5, start_ms=1_800_000_000_000))
    code, _, err = command("compare", mixed, tmp_path / "later")
    assert (code, err) == (0, f"not judged: {lost}: {WORDS}.\n")


def test_frames_have_no_row_of_it_and_say_so(tmp_path: Path) -> None:
    write_set(tmp_path / "ours", TINY, make_runs(TINY, 5))
    lost = write_other_set(tmp_path / "theirs")
    data = read(tmp_path)
    assert list(data.sets["benchmark"]) == ["dlrm_tiny"] and data.problems == (f"{lost}: {WORDS}",)


def test_many_are_counted_by_benchmark(command: Command, tmp_path: Path) -> None:
    write_set(tmp_path / "ours", TINY, make_runs(TINY, 5))
    for number in range(24):
        write_other_set(tmp_path / f"{number:02}" / "bert", "bert" if number % 2 else "unet3d", num_runs=1)
    _, _, err = command("score", tmp_path)
    *lines, last = err.splitlines()
    assert len(lines) == 20 and all("an MLPerf benchmark that dlrmbench does not judge." in line for line in lines)
    assert last == (
        "not judged: 4 result directories of MLPerf benchmarks that dlrmbench does not judge: bert (2), unet3d (2)."
    )


def test_the_log_says_the_benchmark_and_else_the_directory(command: Command, tmp_path: Path) -> None:
    top = write_submission(tmp_path / "a")
    set_folder(top).rename(ours := set_folder(top).with_name("bert"))
    code, out = check(command, ours)
    assert code == 3 and "RS106" in out and "dlrm_dcnv2; rules: MLPerf Training" in out and "10 logs" in out
    silent = write(tmp_path / "b" / "results" / SYSTEM / "bert" / "result_0.txt", "no record\n")
    assert check(command, silent.parent)[0] == 8
    nameless = write(tmp_path / "c" / "bert" / "result_0.txt", "no record\n")
    assert check(command, nameless.parent)[0] == 3
    mixed = write_other_set(tmp_path / "d")
    write_log(mixed / "result_2.txt", make_runs(DCNV2, 1, ours=False)[0])
    code, out = check(command, mixed)
    assert code == 3 and "ST110" in out
    late = write(tmp_path / "e" / "result_0.txt", "noise\n" * 50_000 + to_text(make_other_run()))
    assert check(command, late) == (8, f"NOT JUDGED {late} {WORDS}")


@pytest.mark.parametrize("name", ["mask", "ncf"], ids=["0.6's Mask R-CNN", "0.5's NCF"])
def test_benchmarks_of_the_first_rounds_are_known_by_their_names_then(
    name: str, command: Command, tmp_path: Path
) -> None:
    bare = write_other_set(tmp_path / "somewhere", name)
    said = f"{name} is an MLPerf benchmark that dlrmbench does not judge"
    assert check(command, bare) == (8, f"NOT JUDGED {bare} {said}")
    silent = write(tmp_path / "results" / SYSTEM / name / "result_0.txt", ":::MLPv0.5.0 an older kind of record\n")
    assert check(command, silent.parent) == (8, f"NOT JUDGED {silent.parent} {said}")


def test_a_benchmark_that_mlperf_does_not_know_is_judged_as_before(command: Command, tmp_path: Path) -> None:
    code, out = check(command, write_other_set(tmp_path / "set", "mine"))
    assert code == 3 and "ST110" in out and "no definition of this benchmark" in out


def test_a_benchmark_of_the_users_own_is_judged_also_under_a_name_of_mlperfs(
    command: Command, tmp_path: Path
) -> None:
    definition = write(tmp_path / "mine.toml", DEFINITION.replace('"pinned"', '"bert"'))
    runs = make_runs(load_benchmark(definition), 5)
    for index, records in enumerate(runs):
        write_log(tmp_path / "bare" / f"result_{index}.txt", records)
    assert check(command, tmp_path / "bare")[0] == 8
    code, out = check(command, tmp_path / "bare", "--benchmark", definition)
    assert code == 0 and out.startswith("VALID") and "bert version 1" in out
    assert command("score", tmp_path / "bare", "--benchmark", definition)[0] == 0
    assert check(command, write_set(tmp_path / "set", load_benchmark(definition), runs))[0] == 0
