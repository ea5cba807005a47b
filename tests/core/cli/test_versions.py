"""Results of an older version of a benchmark stay what they were when a newer version is current."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from log_builder import make_runs, write_set
from sweep_builder import FastWorkers
from version_builder import next_version

from harness.config.run_config import command_name
from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.benchmarks.rounds import NamedBenchmark, find_definition
from rules.benchmarks.seeds import reserved_seeds
from rules.errors import DefinitionError
from rules.logs import keys
from rules.logs.log import read_log

CLI = Callable[..., tuple[int, str, str]]
Versions = tuple[Benchmark, Benchmark]


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[Versions]:
    """dlrm_tiny's version of today as an older one, and the one that is current then."""
    with next_version(tmp_path / "benchmarks") as both:
        yield both


def facts_of(command: CLI, *paths: Path) -> tuple[object, ...]:
    """What check says of a set or a log, without the sentence on how the version was found."""
    code, out, _ = command("check", *paths, "--format", "json", "--no-second-opinion")
    verdicts = json.loads(out)["verdicts"]
    for verdict in verdicts:
        del verdict["ruleset_source"]
        for part in verdict["parts"]:
            del part["ruleset_source"]
    return code, verdicts


def verdict_on(command: CLI, path: Path) -> tuple[int, Any]:
    code, out, _ = command("check", path, "--format", "json", "--no-second-opinion")
    return code, json.loads(out)["verdicts"][0]


def test_a_set_of_an_older_version_is_judged_and_scored_as_before(command: CLI, tmp_path: Path) -> None:
    older = load_benchmark("dlrm_tiny")
    write_set(tmp_path / "set", older)
    log = shutil.copy(next((tmp_path / "set").glob("results/*/*/result_0.txt")), tmp_path / "alone.txt")
    before = [facts_of(command, Path(path)) for path in (tmp_path / "set", log)]
    score = json.loads(command("score", tmp_path / "set", "--format", "json")[1])
    with next_version(tmp_path / "benchmarks"):
        assert [facts_of(command, Path(path)) for path in (tmp_path / "set", log)] == before
        assert json.loads(command("score", tmp_path / "set", "--format", "json")[1]) == score
        code, out, _ = command("check", log, "--no-second-opinion")
        assert f"dlrm_tiny version {older.version}" in out and f"{older.version + 1} is current" in out
        code, out, _ = command("report", tmp_path / "set", "-o", tmp_path / "page.html", "--no-second-opinion")
        page = (tmp_path / "page.html").read_text()
        assert code == 0 and "dlrm_tiny_ref_" in page and f"dlrm_tiny version {older.version}" in page
    assert before[0][0] == 0 and score["scores"][0]["rcp_outcome"] in ("passed", "failed")


def test_the_log_says_the_version_whatever_is_beside_it(versions: Versions, tmp_path: Path) -> None:
    older, current = versions
    for stated, beside in ((older, current), (current, older)):
        named = NamedBenchmark(name="dlrm_tiny", version=stated.version)
        assert find_definition(named, None, beside.path) == stated
        assert find_definition(named, beside.path, None) == stated
    unsaid = NamedBenchmark(name="dlrm_tiny")
    assert find_definition(unsaid, None, None) == current
    assert find_definition(unsaid, None, older.path) == older
    assert find_definition(unsaid, older.path, None) == older
    assert find_definition(NamedBenchmark(name="dlrm_tiny", version=current.version + 1), None, current.path) is None


def test_a_log_that_claims_another_version_than_its_definition_is_found_out(
    command: CLI, versions: Versions, tmp_path: Path
) -> None:
    older, current = versions
    folder = write_set(tmp_path / "set", older)
    for log in folder.glob("result_*.txt"):
        said = f'"key": "benchmark_version", "value": {older.version}'
        assert said in log.read_text()
        log.write_text(log.read_text().replace(said, said.replace(str(older.version), str(current.version))))
    code, verdict = verdict_on(command, tmp_path / "set")
    messages = [finding["message"] for finding in verdict["findings"]]
    assert code == 3 and "not the shipped definition of dlrm_tiny" in messages
    assert f"definition_sha256 is not that of the definition dlrm_tiny version {current.version}" in messages


def test_versions_are_never_compared(command: CLI, versions: Versions, tmp_path: Path) -> None:
    for benchmark in versions:
        write_set(tmp_path / str(benchmark.version), benchmark)
    base, new = (tmp_path / str(benchmark.version) for benchmark in versions)
    code, out, err = command("compare", base, new)
    older, current = versions
    assert code == 2 and f"different benchmark version: {older.version} and {current.version}" in out + err


def test_a_version_that_is_not_known_says_so(command: CLI, tmp_path: Path) -> None:
    with next_version(tmp_path / "benchmarks") as (_, current):
        write_set(tmp_path / "set", current)
        assert command("check", tmp_path / "set", "--no-second-opinion")[0] == 0
    code, verdict = verdict_on(command, tmp_path / "set")
    (finding,) = [finding for finding in verdict["findings"] if finding["code"] == "ST110"][:1]
    assert (code, finding["found"]) == (3, str(current.version))
    assert finding["message"] == "this version of dlrm_tiny is not known here"
    assert str(current.version - 1) in finding["expected"] and "Update dlrmbench" in finding["remedy"]
    code, out, _ = command("score", tmp_path / "set", "--require-score")
    assert code == 7 and "its version of dlrm_tiny is not known here" in " ".join(out.split())
    assert command("report", tmp_path / "set", "-o", tmp_path / "page.html", "--no-second-opinion")[0] == 0


def test_a_set_of_logs_of_two_versions_has_no_score(command: CLI, versions: Versions, tmp_path: Path) -> None:
    older, current = versions
    runs = [*make_runs(older)[:3], *make_runs(current)[3:]]
    write_set(tmp_path / "set", older, runs)
    (score,) = json.loads(command("score", tmp_path / "set", "--format", "json")[1])["scores"]
    assert score["no_score_reason"] == f"the set mixes versions of dlrm_tiny: {older.version} and {current.version}"
    assert command("check", tmp_path / "set", "--no-second-opinion")[0] == 3


def test_older_versions_are_shown_and_listed_by_their_names(command: CLI, versions: Versions) -> None:
    older, current = versions
    name = f"dlrm_tiny@{older.version}"
    assert json.loads(command("show", name, "--format", "json")[1])["definition_sha256"] == older.definition_sha256
    shown = json.loads(command("show", "dlrm_tiny", "--format", "json")[1])
    assert shown["definition_sha256"] == current.definition_sha256
    assert name in command("list")[1]
    (record,) = (
        record
        for record in json.loads(command("list", "--format", "json")[1])["benchmarks"]
        if record["name"] == "dlrm_tiny"
    )
    assert (record["version"], record["older_versions"][-1]) == (current.version, older.version)
    code, _, err = command("show", "dlrm_tiny@99")
    assert code == 2 and "has no version '99'" in err and f"{current.version}, the current one" in err
    code, _, err = command("show", "rm1_deeprecsys@1")
    assert code == 2 and "has no version '1'" in err


@pytest.mark.slow
def test_an_older_version_runs_where_it_is_named_and_its_logs_say_so(
    command: CLI, workers: FastWorkers, versions: Versions, tmp_path: Path, data_root: Path
) -> None:
    older, current = versions
    for name, version in ((command_name(older), older.version), (command_name(current), current.version)):
        output = tmp_path / name
        command("run", name, "-n", "1", "-o", output, "--data", data_root)
        (folder,) = (path for path in output.iterdir() if path.name.startswith("dlrm_tiny") and not path.is_symlink())
        command("resume", folder, "-n", "2")
        logs = sorted(folder.glob("results/*/dlrm_tiny/result_*.txt"))
        assert [read_log(log).value(keys.BENCHMARK_VERSION) for log in logs] == [version, version]
    assert [command_name(benchmark) for benchmark in versions] == [f"dlrm_tiny@{older.version}", "dlrm_tiny"]


def test_a_users_file_may_be_an_older_version_and_nothing_else_of_that_name(
    versions: Versions, tmp_path: Path
) -> None:
    older, _ = versions
    mine = tmp_path / "mine.toml"
    shutil.copy(older.path, mine)
    assert find_definition(NamedBenchmark(name="dlrm_tiny"), mine, None) == older
    mine.write_text(mine.read_text().replace("max_epochs = 1.0", "max_epochs = 2.0"))
    with pytest.raises(DefinitionError, match="takes the name of the shipped benchmark"):
        find_definition(NamedBenchmark(name="dlrm_tiny"), mine, None)


def test_seeds_of_every_version_stay_reserved(tmp_path: Path) -> None:
    before = reserved_seeds("dlrm_tiny")
    with next_version(tmp_path / "benchmarks"):
        assert reserved_seeds("dlrm_tiny") == before != frozenset()
