"""Finding result sets in our tree, MLPerf's, a round, and a bare directory."""

import json
from pathlib import Path

import pytest
from log_builder import make_runs, write_log, write_set
from mlperf_fixtures import FOLDER, needs_published_results
from records_builder import run_set_content
from run_record_cases import write_recorded

from rules.benchmarks.loader import load_benchmark
from rules.checks.result_set.records import logs_match_records
from rules.errors import DefinitionError, InputError
from rules.judge.checker import check_paths
from rules.judge.sets import check_log, judge_set, make_set_subject
from rules.logs.log import read_log
from rules.tree.inventory import find_result_sets

TINY, DCNV2 = load_benchmark("dlrm_tiny"), load_benchmark("dlrm_dcnv2")


def test_run_set_of_this_harness(tmp_path: Path) -> None:
    root = tmp_path / "dlrm_tiny-x-20260101T000000Z"
    folder = write_set(root, TINY)
    (root / "extra" / "run_0" / "attempt_0").mkdir(parents=True)
    (root / "extra" / "run_0" / "attempt_0" / "result_0.txt").write_text("not a result")
    for start in (tmp_path, root, root / "results", folder):
        (found,) = find_result_sets(start)
        assert found.folder == folder and found.root == root
        assert [path.name for path in found.logs] == [f"result_{i}.txt" for i in range(5)]
        assert (found.system, found.benchmark, found.organization) == ("example", "dlrm_tiny", None)
        assert found.system_json == root / "systems" / "example.json"
        assert found.definition_file == root / "extra" / "definition.toml"


def test_organisations_of_a_round(tmp_path: Path) -> None:
    for organization in ("Beta", "Alpha"):
        write_set(tmp_path / "training_results_v5.1" / organization, DCNV2, ours=False)
    found = find_result_sets(tmp_path)
    assert [(entry.organization, entry.round, entry.root) for entry in found] == [
        ("Alpha", "5.1", None),
        ("Beta", "5.1", None),
    ]
    assert all(entry.system_json is not None for entry in found)


def test_bare_directory_says_nothing_but_its_logs(tmp_path: Path) -> None:
    for index, records in enumerate(make_runs(TINY, 11)):
        write_log(tmp_path / f"result_{index}.txt", records)
    (found,) = find_result_sets(tmp_path)
    assert [path.name for path in found.logs][-2:] == ["result_9.txt", "result_10.txt"]
    assert (found.system_json, found.root, found.organization, found.system, found.benchmark) == (None,) * 5


def test_relative_path_finds_the_tree_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_set(tmp_path / "set", TINY)
    monkeypatch.chdir(folder)
    for start in (".", "result_2.txt", "../dlrm_tiny"):
        (found,) = find_result_sets(start)
        assert found.system_json is not None and found.system_json.is_file(), start
        assert found.definition_file is not None, start


def test_single_log_is_a_set_of_one_and_its_name_may_say_the_round(tmp_path: Path) -> None:
    path = write_log(tmp_path / "somebody_v4.0_run.txt", make_runs(DCNV2, 1, ours=False)[0])
    (found,) = find_result_sets(path)
    assert found.logs == (path,) and found.round == "4.0"
    assert check_log(path).ruleset == "MLPerf Training 4.0"


@pytest.mark.parametrize("name", ["missing", "."])
def test_nothing_to_judge_is_an_input_error_that_says_what_was_expected(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"result_.*\.txt"):
        find_result_sets(tmp_path / name)


def test_system_description_of_any_content_is_judged(tmp_path: Path) -> None:
    write_set(tmp_path, TINY)
    path = tmp_path / "systems" / "example.json"
    for content in (b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": 1}', b" " * (2 << 20)):
        path.write_bytes(content)
        (verdict,) = check_paths([tmp_path], second_opinion=False)
        assert {"SY101", "SY102"} & {finding.code for finding in verdict.findings}, content[:20]


def test_own_definition_beside_the_results_is_found(tmp_path: Path) -> None:
    """A user's benchmark is judged by the copy in extra/, or by the file given; without both nobody knows it."""
    text = TINY.path.read_text().replace('name = "dlrm_tiny"', 'name = "mine"', 1)
    definition = tmp_path / "mine.toml"
    definition.write_text(text)
    mine = load_benchmark(definition)
    root = tmp_path / "set"
    write_set(root, mine)
    assert check_paths([root])[0].outcome == "valid"
    (root / "extra" / "definition.toml").unlink()
    verdict = check_paths([root])[0]
    assert verdict.outcome == "invalid" and "ST110" in {finding.code for finding in verdict.findings}
    assert check_paths([root], definition)[0].outcome == "valid"
    definition.write_text(text.replace("opt_adagrad_epsilon = 1e-8", "opt_adagrad_epsilon = 1e-6"))
    changed = check_paths([root], definition)[0]
    assert "ST111" in {finding.code for finding in changed.findings if finding.severity == "error"}


def test_file_that_takes_a_shipped_name_is_refused(tmp_path: Path) -> None:
    write_set(tmp_path / "set", TINY)
    definition = tmp_path / "dlrm_tiny.toml"
    definition.write_text(TINY.path.read_text().replace("evals_per_epoch = 20", "evals_per_epoch = 10"))
    with pytest.raises(DefinitionError, match="Give it another name"):
        check_paths([tmp_path / "set"], definition)


def test_definition_beside_cannot_replace_a_shipped_one(tmp_path: Path) -> None:
    """An easier target in the copy beside the logs changes nothing: the shipped definition judges."""
    root = tmp_path / "set"
    easy = tmp_path / "easy.toml"
    easy.write_text(TINY.path.read_text().replace(f"target = {TINY.quality.target}", "target = 0.55"))
    write_set(root, load_benchmark(easy))
    verdict = check_paths([root])[0]
    assert verdict.outcome == "invalid"
    assert {"QU102", "ST111"} <= {finding.code for finding in verdict.findings}


def test_incomplete_set_is_incomplete_and_not_invalid(tmp_path: Path) -> None:
    write_set(tmp_path, TINY, make_runs(TINY, 3))
    (verdict,) = check_paths([tmp_path])
    assert verdict.outcome == "incomplete"
    assert {finding.severity for finding in verdict.findings} <= {"warning", "info"}


def test_one_run_that_did_not_converge_leaves_the_set_valid_and_its_log_rejected(tmp_path: Path) -> None:
    runs = [*make_runs(TINY, 4), *make_runs(TINY, 1, converged=False, start_ms=1_800_000_000_000)]
    runs[-1] = [{**record, "value": 555} if record["key"] == "seed" else record for record in runs[-1]]
    write_set(tmp_path, TINY, runs)
    (verdict,) = check_paths([tmp_path])
    assert verdict.outcome == "valid"
    assert [log.outcome for log in verdict.logs] == ["valid"] * 4 + ["invalid"]
    assert [finding.severity for finding in verdict.findings if finding.code == "QU103"] == ["warning"]


@needs_published_results
def test_published_results_get_sensible_verdicts() -> None:
    verdicts = {result_set.organization: judge_set(result_set).verdict for result_set in find_result_sets(FOLDER)}
    assert {name: verdict.outcome for name, verdict in verdicts.items()} == {
        "NVIDIA": "valid",
        "Cisco": "valid",
        "Intel": "valid",
        "University-of-Florida": "invalid",
    }
    assert [finding.severity for finding in verdicts["NVIDIA"].findings].count("warning") == 0
    rejected = [log for log in verdicts["Cisco"].logs if log.outcome == "invalid"]
    assert [Path(log.subject).name for log in rejected] == ["result_1.txt"]
    errors = [finding for finding in verdicts["University-of-Florida"].findings if finding.severity == "error"]
    assert {finding.code for finding in errors} == {"CA101"} and len(errors) == 10
    assert "10000 iterations" in (errors[0].found or "") and "3793 iterations" in (errors[0].expected or "")


@needs_published_results
def test_published_log_of_another_launcher_is_judged() -> None:
    verdict = check_log(FOLDER / "irregular" / "juniper_v4.0_truncated.txt")
    assert verdict.ruleset == "MLPerf Training 4.0"
    assert {finding.code for finding in verdict.findings} == {"SE102"}


def test_no_content_of_a_runs_record_breaks_the_rule_that_reads_it(tmp_path: Path) -> None:
    write_recorded(tmp_path)
    (result_set,) = find_result_sets(tmp_path)
    logs = tuple(map(read_log, result_set.logs))
    subject = make_set_subject(result_set, logs, TINY, None)
    place = tmp_path / "extra" / "run_0" / "attempt_1" / "run.json"
    good = json.loads(place.read_text())
    assert not list(logs_match_records.check(subject))
    odd = [
        None,
        True,
        -1,
        10**400,
        "x",
        [],
        [None],
        [[]],
        [{}],
        {},
        {"cleared": []},
        [{"duration_s": "1", "quality": []}],
    ]
    for field in good:
        for value in odd:
            place.write_text(json.dumps({**good, field: value}))
            list(logs_match_records.check(subject))
    for text in ("", "[]", "[" * 100_000, "\xff", "{}"):
        place.write_text(text, encoding="latin-1")
        list(logs_match_records.check(subject))


def test_a_damaged_run_set_json_is_one_finding_that_names_the_member(tmp_path: Path) -> None:
    write_set(tmp_path, TINY)
    record = tmp_path / "extra" / "run_set.json"
    for changes, message, found, expected in (
        ({}, None, None, None),
        ({"num_runs": "5"}, "num_runs is not as expected", '"5"', "a whole number"),
        ({"config": {"a.b": {"value": 1}}}, 'config["a.b"].source is not as expected', "nothing", "a value"),
        ({"schema_version": 3}, "schema_version is not as expected", "3", "1"),
    ):
        record.write_text(json.dumps(run_set_content(**changes)))
        (verdict,) = check_paths([tmp_path], second_opinion=False)
        findings = [finding for finding in verdict.findings if finding.code == "RS112"]
        assert len(findings) == (message is not None)
        for finding in findings:
            assert (finding.message, finding.found, finding.path) == (message, found, str(record))
            assert (finding.expected or "").startswith(str(expected))
            is_other = "schema_version" in changes
            assert finding.remedy.startswith("A newer dlrmbench" if is_other else "Restore extra/run_set.json")
