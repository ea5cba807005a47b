"""The templates of CI jobs: their shell lines are run here, with measurements that take no time, in no container."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT
from waiting import HANG_S

GITHUB, GITLAB = ROOT / ".github" / "workflows" / "benchmark.yml", ROOT / ".gitlab-ci.yml"
GITHUB_TESTS = GITHUB.with_name("test.yml")
READ = re.findall(r"\$\{([A-Z_]+):-", (ROOT / ".ci" / "benchmark").read_text(encoding="utf-8"))
"""What the script reads: tests set it, nobody around them. `make test PYTHON=...` exports PYTHON."""
Job = Callable[..., "subprocess.CompletedProcess[str]"]

_PYTHON = """#!/bin/bash
# Stands in for `python3 -m venv DIR`: an environment whose pip notes what it installs.
set -e
mkdir -p "$3/bin"
printf '#!/bin/bash\\necho "$(basename "$(dirname "$(dirname "$0")")") $*" >>"$NOTES"\\n' >"$3/bin/pip"
printf '#!/bin/bash\\nexec "$REAL_PYTHON" "$STAND_IN" "$0" "$@"\\n' >"$3/bin/dlrmbench"
printf '#!/bin/bash\\necho "asked $0" >>"$NOTES"\\nexec "$REAL_PYTHON" "$@"\\n' >"$3/bin/python"
chmod +x "$3/bin/pip" "$3/bin/dlrmbench" "$3/bin/python"
"""
_DLRMBENCH = """
import os, sys
sys.path[:0] = [{root!r}, {builders!r}]
import pytest, sweep_builder
from harness.cli import main
answer = sweep_builder.throughput_answer
def slowed(spec, number):
    content = answer(spec, number)
    factor = float(os.environ["SLOWER"]) if "/new/" in spec["definition_path"] else 1.0
    for process in content["processes"]:
        process["duration_s"] *= factor
        process["samples_per_s"] /= factor
    return content
sweep_builder.throughput_answer = slowed
with pytest.MonkeyPatch.context() as patch:
    sweep_builder.use_fast_workers(patch, sweep_builder.FastWorkers())
    patch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    main(sys.argv[2:])
"""


def shell_lines(workflow: Path = GITHUB, job: str = "benchmark") -> list[str]:
    """Every line that a workflow, and a job of GitLab's, give to a shell."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    lines = [step["run"] for each in jobs.values() for step in each["steps"] if "run" in step]
    return lines + yaml.safe_load(GITLAB.read_text(encoding="utf-8"))[job]["script"]


@pytest.fixture
def job(tmp_path: Path, data_root: Path) -> Job:
    """Run shell lines in a repository of two commits; `notes` is what was installed where."""
    checkout = tmp_path / "checkout"
    (checkout / ".ci").mkdir(parents=True)
    (checkout / ".ci" / "benchmark").write_bytes((ROOT / ".ci" / "benchmark").read_bytes())
    (checkout / ".ci" / "benchmark").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(_PYTHON)
    (tmp_path / "bin" / "python3").chmod(0o755)
    (tmp_path / "stand_in.py").write_text(
        _DLRMBENCH.format(root=str(ROOT), builders=str(ROOT / "tests" / "builders"))
    )
    author = ("-c", "user.name=someone", "-c", "user.email=someone@example.com")
    for words in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    for message in ("base", "new"):
        arguments = ["git", *author, "commit", "-q", "--allow-empty", "-m", message]
        subprocess.run(arguments, cwd=checkout, check=True)

    def run(line: str, *, slower: float, **variables: str) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if name not in READ} | {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "REAL_PYTHON": sys.executable, "STAND_IN": str(tmp_path / "stand_in.py"), "SLOWER": str(slower),
            "NOTES": str(tmp_path / "notes"), "BASE": "HEAD~1", "BENCHMARK": "dlrm_tiny", "STEPS": "20",
            "DLRMBENCH_DATA": str(data_root), "AXIS": "train.global_batch_size=512", **variables,
        }  # fmt: skip
        return subprocess.run(
            ["bash", "-e", "-c", line],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    return run


@pytest.mark.slow
def test_no_expression_of_an_event_is_inside_a_shell_line() -> None:
    """Who names a branch would write the shell's commands; what an event says comes as a variable."""
    lines = shell_lines() + shell_lines(GITHUB_TESTS, "test")
    assert len(lines) == 4
    assert not any("${{" in line or "CI_" in line for line in lines), lines


def test_jobs_of_their_own_run_the_tests_and_measure_nothing() -> None:
    assert set(shell_lines(GITHUB_TESTS, "test")) == {".ci/run"}
    assert set(yaml.safe_load(GITLAB.read_text(encoding="utf-8"))) == {"test", "benchmark"}
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        assert not (".ci/run" in text and ".ci/benchmark" in text), workflow
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}, workflow


def test_the_jobs_read_only_and_keep_what_was_measured() -> None:
    github: Any = yaml.safe_load(GITHUB.read_text(encoding="utf-8"))
    assert github["permissions"] == {"contents": "read"}
    checkout, *_, upload = github["jobs"]["compare"]["steps"]
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert upload["if"] == "always()" and upload["with"]["path"] == "benchmark"
    gitlab: Any = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))["benchmark"]
    assert gitlab["artifacts"]["when"] == "always" and gitlab["artifacts"]["paths"] == ["benchmark"]


@pytest.mark.slow
@pytest.mark.parametrize("line", sorted(set(shell_lines())))
def test_a_slower_commit_fails_the_job_and_both_are_installed_apart(line: str, job: Job, tmp_path: Path) -> None:
    summary, values = tmp_path / "summary", ("512", "1024")
    axis = f"train.global_batch_size={','.join(values)}"
    done = job(line, slower=1.2, GITHUB_STEP_SUMMARY=str(summary), AXIS=axis)
    assert done.returncode == 5, done.stderr
    made = tmp_path / "checkout" / "benchmark"
    assert summary.read_text() == (made / "summary.md").read_text()
    assert summary.read_text().count("1.20x slower") == len(values) and "| throughput |" in summary.read_text()
    assert (made / "report.html").is_file()
    notes = [words.split() for words in (tmp_path / "notes").read_text().splitlines()]
    asked = [words[1].split("/")[-3] for words in notes if words[0] == "asked"]
    assert asked and set(asked) == {"base"}, "the base side is the other environment's, and the new one this one's"
    installed = [words for words in notes if words[0] != "asked"]
    assert [(words[0], words[-1].rpartition("/")[2]) for words in installed if "--index-url" not in words] == [
        ("base", "source"),
        ("new", "checkout"),
    ]
    worktrees = subprocess.run(["git", "worktree", "list"], cwd=made, capture_output=True, text=True, check=True)
    assert len(worktrees.stdout.splitlines()) == 1


@pytest.mark.slow
def test_a_commit_that_is_as_fast_passes(job: Job, tmp_path: Path) -> None:
    done = job(shell_lines()[0], slower=1.001)
    assert done.returncode == 0, done.stderr
    assert "### global_batch_size-512" in done.stdout and "REGRESSION" not in done.stdout


def test_a_base_that_is_no_commit_is_an_error_and_nothing_is_measured(job: Job, tmp_path: Path) -> None:
    done = job(shell_lines()[0], slower=1.0, BASE="nowhere; touch trap")
    assert done.returncode not in (0, 5)
    assert not (tmp_path / "notes").exists() and not (tmp_path / "checkout" / "trap").exists()
