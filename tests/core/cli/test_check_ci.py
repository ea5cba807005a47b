"""check for code hosts and build servers: SARIF 2.1.0 and JUnit XML."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from log_builder import make_records, make_runs, with_record, write_log, write_set

from harness.cli import main
from reports.render.junit import verdicts_to_junit
from reports.render.sarif import verdicts_to_sarif
from rules.benchmarks.loader import load_benchmark
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.judge.families import find_rule

TINY, DCNV2 = load_benchmark("dlrm_tiny"), load_benchmark("dlrm_dcnv2")

SARIF = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "version", "rules"],
                                "properties": {"rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}}},
                            }
                        },
                    },
                    "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                },
            },
        },
    },
    "$defs": {
        "text": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
        "rule": {
            "type": "object",
            "required": ["id", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
            "properties": {
                "shortDescription": {"$ref": "#/$defs/text"},
                "fullDescription": {"$ref": "#/$defs/text"},
                "help": {"$ref": "#/$defs/text"},
                "helpUri": False,
                "defaultConfiguration": {"properties": {"level": {"enum": ["error", "warning", "note"]}}},
            },
        },
        "result": {
            "type": "object",
            "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
            "properties": {
                "level": {"enum": ["error", "warning", "note"]},
                "message": {"$ref": "#/$defs/text"},
                "locations": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "required": ["physicalLocation"],
                        "properties": {
                            "physicalLocation": {
                                "required": ["artifactLocation"],
                                "properties": {
                                    "artifactLocation": {
                                        "required": ["uri"],
                                        "properties": {"uri": {"type": "string", "pattern": r"^[^\s\\#?]+$"}},
                                    },
                                    "region": {"properties": {"startLine": {"type": "integer", "minimum": 1}}},
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}  # what of SARIF 2.1.0 its readers rely on


def judge(path: Path) -> tuple[Verdict, ...]:
    return check_paths([path], second_opinion=False)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set with an error at a line, in a folder whose name needs escaping."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "a set & <more> 100%"
    runs = make_runs(TINY)
    runs[1] = with_record(runs[1], "opt_adagrad_epsilon", value=1e-7)
    write_set(root, TINY, runs)
    return root


def results_of(document: dict[str, Any], code: str) -> list[dict[str, Any]]:
    return [one for one in document["runs"][0]["results"] if one["ruleId"] == code]


def test_sarif_has_the_structure_that_its_readers_rely_on(broken: Path) -> None:
    document = verdicts_to_sarif(judge(broken))
    jsonschema.validate(document, SARIF)
    rules = document["runs"][0]["tool"]["driver"]["rules"]
    for one in document["runs"][0]["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]


def test_sarif_names_place_rule_and_remedy(broken: Path) -> None:
    (result,) = results_of(verdicts_to_sarif(judge(broken)), "HP101")
    (location,) = result["locations"]
    uri = location["physicalLocation"]["artifactLocation"]["uri"]
    assert not uri.startswith(("/", "file:", ".."))
    path = Path(unquote(uri))
    line = path.read_text().splitlines()[location["physicalLocation"]["region"]["startLine"] - 1]
    assert path.name == "result_1.txt" and "opt_adagrad_epsilon" in line
    assert result["level"] == "error"
    assert "Found: 1e-07." in result["message"]["text"] and find_rule("HP101").remedy in result["message"]["text"]


def test_sarif_separates_warnings_from_errors_and_places_outside_by_file_uris(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(tmp_path / "set", TINY, make_runs(TINY, 2))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (result,) = results_of(verdicts_to_sarif(judge(Path("../set"))), "RS101")
    assert result["level"] == "warning"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].startswith("file:///") and place["artifactLocation"]["uri"].endswith("/")
    assert "region" not in place


def test_sarif_fingerprints_distinguish_findings_and_stay(broken: Path) -> None:
    first, second = (verdicts_to_sarif(judge(broken))["runs"][0]["results"] for _ in range(2))
    prints = [one["partialFingerprints"]["finding/v1"] for one in first]
    assert len(set(prints)) == len(prints)
    assert prints == [one["partialFingerprints"]["finding/v1"] for one in second]


def test_junit_has_a_suite_per_log_and_directory_and_a_case_per_rule(broken: Path) -> None:
    (verdict,) = judge(broken)
    root = ET.fromstring(verdicts_to_junit((verdict,)))
    suites = {suite.get("name"): suite for suite in root}
    assert len(suites) == 6 and verdict.subject in suites
    cases = root.findall("testsuite/testcase")
    assert int(root.get("tests", "")) == len(cases) == len(verdict.outcomes)
    for suite in root:
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))


def test_junit_failures_say_what_and_skips_say_why(broken: Path) -> None:
    root = ET.fromstring(verdicts_to_junit(judge(broken)))
    failures = [case for case in root.findall("testsuite/testcase") if case.find("failure") is not None]
    (failed,) = [case for case in failures if str(case.get("name")).startswith("HP101")]
    assert failed.get("classname") == "hyperparameters"
    failure = failed.find("failure")
    assert failure is not None and failure.text is not None
    assert "found 1e-07; expected 1e-08" in str(failure.get("message")) and "rule: " in failure.text
    skipped = root.findall("testsuite/testcase/skipped")
    assert skipped and all(one.get("message") for one in skipped)


def test_junit_does_not_fail_on_warnings(tmp_path: Path) -> None:
    write_set(tmp_path, TINY, make_runs(TINY, 2))
    root = ET.fromstring(verdicts_to_junit(judge(tmp_path)))
    assert root.get("failures") == "0"
    assert any("RS101" in str(case.get("name")) for case in root.findall("testsuite/testcase[system-out]"))


@pytest.mark.parametrize("form", ["sarif", "junit"])
def test_hostile_text_comes_out_as_text(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;x\x07\x00\ud800]]><script>&amp;\u202e"
    records = with_record(make_records(TINY), "submission_division", value=evil)
    folder = tmp_path / "a\x1b[2J & ]]> <b>"
    path = write_log(folder / "result_0.txt", with_record(records, "opt_name", value=evil))
    with pytest.raises(SystemExit) as leaving:
        main(["check", str(path), "--format", form])
    out = capsys.readouterr().out
    assert leaving.value.code == 3
    assert all(character.isprintable() or character == "\n" for character in out)
    if form == "junit":
        assert ET.fromstring(out).findall("testsuite/testcase/failure")
    else:
        jsonschema.validate(json.loads(out), SARIF)


@pytest.mark.parametrize("form", ["sarif", "junit"])
def test_exit_codes_are_those_of_the_other_forms(
    form: str, broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(tmp_path / "good", TINY)
    for path, code in ((broken, 3), (tmp_path / "good", 0), (tmp_path / "none", 8)):
        with pytest.raises(SystemExit) as leaving:
            main(["check", str(path), "--format", form])
        assert leaving.value.code == code
        assert (capsys.readouterr().out == "") == (code == 8)
