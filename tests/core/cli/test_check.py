"""check and score on the command line: exit codes, data on stdout, four forms, nothing heavy imported."""

import csv
import inspect
import io
import json
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from log_builder import SEEDS, Record, make_records, make_runs, with_record, without, write_log, write_set
from mlperf_fixtures import NVIDIA, needs_published_results

from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import load_benchmark
from rules.checks.rule import SEVERITIES
from rules.judge.document import VerdictDocument
from rules.judge.families import RULES
from rules.records.codec import json_schema

TINY, DCNV2 = load_benchmark("dlrm_tiny"), load_benchmark("dlrm_dcnv2")
EPSILON_LINE = 1 + [record["key"] for record in make_records(TINY)].index("opt_adagrad_epsilon")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    root = tmp_path / "good"
    write_set(root, TINY)
    return root


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    root = tmp_path / "broken"
    runs = make_runs(TINY)
    runs[1] = with_record(runs[1], "opt_adagrad_epsilon", value=1e-7)
    write_set(root, TINY, runs)
    return root


def test_good_set_exits_0(command: Any, good: Path) -> None:
    code, out, err = command("check", good)
    assert (code, err) == (0, "")
    assert out.startswith("VALID")


def test_broken_rule_exits_3_and_names_place_expectation_remedy_and_source(command: Any, broken: Path) -> None:
    code, out, err = command("check", broken)
    assert (code, err) == (3, "")
    text = " ".join(out.split())
    assert "error HP101 broken rule: hyperparameters must have values that the division allows" in text
    assert "INVALID" in text
    assert (
        f"result_1.txt:{EPSILON_LINE}: opt_adagrad_epsilon is not what Closed allows; found 1e-07; expected 1e-08"
        in text
    )
    assert "fix: Run with the definition's values" in text and "rule: training_rules.adoc" in text


def test_any_removed_line_exits_3(command: Any, tmp_path: Path) -> None:
    records = make_records(TINY, num_evals=2)
    for key in dict.fromkeys(record["key"] for record in records):
        path = write_log(tmp_path / "result_0.txt", without(records, key))
        assert command("check", path)[0] == 3, key
    assert command("check", write_log(tmp_path / "result_0.txt", records))[0] == 0


def test_worst_comes_first_and_all_are_counted(command: Any, good: Path, broken: Path) -> None:
    code, out, _ = command("check", good, broken)
    assert code == 3
    assert out.startswith("INVALID") and out.count("VALID  ") == 2
    assert out.strip().endswith("1 invalid, 1 valid")


def test_incomplete_set_exits_0(command: Any, tmp_path: Path) -> None:
    write_set(tmp_path, TINY, make_runs(TINY, 2))
    code, out, _ = command("check", tmp_path)
    assert code == 0
    assert out.startswith("INCOMPLETE") and "found 2 runs; expected 5 runs" in " ".join(out.split())


def test_lone_log_that_did_not_converge_exits_3(command: Any, tmp_path: Path) -> None:
    path = write_log(tmp_path / "result_0.txt", make_records(TINY, converged=False))
    assert command("check", path)[0] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("check", "nowhere"), 8, "no such file or directory"),
        (("check", "."), 8, "no result_*.txt"),
        (("check",), 2, "Give a log"),
        (("check", "--explain", "XX999"), 2, "unknown rule"),
        (("score", "nowhere"), 8, "no such file or directory"),
        (("score",), 2, "Missing argument"),
    ],
)
def test_bad_input_has_its_code_and_one_message(
    arguments: tuple[str, ...], code: int, message: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, out, err = command(*arguments)
    assert (found, out) == (code, "")
    assert message in err and "Traceback" not in err


def test_bad_definition_and_ruleset_exit_2(command: Any, good: Path, tmp_path: Path) -> None:
    assert command("check", good, "--benchmark", tmp_path / "none.toml")[0] == 2
    assert command("check", good, "--ruleset", "6.0")[0] == 2
    assert command("check", good, "--ruleset", "7.x")[0] == 2


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 500, b":::MLLOG {", b":::MLLOG [[[[\n" * 50])
def test_garbage_is_judged_and_not_crashed_on(content: bytes, command: Any, tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_bytes(content)
    code, out, err = command("check", path)
    assert code == 3 and "ST101" in out and err == ""
    assert command("score", tmp_path)[0] == 0


def test_hostile_text_reaches_the_terminal_escaped(command: Any, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J| `x` <b>\u202e"
    records = with_record(make_records(TINY), "submission_division", value=evil)
    records = with_record(records, "submission_benchmark", value=evil)
    path = write_log(tmp_path / "result_0.txt", records)
    for form in ("table", "md", "csv", "json"):
        for verb in ("check", "score"):
            _, out, _ = command(verb, path, "--format", form)
            assert all(character.isprintable() or character == "\n" for character in out), (verb, form)


@pytest.mark.slow
def test_json_follows_its_schema(command: Any, good: Path, broken: Path, tmp_path: Path) -> None:
    official = tmp_path / "official"
    write_set(official, DCNV2, make_runs(DCNV2, 2, ours=False), ours=False)
    single = write_log(tmp_path / "one.txt", without(make_records(TINY), "seed"))
    schema = json_schema(VerdictDocument)
    jsonschema.Draft202012Validator.check_schema(schema)
    code, out, _ = command("check", good, broken, official / "results", single, official, "--format", "json")
    document = json.loads(out)
    jsonschema.validate(document, schema)
    assert code == 3
    assert [one["outcome"] for one in document["verdicts"]] == [
        "valid",
        "invalid",
        "incomplete",
        "invalid",
        "invalid",
    ]
    assert [one["level"] for one in document["verdicts"]] == ["set", "set", "set", "log", "submission"]
    assert [one["outcome"] for one in document["verdicts"][4]["parts"]] == ["incomplete"]
    finding = next(one for one in document["verdicts"][1]["findings"] if one["code"] == "HP101")
    assert finding["line_num"] == EPSILON_LINE and finding["path"].endswith("result_1.txt")
    assert document["verdicts"][2]["logs"][0]["official"][0]["outcome"] == "valid"


def test_csv_has_a_row_per_finding(command: Any, good: Path, broken: Path) -> None:
    _, out, _ = command("check", good, broken, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["outcome"] for row in rows} == {"valid", "invalid"}
    error = next(row for row in rows if row["code"] == "HP101")
    assert (error["severity"], error["line_num"]) == ("error", str(EPSILON_LINE))
    assert (error["found"], error["expected"]) == ("1e-07", "1e-08")


def test_markdown_has_a_table(command: Any, broken: Path) -> None:
    _, out, _ = command("check", broken, "--format", "md")
    assert out.startswith("## INVALID:")
    assert "| error | HP101 | results/" in out.replace("\\_", "_") or "| error | HP101 |" in out


@pytest.mark.parametrize("one", [*chain(*RULES.values())], ids=lambda one: one.code)
def test_every_rule_is_explained(one: Any, command: Any) -> None:
    code, out, _ = command("check", "--explain", one.code)
    assert code == 0
    assert one.code in out and "Source:" in out and "Fix:" in out
    above, severity = " ".join(out.split()).split("Severity: ")
    says_another = any(word in re.findall(r"\w+", above) for word in SEVERITIES if word != one.severity)
    assert severity.startswith(f"{one.severity} in general" if says_another else f"{one.severity}.")
    # What a rule can find in another severity than its own, it says.
    body = inspect.getsource(one.check).split("\ndef ")[1]
    assert says_another or "severity=" not in body


def test_rules_are_listed_with_their_titles(command: Any) -> None:
    code, out, _ = command("check", "--explain", "all")
    assert code == 0
    assert all(one.code in out and one.severity in out for rules in RULES.values() for one in rules)
    assert command("check", "--explain", "qu")[1].count("\n") < out.count("\n") / 3


def test_second_opinion_is_shown_and_can_be_skipped(command: Any, tmp_path: Path) -> None:
    path = write_log(tmp_path / "result_0.txt", make_records(DCNV2, ours=False))
    assert "second opinion: mlperf_logging 4.1.68 (compliance)" in " ".join(command("check", path)[1].split())
    assert "second opinion" not in command("check", path, "--no-second-opinion")[1]


def test_score_of_a_set(command: Any, good: Path) -> None:
    code, out, err = command("score", good)
    assert (code, err) == (0, "")
    assert "5 of 5 reached the target" in out and "geometric mean, at least 90 %" in " ".join(out.split())
    assert "not an MLPerf result" in out
    for row in ("samples to converge", "throughput", "evaluation, overhead", "dropped: "):
        assert row in out


def test_score_forms_hold_the_same_numbers(command: Any, good: Path) -> None:
    document = json.loads(command("score", good, "--format", "json")[1])
    jsonschema.Draft202012Validator(json_schema(DOCUMENTS["score"])).validate(document)
    (record,) = document["scores"]
    (row,) = csv.DictReader(io.StringIO(command("score", good, "--format", "csv")[1]))
    assert float(row["score_s"]) == record["score_s"] == record["olympic_mean_s"]
    assert record["low_s"] < record["score_s"] < record["high_s"]
    assert [run["counted"] for run in record["runs"]].count("dropped") == 2
    assert record["rcp_factor"] == 1.0  # scores of own benchmarks are never normalised
    table = command("score", good, "--format", "md")[1].splitlines()
    assert len(table) == 3 and table[0].startswith("| result set |")


def test_missing_score_exits_7_only_where_it_is_demanded(command: Any, tmp_path: Path) -> None:
    write_set(tmp_path, TINY, make_runs(TINY, 2))
    code, out, _ = command("score", tmp_path)
    assert code == 0 and "none: incomplete: 2 of 5 runs" in out
    assert command("score", tmp_path, "--require-score")[0] == 7


def test_a_broken_rule_fails_a_score_only_where_it_must_be_valid(command: Any, good: Path, tmp_path: Path) -> None:
    """The score of a set that breaks a rule is a score; --require-valid makes score a gate."""
    runs = make_runs(TINY)
    runs[0] = with_record(runs[0], "opt_adagrad_epsilon", value=1e-7)
    write_set(tmp_path / "invalid", TINY, runs)
    write_set(tmp_path / "incomplete", TINY, make_runs(TINY, 2))
    assert command("score", tmp_path / "invalid", "--require-score")[0] == 0
    codes = {name: command("score", tmp_path / name, "--require-valid")[0] for name in ("invalid", "incomplete")}
    assert codes == {"invalid": 3, "incomplete": 7}
    assert command("score", tmp_path, "--require-valid", "--require-score")[0] == 3
    assert command("score", good, "--require-valid", "--require-score")[0] == 0


def test_score_says_what_is_amiss(command: Any, tmp_path: Path) -> None:
    """That the set breaks a rule, and why a mean has no interval."""
    runs = make_runs(TINY)
    runs[0] = with_record(runs[0], "opt_adagrad_epsilon", value=1e-7)
    start_ms = runs[3][0]["time_ms"]
    runs[3] = make_records(TINY, num_evals=20, converged=False, seed=SEEDS[3], start_ms=start_ms)
    write_set(tmp_path, TINY, runs)
    out = command("score", tmp_path)[1]
    assert "INVALID: 2 errors; see 'dlrmbench check'" in out
    assert "none: a run did not converge, and an infinite time" in out
    (record,) = json.loads(command("score", tmp_path, "--format", "json")[1])["scores"]
    assert record["score_s"] is not None and record["low_s"] is None
    assert record["no_interval_reason"] and record["outcome"] == "invalid"


def test_an_own_score_under_an_official_name_is_unverified(command: Any, tmp_path: Path) -> None:
    write_set(tmp_path / "mine", load_benchmark("dlrm_dcnv2"))
    assert "unverified: result not verified by MLCommons Association" in " ".join(
        command("score", tmp_path)[1].split()
    )


@needs_published_results
def test_of_a_published_score_verification_is_not_known(command: Any) -> None:
    out = " ".join(command("score", NVIDIA)[1].split())
    assert "2.241051 min" in out and "not known whether MLCommons verified the result" in out and "round 5.0" in out


@pytest.mark.slow
def test_check_of_one_log_imports_nothing_heavy(tmp_path: Path) -> None:
    records: list[Record] = make_records(TINY)
    path = write_log(tmp_path / "result_0.txt", records)
    code = (
        "import sys\nfrom harness.cli import main\n"
        "try:\n    main(['check', sys.argv[1]])\nexcept SystemExit as leaving:\n    assert leaving.code == 0\n"
        "print(sorted({'torch', 'pandas', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
