"""check on standard input, devices, empty files and many logs; what it shows of submissions and rounds."""

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from log_builder import make_records, make_runs, to_text, without, write_log, write_set
from submission_builder import DCNV2, set_folder, write, write_submission

from harness.cli import main
from harness.cli.check import show_judging
from harness.foundation import status_line
from harness.foundation.status_line import StatusLine
from rules.benchmarks.loader import load_benchmark
from rules.judge.document import VerdictDocument
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Exit code, stdout and stderr of one command line that is given `stdin`."""
    call = command

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        stream = SimpleNamespace(buffer=io.BytesIO(stdin), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stream)
        return call(*arguments)

    return run


def test_a_log_from_standard_input_is_judged_as_a_file_is(command: Command, tmp_path: Path) -> None:
    text = to_text(without(make_records(TINY), "seed"))
    path = tmp_path / "result_0.txt"
    path.write_text(text)
    code, out, err = command("check", "-", "--format", "json", stdin=text.encode())
    (mine,) = json.loads(out)["verdicts"]
    (other,) = json.loads(command("check", path, "--format", "json")[1])["verdicts"]
    assert (code, err, mine["subject"]) == (3, "", "-")
    assert {finding["path"] for finding in mine["findings"]} == {"-"}
    assert [finding["code"] for finding in mine["findings"]] == [finding["code"] for finding in other["findings"]]
    assert "/" not in json.dumps([finding["message"] for finding in mine["findings"]])


def test_standard_input_is_read_once_and_not_from_a_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("check", "-", "-")[0] == 2
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(SystemExit) as leaving:
        main(["check", "-"])
    assert leaving.value.code == 2 and "standard input" in capsys.readouterr().err


def test_an_empty_log_breaks_a_rule_and_a_device_is_no_input(command: Command, tmp_path: Path) -> None:
    empty = tmp_path / "result_0.txt"
    empty.touch()
    code, out, _ = command("check", empty)
    assert code == 3 and "the file is empty" in out
    assert command("check", "-", stdin=b"")[0] == 3
    code, out, err = command("check", "/dev/null")
    assert (code, out) == (8, "") and "neither a file nor a directory" in err
    (tmp_path / "broken").symlink_to("nowhere")
    code, out, err = command("check", tmp_path / "broken")
    assert (code, out) == (8, "") and "broken link" in err


def test_logs_of_other_names_are_mentioned(command: Command, tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "run_1.txt", make_records(TINY))
    code, _, err = command("check", tmp_path)
    assert code == 8 and "run_1.txt" in err and "can be given as a file" in err
    assert command("check", tmp_path / "logs" / "run_1.txt")[0] == 0


@pytest.mark.slow
def test_a_round_is_shown_by_submission_and_rule_and_fits_a_screen(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "training_results_v6.0"
    for number in range(30):
        platform = "8xSUBMISSION_PLATFORM_PLACEHOLDER"
        start_ms = 1_700_000_000_000 + number * 10**10
        runs = make_runs(DCNV2, 2, ours=False, num_evals=3, start_ms=start_ms, platform=platform)
        write_submission(folder, organization=f"Example{number}", runs=runs)
    code, out, err = command("check", folder, "--no-second-opinion")
    text = " ".join(out.split())
    assert (code, err) == (3, "")
    assert out.startswith("INVALID  round") and "30 submissions: 30 invalid" in text
    assert "and 10 more: 10 invalid (-v shows all)" in text
    assert "(60 places): submission_platform is a placeholder" in text
    assert len(out.splitlines()) < 150
    everything = command("check", folder, "--no-second-opinion", "-v")[1]
    assert all(f"Example{number}/results/example/dlrm_dcnv2/result_1.txt" in everything for number in range(30))


def test_a_submission_in_every_form(command: Command, tmp_path: Path) -> None:
    top = write_submission(tmp_path, runs=make_runs(DCNV2, 2, ours=False))
    schema = json_schema(VerdictDocument)
    document = json.loads(command("check", top, "--format", "json", "--no-second-opinion")[1])
    jsonschema.validate(document, schema)
    (verdict,) = document["verdicts"]
    assert (verdict["level"], verdict["outcome"], verdict["logs"]) == ("submission", "invalid", [])
    (part,) = verdict["parts"]
    assert (part["level"], part["outcome"], len(part["logs"])) == ("set", "incomplete", 2)
    assert {one["subject"] for one in verdict["rules"]} == {str(top)}
    for form in ("csv", "md", "sarif", "junit"):
        code, out, err = command("check", top, "--format", form, "--no-second-opinion")
        assert (code, err) == (3, "") and "RS101" in out, form


def test_progress_is_a_bar_on_a_terminal_and_silent_for_few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(status_line, "_DRAWN_EVERY_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    for least, shown in ((10, True), (11, False)):
        stream = Terminal()
        line = StatusLine(stream=stream)
        for num_done in (5, 10):
            show_judging(line, least, num_done, 10)
        assert ("5 of 10 logs judged" in stream.getvalue()) is shown
        assert stream.getvalue().endswith("\x1b[2K") is shown  # nothing is left on the line
    plain = io.StringIO()
    show_judging(StatusLine(stream=plain), 1, 5, 10)
    assert plain.getvalue() == ""


def test_score_repeats_that_a_set_is_invalid(command: Command, tmp_path: Path) -> None:
    top = write_submission(tmp_path, runs=[without(one, "seed") for one in make_runs(DCNV2, ours=False)])
    code, out, _ = command("score", top)
    assert code == 0 and "INVALID: 10 errors" in out
    (record,) = json.loads(command("score", set_folder(top), "--format", "json")[1])["scores"]
    assert (record["outcome"], record["num_errors"]) == ("invalid", 10)


def test_a_score_that_is_demanded_where_nothing_was_measured_exits_7(command: Command, tmp_path: Path) -> None:
    write_set(tmp_path / "set", TINY, [])
    assert command("score", tmp_path / "set")[0] == 8
    code, out, err = command("score", tmp_path / "set", "--require-score")
    assert (code, out) == (7, "") and "no result_*.txt" in err


def test_many_logs_of_other_names_are_one_line_with_a_count_per_folder(command: Command, tmp_path: Path) -> None:
    write_set(tmp_path / "good", TINY)
    for folder, number in (("code", 21), ("kept", 3)):
        for index in range(number):
            write(tmp_path / folder / f"{index}.py", ":::MLLOG")
    write(tmp_path / "new" / "extra" / "run_set.json", "{}")
    code, _, err = command("check", tmp_path, "--no-second-opinion")
    of_logs, of_set = err.splitlines()
    assert code == 0 and of_logs.startswith("not judged: 24, each holds records of a log and is not named ")
    assert of_logs.endswith(f": {tmp_path / 'code'} (21), {tmp_path / 'kept'} (3).")
    assert of_set.startswith(f"not judged: {tmp_path / 'new'}: a run set without a finished run; ")


def test_what_is_passed_over_is_mentioned(command: Command, tmp_path: Path) -> None:
    """A log of another name and a set without a finished run, beside a set; nothing of a file given as such."""
    write_set(tmp_path / "good", TINY)
    stray = write_log(tmp_path / "kept" / "evening\x1b.log", make_records(TINY))
    unfinished = tmp_path / "new"
    (unfinished / "results" / "example" / "dlrm_tiny").mkdir(parents=True)
    write(unfinished / "extra" / "run_set.json", "{}")
    write(tmp_path / "kept" / "notes.txt", "nothing about :::MLPERF")
    write_log(tmp_path / "good" / "extra" / "run_0" / "attempt_0" / "log.txt", make_records(TINY))
    code, out, err = command("check", tmp_path, "--format", "json", "--no-second-opinion")
    document = json.loads(out)
    jsonschema.validate(document, json_schema(VerdictDocument))
    assert code == 0 and len(document["verdicts"]) == 1
    assert [Path(one["path"]).name for one in document["not_judged"]] == ["evening\\x1b.log", "new"]
    assert [line.split(": ")[0] for line in err.splitlines()] == ["not judged"] * 2 and "\x1b" not in err
    assert "dlrmbench resume" in err and "give it as a file" in err
    assert command("check", stray)[2] == ""
    code, out, err = command("check", unfinished)
    assert (code, out) == (8, "") and "a run set without a finished run" in err
    assert command("score", unfinished)[0] == 8 and command("score", unfinished, "--require-score")[0] == 7


def test_a_folder_of_sets_without_a_finished_run_is_told_from_an_empty_one(command: Command, tmp_path: Path) -> None:
    write(tmp_path / "results" / "new" / "extra" / "run_set.json", "{}")
    code, out, err = command("check", tmp_path)
    assert (code, out) == (8, "") and f"'dlrmbench resume {tmp_path / 'results' / 'new'}'" in err


def test_many_findings_of_one_rule_are_counted_and_not_listed(command: Command, tmp_path: Path) -> None:
    """Ten runs, each with a hundred values that no two share: five are shown, and of how many files the rest is."""
    runs = make_runs(DCNV2, ours=False)
    for number, records in enumerate(runs):
        stop = next(index for index, one in enumerate(records) if one["key"] == "opt_name") + 1
        records[stop:stop] = [{**records[stop - 1], "value": f"{number} {index}"} for index in range(100)]
    write_set(tmp_path, DCNV2, runs, ours=False)
    out = command("check", tmp_path / "results", "--no-second-opinion")[1]
    assert len(out.splitlines()) < 60
    assert "and 995 more in 10 files (-v shows more)" in out
    out = command("check", tmp_path / "results", "--no-second-opinion", "--format", "json")[1]
    (verdict,) = json.loads(out)["verdicts"]
    assert [one["message"] for one in verdict["findings"]].count("80 more findings of HP101 are not listed") == 10


@pytest.mark.parametrize("words", ["check", "score", "report --no-second-opinion", "diff"])
def test_a_log_whose_name_is_no_utf8_leaves_documents_whole(words: str, command: Command, tmp_path: Path) -> None:
    try:
        (log := tmp_path / os.fsdecode(b"result_\xff.txt")).write_text(to_text(make_records(TINY)))
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    code, out, err = command(*words.split(), *([log] if words == "diff" else []), tmp_path, "--format", "json")
    assert code in (0, 3, 8) and "internal" not in err, err
    assert json.loads(out) and (words == "check" or "udcff" in out)
