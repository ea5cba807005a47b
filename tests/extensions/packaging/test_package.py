"""package: a submission of copies, all of it or nothing, and never of what the logs do not say."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from log_builder import make_runs, make_system_desc, with_record, write_set
from package_builder import DCNV2, SMALL, TINY, digests, make_set, package, refused, run_set_record
from records_builder import run_content

from harness.cli import main
from harness.extensions.packaging.build import NotCompliantError
from harness.extensions.packaging.tree import SUMS_FILE
from harness.foundation.errors import ExitCode, HarnessError
from rules.benchmarks.loader import load_benchmark, read_toml


@pytest.mark.slow
def test_the_tree_is_that_of_the_submission_rules_and_no_byte_of_a_log_changes(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    before = digests(source)
    made = package([source], tmp_path / "out")
    after = digests(tmp_path / "out")
    assert made.verdict.outcome == "valid" and made.verdict.level == "submission"
    for index in range(5):
        inner = f"results/example/dlrm_tiny/result_{index}.txt"
        assert after[f"Example/{inner}"] == before[inner]
    assert after["Example/systems/example.json"] == before["systems/example.json"]
    here = "Example/benchmarks/dlrm_tiny/example/"
    own = {name.removeprefix(here) for name in after if name.startswith(here)}
    assert own >= {"README.md", "setup.sh", "init_datasets.sh", "run_and_time.sh", "example_dlrmbench-reference.json"}
    assert "Example/benchmarks/dlrm_tiny/implementations/dlrmbench-reference/reference_models/dlrm/model.py" in after
    assert {name.split("/")[1] for name in after if "/" in name} == {"systems", "results", "benchmarks"}
    assert digests(source) == before


@pytest.mark.slow
def test_sums_name_every_file_and_agree(tmp_path: Path) -> None:
    package([make_set(tmp_path / "set")], tmp_path / "out")
    lines = (tmp_path / "out" / SUMS_FILE).read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    assert sums == {name: digest for name, digest in digests(tmp_path / "out").items() if name != SUMS_FILE}


@pytest.mark.slow
def test_sums_hold_names_of_any_bytes(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    folder = source / "results" / "example" / "dlrm_tiny"
    for name in (b"result_\xff.txt", b"result_a\\b.txt"):
        shutil.copy(folder / "result_0.txt", os.fsdecode(os.fsencode(folder) + b"/" + name))
    package([source], tmp_path / "out", allow_non_compliant=True)
    done = subprocess.run(["sha256sum", "--check", "--quiet", SUMS_FILE], cwd=tmp_path / "out", check=False)
    assert done.returncode == 0
    assert (tmp_path / "out" / SUMS_FILE).read_bytes().count(b"results/example/dlrm_tiny/result_") == 7


@pytest.mark.slow
def test_what_is_left_out_is_listed(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    results = source / "results" / "example" / "dlrm_tiny"
    (results / "scaling.json").write_text('{"scaling_factor": 1.5}')
    (results / "notes.txt").write_text("mine")
    (results / "power_link").symlink_to("/etc")
    (source / "extra" / "lock").touch()
    made = package([source], tmp_path / "out")
    reasons = {item.place: item.reason for item in made.left_out}
    assert "report.html" in reasons and "extra/" in reasons
    assert reasons["extra/run_1/attempt_0"] == "an attempt that did not become a result"
    assert "the checkers find anew" in reasons["results/example/dlrm_tiny/scaling.json"]
    assert reasons["results/example/dlrm_tiny/notes.txt"] == "the layout has no place for it"
    assert not list((tmp_path / "out").rglob("scaling.json"))


@pytest.mark.slow
def test_several_sets_share_a_submission(tmp_path: Path) -> None:
    first, second = make_set(tmp_path / "a"), make_set(tmp_path / "b", SMALL)
    third = make_set(tmp_path / "c", system="other")
    made = package([first, second, third], tmp_path / "out")
    assert {(one.system, one.benchmark) for one in made.sets} == {
        ("example", "dlrm_tiny"),
        ("example", "dlrm_small"),
        ("other", "dlrm_tiny"),
    }
    assert made.verdict.outcome == "valid"
    assert [part.subject for part in made.verdict.parts] == [
        str(tmp_path / "out" / "Example" / "results" / one / two)
        for one, two in (("example", "dlrm_small"), ("example", "dlrm_tiny"), ("other", "dlrm_tiny"))
    ]


@pytest.mark.slow
def test_a_folder_that_is_named_twice_is_packaged_once(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    assert len(package([source, tmp_path / "set" / "results"], tmp_path / "out").sets) == 1


def test_two_sets_of_one_benchmark_on_one_system_are_refused(tmp_path: Path) -> None:
    error = refused([make_set(tmp_path / "a"), make_set(tmp_path / "b")], tmp_path / "out")
    assert error.exit_code == ExitCode.USAGE and "two sets are of dlrm_tiny" in str(error)


def test_systems_of_one_name_must_be_one_system(tmp_path: Path) -> None:
    first, second = make_set(tmp_path / "a"), make_set(tmp_path / "b", SMALL)
    (second / "systems" / "example.json").write_text(json.dumps(make_system_desc(cooling="water")))
    assert "describe the system example differently" in str(refused([first, second], tmp_path / "out"))


@pytest.mark.parametrize("organization", ["Other", "unspecified", "example"])
def test_a_submitter_that_the_logs_do_not_name_is_refused(organization: str, tmp_path: Path) -> None:
    source = make_set(tmp_path / "set", runs=make_runs(TINY, organization=organization))
    error = refused([source], tmp_path / "out")
    assert error.exit_code == ExitCode.USAGE
    assert f"names '{organization}' as submission_org, not 'Example'" in str(error)
    assert "--submitter" in str(error) and "[submission]" in str(error)


def test_a_placeholder_is_no_submitter_although_the_logs_name_it(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set", runs=make_runs(TINY, organization="unspecified"))
    (source / "systems" / "example.json").write_text(json.dumps(make_system_desc(submitter="unspecified")))
    error = refused([source], tmp_path / "out", submitter="unspecified")
    assert error.exit_code == ExitCode.USAGE and "names no organisation" in str(error)


def test_a_submitter_that_one_log_or_the_description_does_not_name_is_refused(tmp_path: Path) -> None:
    runs = make_runs(TINY)
    runs[3] = with_record(runs[3], "submission_org", value="Other")
    assert "result_3.txt" in str(refused([make_set(tmp_path / "a", runs=runs)], tmp_path / "out"))
    source = make_set(tmp_path / "b")
    (source / "systems" / "example.json").write_text(json.dumps(make_system_desc(submitter="Other")))
    assert "submitter is 'Other'" in str(refused([source], tmp_path / "out"))


@pytest.mark.parametrize("submitter", ["", ".", "..", ".git", "a\x1bb", "x" * 300])
def test_a_submitter_that_is_no_name_is_refused(submitter: str, tmp_path: Path) -> None:
    assert refused([make_set(tmp_path / "set")], tmp_path / "out", submitter=submitter).exit_code == ExitCode.USAGE


def test_a_submitter_cannot_leave_the_package(tmp_path: Path) -> None:
    runs = make_runs(TINY, organization="../../Example Inc")
    source = make_set(tmp_path / "set", runs=runs)
    (source / "systems" / "example.json").write_text(json.dumps(make_system_desc(submitter="../../Example Inc")))
    error = refused([source], tmp_path / "deep" / "out", submitter="../../Example Inc")
    assert error.exit_code == ExitCode.USAGE


@pytest.mark.slow
def test_another_division_is_refused_where_one_is_asked_for(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    assert "--division asks for 'open'" in str(refused([source], tmp_path / "out", division="open"))
    assert package([source], tmp_path / "out", division="closed").verdict.outcome == "valid"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["broken rule", "too few runs", "not converged"])
def test_what_is_not_compliant_is_refused_unless_allowed(kind: str, tmp_path: Path) -> None:
    runs = make_runs(TINY)
    if kind == "broken rule":
        runs[2] = with_record(runs[2], "opt_adagrad_epsilon", value=1e-7)
    elif kind == "too few runs":
        runs = runs[:3]
    else:
        runs = make_runs(TINY, converged=False)
    source = make_set(tmp_path / "set", runs=runs)
    error = refused([source], tmp_path / "out")
    assert isinstance(error, NotCompliantError) and error.exit_code == ExitCode.COMPLIANCE
    assert error.verdicts[0].outcome != "valid" and "--allow-non-compliant" in str(error)
    made = package([source], tmp_path / "out", allow_non_compliant=True)
    assert made.verdict.outcome == "invalid"


def test_a_log_that_contradicts_the_record_of_its_run_is_refused(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    record = source / "extra" / "run_2" / "attempt_0" / "run.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(run_content(run_index=2, seed=4711, started_utc=None)))
    error = refused([source], tmp_path / "out")
    assert isinstance(error, NotCompliantError)
    assert [one.code for one in error.verdicts[0].findings if one.severity == "error"] == ["RS116"]


@pytest.mark.slow
def test_nothing_is_overwritten_nor_written_into_what_is_read(tmp_path: Path) -> None:
    source, output = make_set(tmp_path / "set"), tmp_path / "out"
    output.mkdir()
    package([source], output)
    before = digests(output)
    with pytest.raises(HarnessError, match="exists already"):
        package([source], output)
    assert digests(output) == before
    assert "which is only read" in str(refused([source], source / "results" / "out"))


def test_missing_pieces_are_named(tmp_path: Path) -> None:
    source = make_set(tmp_path / "set")
    (source / "systems" / "example.json").unlink()
    error = refused([source], tmp_path / "out")
    assert error.exit_code == ExitCode.INPUT and "systems/example.json is missing" in str(error)
    bare = write_set(tmp_path / "bare", TINY)
    flat = tmp_path / "flat"
    bare.rename(flat)
    assert "names no system" in str(refused([flat], tmp_path / "out"))
    (source / "systems" / "example.json").write_text("[" * 100_000)
    assert refused([source], tmp_path / "out").exit_code in (ExitCode.INPUT, ExitCode.COMPLIANCE)


@pytest.mark.parametrize(
    "change",
    [
        {"config": {}},
        {"num_runs": "many"},
        {"submission": []},
        {"environment": None},
        {"dataset": 5},
        {"config": {"runtime.implementation": {"value": "../../x", "source": "s"}}},
        {"config": {"runtime.implementation": {"value": "/a/$(x).py:load", "source": "s"}}},
    ],
)
def test_a_damaged_record_is_an_error_with_its_place(change: dict[str, Any], tmp_path: Path) -> None:
    error = refused([make_set(tmp_path / "set", **change)], tmp_path / "out")
    assert error.exit_code == ExitCode.INPUT and "extra/run_set.json" in str(error)


@pytest.mark.slow
def test_scripts_hold_hostile_records_as_text(tmp_path: Path) -> None:
    """The scripts are shell, so nothing that a record says may become a command of its own."""
    trap = tmp_path / "trap"
    evil = f"dlrmbench run 'x\ntouch {trap}\n' $(touch {trap}) `touch {trap}`"
    config = run_set_record()["config"] | {"runtime.device": {"value": f"cpu'; touch {trap}; '", "source": "s"}}
    environment = {"python": f"3.11\ntouch {trap}", "packages": {"torch": f"1\n-e {trap}", "numpy": "2.4.6"}}
    made = package(
        [make_set(tmp_path / "set", command=evil, config=config, environment=environment)],
        tmp_path / "out",
    )
    here = made.submission / "benchmarks" / "dlrm_tiny" / "example"
    assert (here / "requirements.txt").read_text().splitlines()[1:] == ["numpy==2.4.6"]
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "dlrmbench").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/heard\n')
    (tools / "dlrmbench").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(["bash", here / "run_and_time.sh", "-q"], check=True, cwd=tmp_path, env=environ)
    heard = (tmp_path / "heard").read_text().splitlines()
    assert not trap.exists()
    assert heard[:2] == ["run", str(here / "definition.toml")] and heard[-1] == "-q"
    assert heard[heard.index("--device") + 1] == f"cpu'; touch {trap}; '"


@pytest.mark.slow
def test_an_implementation_in_a_file_is_packed_with_its_file_where_that_is_what_ran(tmp_path: Path) -> None:
    plain = tmp_path / "mine.py"
    plain.write_text("def load(spec, world): ...\n")
    digest = hashlib.sha256(plain.read_bytes()).hexdigest()
    config = run_set_record()["config"] | {
        "runtime.implementation": {"value": f"{plain}:load@{digest}", "source": "option --implementation"}
    }
    source = make_set(tmp_path / "set", config=config)
    made = package([source], tmp_path / "out")
    inner = f"implementations/dlrmbench-mine-{digest[:12]}"
    here = made.submission / "benchmarks" / "dlrm_tiny"
    assert (here / inner / "own" / "mine.py").read_bytes() == plain.read_bytes()
    assert (here / inner / "harness" / "cli" / "__init__.py").is_file()
    script = (here / "example" / "run_and_time.sh").read_text()
    assert f'--implementation "$here"/../{inner}/own/mine.py:load ' in script
    plain.write_text("changed")
    again = package([source], tmp_path / "again")
    assert not (again.submission / "benchmarks" / "dlrm_tiny" / inner / "own").exists()
    (reason,) = (item.reason for item in again.left_out if item.place.startswith("mine.py:load@"))
    assert reason == f"{plain} has changed since the runs or is gone"


@pytest.mark.slow
def test_scripts_are_what_a_shell_reads_and_call_commands_that_exist(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from harness.cli import cli

    made = package([make_set(tmp_path / "set")], tmp_path / "out")
    scripts = sorted(made.submission.rglob("benchmarks/*/example/*.sh"))
    assert [path.name for path in scripts] == ["init_datasets.sh", "run_and_time.sh", "setup.sh"]
    for script in scripts:
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", script], check=True)
    options = CliRunner().invoke(cli, ["run", "--help"]).output
    text = scripts[1].read_text()
    for option in (
        "--config",
        "--runs",
        "--seed",
        "--division",
        "--threads",
        "--implementation",
        "--device",
        "--data",
    ):
        assert option in text and option in options


@pytest.mark.slow
def test_own_benchmarks_are_said_to_be_no_mlperf_results(tmp_path: Path) -> None:
    made = package([make_set(tmp_path / "set")], tmp_path / "out")
    assert "not MLPerf results" in (made.submission / "benchmarks/dlrm_tiny/example/README.md").read_text()


@pytest.mark.slow
def test_a_benchmark_of_the_users_own_is_judged_by_the_definition_beside_it(tmp_path: Path) -> None:
    tables = read_toml(TINY.path)
    tables["benchmark"]["name"] = "mine"
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(tables))
    made = package([make_set(tmp_path / "set", load_benchmark(path))], tmp_path / "out")
    assert made.verdict.outcome == "valid" and made.verdict.parts[0].benchmark == "mine"


def test_source_of_another_build_is_not_passed_off_as_the_runs(tmp_path: Path) -> None:
    made = package([make_set(tmp_path / "set", code_sha256="c" * 64)], tmp_path / "out")
    assert not (made.submission / "benchmarks/dlrm_tiny/implementations").exists()
    assert any("c" * 12 in item.reason for item in made.left_out)
    about = (made.submission / "benchmarks/dlrm_tiny/example/README.md").read_text()
    assert "c" * 64 in about and "Its source is not in this package" in about


def test_source_of_another_version_is_not_passed_off_as_the_runs(tmp_path: Path) -> None:
    made = package([make_set(tmp_path / "set", harness_version="0.0.9", code_sha256=None)], tmp_path / "out")
    assert not (made.submission / "benchmarks/dlrm_tiny/implementations").exists()
    assert any("0.0.9" in item.reason for item in made.left_out)
    assert "dlrmbench==0.0.9" in (made.submission / "benchmarks/dlrm_tiny/example/setup.sh").read_text()


def test_anyones_results_keep_their_own_code_and_power(tmp_path: Path) -> None:
    source = tmp_path / "theirs"
    write_set(source, DCNV2, ours=False)
    code = source / "benchmarks" / "dlrm_dcnv2" / "implementations" / "fast"
    code.mkdir(parents=True)
    (code / "train.py").write_text("print()\n")
    (code / "out").symlink_to("/etc/passwd")
    power = source / "results" / "example" / "dlrm_dcnv2" / "power" / "result_0"
    power.mkdir(parents=True)
    (power / "node_0.txt").write_text("x")
    made = package([source], tmp_path / "out", allow_non_compliant=True)
    names = set(digests(made.submission))
    assert "benchmarks/dlrm_dcnv2/implementations/fast/train.py" in names
    assert "results/example/dlrm_dcnv2/power/result_0/node_0.txt" in names
    assert not any(name.endswith("/out") for name in names)


@pytest.mark.slow
def test_killed_at_any_time_leaves_nothing_or_all(tmp_path: Path) -> None:
    source, output = make_set(tmp_path / "set"), tmp_path / "out"
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom harness.extensions.packaging import tree\n"
        "old, left = tree.Tree.add, [int(sys.argv[1])]\n"
        "def add(self, *arguments):\n"
        "    left[0] -= 1\n"
        "    os._exit(9) if left[0] < 0 else old(self, *arguments)\n"
        "tree.Tree.add = add\n"
        "from harness.extensions.packaging.build import PackageRequest, build_package\n"
        "build_package(PackageRequest(sources=(Path(sys.argv[2]),), submitter='Example', output=Path(sys.argv[3]),\n"
        "                             second_opinion=False))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "6", source, output], check=False)
    assert done.returncode == 9 and not output.exists()
    assert package([source], output).verdict.outcome == "valid"


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    assert isinstance(leaving.value.code, int)
    return leaving.value.code


@pytest.mark.slow
def test_exit_codes_and_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_set(tmp_path / "set")
    assert command("package", source, "--submitter", "Example", "-o", tmp_path / "out") == 0
    out, err = capsys.readouterr()
    assert "own code" not in err
    assert out.startswith("VALID") and "left out:" in out and "1 set" in out
    assert str(tmp_path / "out" / "Example") in out and ".dlrmbench-package" not in out
    assert command("package", source, "--submitter", "Example", "-o", tmp_path / "out") == 2
    assert command("package", tmp_path / "none", "--submitter", "Example", "-o", tmp_path / "new") == 8
    assert command("package", source, "-o", tmp_path / "new") == 2
    assert command("package", source, "--submitter", "Other", "-o", tmp_path / "new") == 2
    runs = [with_record(run, "implementation", value="mine.py:load@0123456789ab") for run in make_runs(TINY)]
    own = make_set(tmp_path / "own", runs=runs)
    assert command("package", own, "--submitter", "Example", "-o", tmp_path / "owned") == 0
    assert 'was trained by own code ("mine.py:load@0123456789ab")' in capsys.readouterr().err
    broken = make_set(tmp_path / "broken", runs=make_runs(TINY)[:2])
    capsys.readouterr()
    assert command("package", broken, "--submitter", "Example", "-o", tmp_path / "new") == 3
    out, err = capsys.readouterr()
    assert "INCOMPLETE" in out and "not packaged" in err
