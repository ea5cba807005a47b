"""The second opinion on whole rounds: asked about what is judged, shown in the row that it is about."""

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from log_builder import make_records, make_runs, to_text, with_record, without, write_log, write_set
from mixed_round_builder import OTHERS, write_round
from mlperf_logging import compliance_checker
from official_opinion import ask_official_checker
from submission_builder import DCNV2, set_folder, write_submission

from harness.cli.shared.output import show_opinions
from harness.foundation import status_line
from harness.foundation.status_line import StatusLine
from rules.checks.verdict import Verdict
from rules.judge import second_opinion
from rules.judge.agreement import ComparedFamily, compare_opinions, differences
from rules.judge.checker import check_paths
from rules.official.copies import MAX_LINE_BYTES
from rules.official.opinion import CheckerQuery, OfficialOpinion, ask_official_checkers

GOOD = make_records(DCNV2, ours=False)


def rows(verdict: Verdict) -> dict[str, ComparedFamily]:
    return {row.family: row for row in compare_opinions(verdict)}


def test_only_what_is_judged_is_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CheckerQuery] = []

    def ask(questions: Sequence[CheckerQuery], *_: object) -> tuple[OfficialOpinion, ...]:
        asked.extend(questions)
        return tuple(
            OfficialOpinion(checker=q.checker, tool="a b 1", ruleset="5.1.0", subject=str(q.path), outcome="valid")
            for q in questions
        )

    monkeypatch.setattr(second_opinion, "ask_official_checkers", ask)
    folder = write_round(tmp_path, num_ours=2, num_others=6, num_logs=2)
    check_paths([folder])
    assert len([question for question in asked if question.checker == "compliance"]) == 20
    assert not [q for q in asked if q.checker != "package" and set(q.path.parts) & set(OTHERS)]
    assert not [q for q in asked if "Example2" in q.path.parts]  # the organisation without a set of ours
    assert [q.path.stem for q in asked if q.checker == "system"] == ["example"] * 2
    (first, _) = [question for question in asked if question.checker == "package"]
    assert {path.name for path in first.without} == {"llama31_8b", "flux1", "system000.json", "system003.json"}


@pytest.mark.slow
def test_a_package_is_shown_without_other_benchmarks(tmp_path: Path) -> None:
    folder = write_round(tmp_path, num_ours=1, num_others=2, num_logs=2)
    (verdict,) = check_paths([folder])
    opinions = {opinion.checker: opinion for opinion in verdict.parts[0].official}
    assert (opinions["package"].outcome, opinions["repo"].outcome) == ("valid", "valid")
    assert not any("Skipping" in message or "llama" in message for message in opinions["package"].messages)
    assert verdict.parts[1].outcome == "not judged" and verdict.parts[1].official == ()
    assert differences(verdict) == ()


@pytest.mark.slow
def test_an_overlong_record_is_not_asked_about_and_that_is_said(tmp_path: Path) -> None:
    runs = make_runs(DCNV2, ours=False)
    runs[3] = with_record(runs[3], "submission_platform", value="x" * MAX_LINE_BYTES)
    folder = write_set(tmp_path / "set", DCNV2, runs, ours=False)
    with (folder / "result_5.txt").open("a") as file:
        file.write("x" * 3 * MAX_LINE_BYTES + "\n")  # no record: costs their parser nothing
    (verdict,) = check_paths([folder])
    compliance = [log.official[0] for log in verdict.logs]
    assert [opinion.outcome for opinion in compliance] == ["valid"] * 3 + ["not asked"] + ["valid"] * 6
    (words,) = compliance[3].messages
    assert words.startswith("result_3.txt has a record in a line of ")
    assert words.endswith(" bytes; more than 65536 take minutes")
    assert {opinion.outcome for opinion in verdict.official if opinion.checker in ("seed", "rcp")} == {"not asked"}
    assert rows(verdict)["QU"].theirs.startswith("not asked on 1 of 10 logs: result_3.txt has a record in a line")


@pytest.mark.slow
@pytest.mark.parametrize("line_end", ["\r", "\r\n", "\n"])
def test_lines_end_where_their_parser_ends_them(line_end: str, tmp_path: Path) -> None:
    text = to_text(GOOD).replace("\n", line_end) * 20
    assert len(text) > 2 * MAX_LINE_BYTES
    path = tmp_path / "result_0.txt"
    path.write_bytes(text.encode())
    (opinion,) = ask_official_checker([path], "6.0")
    assert opinion.outcome == "invalid"


def test_every_answer_is_progress(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / f"{index}.txt", GOOD) for index in range(3)]
    steps: list[tuple[int, int]] = []
    questions = [CheckerQuery(checker="compliance", path=path, round="6.0") for path in logs]
    missing = CheckerQuery(checker="compliance", path=tmp_path / "none.txt", round="6.0")
    ask_official_checkers([missing, *questions], on_progress=lambda *step: steps.append(step))
    assert steps == [(2, 4), (3, 4), (4, 4)]


def test_progress_is_a_bar_on_a_terminal_and_a_line_now_and_then_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(status_line, "_DRAWN_EVERY_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    terminal, file = Terminal(), io.StringIO()
    line = StatusLine(stream=terminal)
    for num_answered in range(1, 5):
        show_opinions(line, num_answered, 4)
    assert re.search("2 of 4 official answers .* 50%", terminal.getvalue())
    assert terminal.getvalue().endswith("\x1b[2K")
    seconds = iter(range(0, 100, 4))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    line = StatusLine(stream=file)
    for num_answered in range(1, 5):
        show_opinions(line, num_answered, 4)
    assert file.getvalue() == "2 of 4 official answers\n4 of 4 official answers\n"


def test_their_rule_files_say_the_same_to_both_readers() -> None:
    if not hasattr(yaml, "CBaseLoader"):
        pytest.skip("this PyYAML has no libyaml")
    folder = Path(compliance_checker.__file__).parent
    files = [path for path in folder.glob("training_*/*.yaml") if "dlrm" in path.name or "common" in path.name]
    assert len(files) > 40
    for text in {path.read_text() for path in files}:
        assert yaml.load(text, Loader=yaml.CBaseLoader) == yaml.load(text, Loader=yaml.BaseLoader)


@pytest.mark.slow
def test_a_rejected_package_is_in_the_row_that_it_is_rejected_for(tmp_path: Path) -> None:
    folder = tmp_path / "training_results_v4.0"
    unseeded = [without(records, "seed") for records in make_runs(DCNV2, ours=False)]
    write_submission(folder, organization="Unseeded", runs=unseeded)
    (verdict,) = check_paths([folder])
    assert [opinion.outcome for opinion in verdict.parts[0].official if opinion.checker == "package"] == ["invalid"]
    found = rows(verdict)
    assert found["SE"].theirs.startswith("seed rejects: ") and "logs no seed" in found["SE"].theirs
    assert found["RS"].theirs == "package finds nothing here"
    assert found["SU"].theirs == "package finds nothing here; repo accepts"
    assert found["PW"].theirs == "no power was measured"
    assert {found[family].agreement for family in ("RS", "SU", "PW")} == {"same"}
    top = write_submission(folder, organization="Seedling", runs=make_runs(DCNV2, 9, ours=False, start_ms=10**12))
    (verdict,) = check_paths([top])
    found = rows(verdict)
    assert "found 9, expected 10" in found["RS"].theirs and found["RS"].agreement == "same"
    assert found["SU"].theirs == "package finds nothing here; repo accepts"


def test_what_took_too_long_is_named_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"Example0", "Example1"}

    def ask(questions: Sequence[CheckerQuery], *_: object) -> tuple[OfficialOpinion, ...]:
        return tuple(
            OfficialOpinion(
                checker=q.checker,
                tool="a b 1",
                ruleset="5.1.0",
                subject=str(q.path),
                outcome="timeout" if slow & set(q.path.parts) else "valid",
                messages=("stopped after 1 s",),
            )
            for q in questions
        )

    monkeypatch.setattr(second_opinion, "ask_official_checkers", ask)
    folder = write_round(tmp_path, num_ours=3, num_others=0)
    (verdict,) = check_paths([folder])
    assert rows(verdict)["QU"].theirs == (
        "timeout on 20 of 30 logs in Example0/results/example/dlrm_dcnv2, Example1/results/example/dlrm_dcnv2: "
        "stopped after 1 s"
    )
    assert rows(verdict)["RS"].theirs == "package timeout 2, accepts 1 (Example0, Example1): stopped after 1 s"
    slow.add("Example2")
    (verdict,) = check_paths([set_folder(folder / "Example2")])
    assert rows(verdict)["QU"].theirs == "timeout on 10 of 10 logs: stopped after 1 s"


def test_a_quoted_line_does_not_push_out_the_test_that_failed(tmp_path: Path) -> None:
    records = with_record(GOOD, "opt_adagrad_epsilon", value=1e-7, metadata={"file": "x" * 900, "lineno": 1})
    (opinion,) = ask_official_checker([write_log(tmp_path / "0.txt", records)], "6.0")
    assert len(opinion.messages[0]) <= 400 and opinion.messages[0].endswith("failed test: v['value'] == 1e-8")
