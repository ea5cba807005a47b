"""A rule that finds much: every problem is judged, and what is listed is cut afterwards, the worst first."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from inside import run_inside
from log_builder import Record, make_runs, to_text, write_set
from rule_cases import DCNV2
from submission_builder import write_submission
from submission_cases import good_round

from rules.checks.rule import MAX_FINDINGS_PER_RULE, Problem, Rule, Severity, judge, rule
from rules.checks.verdict import Level, Verdict
from rules.judge.checker import check_paths
from rules.judge.families import RULES
from rules.logs import keys

NUM_HARMLESS = MAX_FINDINGS_PER_RULE + 2
FORMATS = ("table", "json", "csv", "md", "sarif", "junit")
LEVELS: tuple[Level, ...] = ("log", "set", "submission", "round")


def _flood(subject: object) -> Iterator[Problem]:
    """Many harmless findings, and an error at their end."""
    for number in range(NUM_HARMLESS):
        yield Problem(f"harmless {number}", severity="info")
    yield Problem("the broken one", severity="error")


def _instead(found: Rule[Any]) -> Rule[Any]:
    """The rule with its code, finding what `_flood` finds of every subject."""
    return Rule(
        code=found.code, title=found.title, source=found.source, remedy=found.remedy, severity=found.severity,
        requires=frozenset(), check=_flood, applies=lambda subject: None, place=lambda subject: None,
    )  # fmt: skip


def _only(level: Level, found: Rule[Any]) -> Any:
    """As if the rules were this one, of one level."""
    return patch.dict(RULES, {**dict.fromkeys(LEVELS, ()), level: (found,)})


def _severities(found: Rule[Any]) -> bool:
    """Whether a rule may give more than one severity, by its own code or by that of what it calls in its module."""
    module = sys.modules[found.check.__module__]
    names = {name for name in found.check.__code__.co_names if inspect.isfunction(getattr(module, name, None))}
    sources = [inspect.getsource(found.check), *(inspect.getsource(getattr(module, name)) for name in names)]
    return any("severity" in source[source.index("def ") :] for source in sources)


SEVERAL = [(level, found) for level, rules in RULES.items() for found in rules if _severities(found)]


def _assert_refused(verdict: Verdict, code: str) -> None:
    (first, *rest) = [finding for finding in verdict.findings if finding.code == code]
    assert verdict.outcome == "invalid" and first.severity == "error"
    assert sum(finding.number for finding in rest) >= NUM_HARMLESS


@pytest.fixture(scope="module")
def round_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return good_round(tmp_path_factory.mktemp("round"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("form", FORMATS)
def test_an_error_behind_harmless_findings_is_shown_first(level: Level, form: str, round_folder: Path) -> None:
    with _only(level, _instead(next(iter(RULES["log"])))):
        done = run_inside(round_folder.parent, "check", round_folder, "--no-second-opinion", "--format", form)
    assert done.returncode == 3
    said = " ".join(done.stdout.split())
    assert 0 < said.index("the broken one") < said.index("harmless 0")
    if form == "json":
        (verdict,) = json.loads(done.stdout)["verdicts"]
        num_subjects = {"log": 20, "set": 2, "submission": 2, "round": 1}[level]
        assert (verdict["outcome"], verdict["num_errors"]) == ("invalid", num_subjects)
        assert verdict["findings"][0]["severity"] == "error"
        infos = [finding["number"] for finding in verdict["findings"] if finding["severity"] == "info"]
        assert sum(infos) == NUM_HARMLESS * num_subjects


def test_rules_of_several_severities_are_known_by_their_code() -> None:
    assert {"ST103", "ST104", "TI108", "TI101", "HP103", "SU107", "PW108"} <= {found.code for _, found in SEVERAL}
    assert not {"TI103", "ST102", "RO102", "RS101"} & {found.code for _, found in SEVERAL}


@pytest.mark.slow
@pytest.mark.parametrize(("level", "found"), SEVERAL, ids=[found.code for _, found in SEVERAL])
def test_no_rule_hides_an_error_behind_its_harmless_findings(
    level: Level, found: Rule[Any], round_folder: Path
) -> None:
    with _only(level, _instead(found)):
        (verdict,) = check_paths([round_folder], second_opinion=False)
    _assert_refused(verdict, found.code)


def _judged(*severities: Severity) -> list[tuple[Severity, str, int]]:
    """What is listed of a rule that finds problems of these severities, in this order."""

    @rule("ST999", "a made-up one", source="none", remedy="none", severity="warning")
    def found(subject: object) -> Iterator[Problem]:
        for number, severity in enumerate(severities):
            yield Problem(str(number), severity=severity)

    (outcome,) = judge([found], object(), "place")
    return [(finding.severity, finding.message, finding.number) for finding in outcome.findings]


@pytest.mark.parametrize("num_before", [0, 19, 20, 21, 500])
def test_the_worst_are_listed_and_the_rest_is_counted_by_severity(num_before: int) -> None:
    listed = _judged(*["info"] * num_before, "error", *["warning"] * 3, "error")
    assert listed[:2] == [("error", str(num_before), 1), ("error", str(num_before + 4), 1)]
    assert sum(number for severity, _, number in listed if severity == "info") == num_before
    assert sum(number for severity, _, number in listed if severity == "warning") == 3
    assert len(listed) <= MAX_FINDINGS_PER_RULE + 1
    errors = _judged(*["error"] * 25, *["info"] * 2)
    assert errors[-2:] == [
        ("error", "5 more findings of ST999 are not listed", 5),
        ("info", "2 more findings of ST999 are not listed", 2),
    ]


def _repeat_settings(records: list[Record]) -> list[Record]:
    """Warnings of ST104 (settings that are logged again), and no cache_clear at all."""
    stop = next(index for index, one in enumerate(records) if one["key"] == keys.INIT_STOP)
    settings = [one for one in records[:stop] if one["key"].startswith("opt_") or "samples" in one["key"]]
    more = [one for one in records[:stop] if one["key"].startswith(("submission_", "global_", "gradient_", "lr_"))]
    return [one for one in (*records[:stop], *settings, *more, *records[stop:]) if one["key"] != keys.CACHE_CLEAR]


def _add_incomplete(records: list[Record]) -> list[Record]:
    """Mentioned by ST103 (metadata of unknown keys), and a record without value at their end."""
    extra = [{**records[5], "key": f"note_{number}", "metadata": ""} for number in range(NUM_HARMLESS)]
    broken = {name: value for name, value in records[5].items() if name != "value"} | {"key": "note"}
    return [*records[:6], *extra, broken, *records[6:]]


def _stamp_late(records: list[Record]) -> list[Record]:
    """Warnings of TI108 (stamps of 2010, above init_start), and an end that is in seconds."""
    first = {**records[0], "key": "note", "time_ms": 1_270_000_000_000}
    return [*[first] * NUM_HARMLESS, *records[:-1], {**records[-1], "time_ms": records[-1]["time_ms"] / 1000}]


@pytest.mark.parametrize(
    ("code", "change"), [("ST104", _repeat_settings), ("ST103", _add_incomplete), ("TI108", _stamp_late)]
)
def test_logs_with_much_that_is_harmless_and_one_error_are_invalid(
    tmp_path: Path, code: str, change: Callable[[list[Record]], list[Record]]
) -> None:
    root = tmp_path / "training_results_v5.1" / "Example"
    write_set(root, DCNV2, [change(records) for records in make_runs(DCNV2, ours=False)], ours=False)
    (verdict,) = check_paths([root / "results"], second_opinion=False)
    assert verdict.outcome == "invalid"
    found = [finding for finding in verdict.findings if finding.code == code]
    assert found[0].severity == "error" and {"warning", "info"} & {finding.severity for finding in found}
    assert verdict.count("error") >= 10


def test_hidden_results_are_seen_behind_many_harmless_names(tmp_path: Path) -> None:
    top = write_submission(tmp_path)
    for number in range(NUM_HARMLESS):
        place = top / "benchmarks" / f"b{number}" / ".gitignore"
        place.parent.mkdir(parents=True)
        place.write_text("")
    (top / "results" / ".hidden").write_text(to_text(make_runs(DCNV2, 1, ours=False)[0]))
    (verdict,) = check_paths([top], second_opinion=False)
    first, *rest = [finding for finding in verdict.findings if finding.code == "SU107"]
    assert verdict.outcome == "invalid" and first.path.endswith(".hidden")
    assert {finding.severity for finding in rest} == {"warning"}
