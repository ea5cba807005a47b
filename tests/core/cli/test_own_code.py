"""What runs is the code that was started: no file of the current folder, and every record says which code it was."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from past_sets import past_sets
from places import ROOT
from ranks_builder import needs_torchrec, started_world
from records_builder import run_set_content
from report_builder import write_report
from run_record_cases import write_recorded
from waiting import HANG_S

from harness.config.run_config import Override
from harness.experiment.create import create
from harness.experiment.expand import expand
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.planning.sweep import measure_start_s
from harness.run_sets.folder import open_run_set
from harness.system.code import PACKAGES, code_sha256, describe_commit, safe_path_variables
from reports.comparison.comparability import list_changes
from reports.comparison.difference import describe
from reports.results.logs import gather

OWN_FILES = ("rules.py", "numpy.py", "torch.py", "json.py", "signal.py", "mlperf_logging.py", "harness/__init__.py")
"""Of a user, each of which ends a process that imports it, by a code that is none of ours."""
FEW_LAYERS = ("--set", "model.bottom_mlp=[16]", "--set", "model.top_mlp=[1]")
"""So that few shapes of products have ceilings to measure."""


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    for name in OWN_FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("import os\nos._exit(77)\n")
    return folder


def installed(folder: Path, *arguments: object, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The command as it is installed, in a folder."""
    command = [Path(sys.executable).with_name("dlrmbench"), *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def records(folder: Path, pattern: str) -> Iterator[dict[str, object]]:
    for path in folder.glob(f"out/dlrm_tiny*/extra/{pattern}"):
        yield json.loads(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "exit_code", "pattern"),
    [
        (["run", "-n", 1, "--timeout", 0.001], 124, "run_0/attempt_0/run.json"),
        (["run", "--throughput", 1], 0, "throughput.json"),
        pytest.param(["run", "--quality", 512], 0, "quality.json", marks=pytest.mark.long),
        pytest.param(["profile", "--steps", 1, *FEW_LAYERS], 0, "profile.json", marks=pytest.mark.long),
        pytest.param(
            ["run", "--throughput", 1, "--implementation", "torchrec", "--ranks", 2],
            0,
            "throughput.json",
            marks=[needs_torchrec, pytest.mark.long],
        ),
        pytest.param(
            ["run", "-n", 1, "--timeout", 0.001, "--implementation", "torchrec", "--ranks", 2],
            124,
            "run_0/attempt_0/run.json",
            marks=[needs_torchrec, pytest.mark.long],
        ),
    ],
)
def test_files_of_the_current_folder_change_nothing_and_none_is_left_in_the_one_of_temporary_files(
    arguments: list[object], exit_code: int, pattern: str, own_folder: Path, data_root: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    verb, *options = arguments
    given = (*options, "--data", data_root, "--threads", 1, "-q", "-o", "out")
    done = installed(own_folder, verb, "dlrm_tiny", *given, TMPDIR=str(scratch))
    assert done.returncode == exit_code, done.stderr
    assert list(scratch.iterdir()) == []
    (record,) = records(own_folder, pattern)
    assert record["code"] == {"sha256": code_sha256(), **describe_commit()}
    (run_set,) = records(own_folder, "run_set.json")
    assert run_set["code_sha256"] == code_sha256()


@pytest.mark.slow
def test_python_m_harness_reads_nothing_of_the_current_folder_either(own_folder: Path) -> None:
    shutil.rmtree(own_folder / "harness")  # which would be what -m names
    done = subprocess.run(
        [sys.executable, "-m", "harness", "list"], cwd=own_folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "dlrm_small" in done.stdout, done.stderr


def copy_product(folder: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def digest_of(tree: Path, code: str = "from harness.system.code import code_sha256; print(code_sha256())") -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tree.parent,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.mark.slow
def test_the_digest_is_of_the_files_alone(tmp_path: Path) -> None:
    tree = copy_product(tmp_path / "tree")
    assert digest_of(tree) == digest_of(copy_product(tmp_path / "elsewhere"))
    before = digest_of(tree)
    (tree / "harness" / "commit.json").write_text('{"commit": "%s", "commit_is_dirty": false}' % ("a" * 40))
    assert digest_of(tree) == before
    (tree / "reports" / "reference_systems" / "box").mkdir(parents=True)
    (tree / "reports" / "reference_systems" / "box" / "run_set.json").write_text("{}")
    assert digest_of(tree) == before, "which results are shipped changes no code"
    changed = tree / "reports" / "text" / "formatting.py"
    changed.write_text(changed.read_text() + "\n")
    assert digest_of(tree) != before
    shutil.move(changed, changed.with_name("renamed.py"))
    assert len({before, digest_of(tree), digest_of(tmp_path / "elsewhere")}) == 2


@pytest.mark.slow
def test_a_checkout_that_runs_itself_has_children_of_its_own_code(tmp_path: Path) -> None:
    tree = copy_product(tmp_path / "checkout")
    code = "from harness.system.code import safe_path_variables as s; print(s().get('PYTHONPATH', '').split(':')[0])"
    command = [sys.executable, "-c", code]
    here = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()
    assert here == str(tree)
    assert digest_of(tree, code) != str(tree) or os.environ.get("PYTHONPATH")
    assert safe_path_variables()["PYTHONSAFEPATH"] == "1"


@pytest.mark.slow
def test_a_build_is_stamped_with_its_commit(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    for name in ("pyproject.toml", "README.md", "LICENSE", "harness/foundation/build_stamp.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "harness" / "__init__.py").write_text("")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    build = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "build_py", "--build-lib", "built"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    assert not (tmp_path / "built" / "harness" / "commit.json").exists()
    for command in (["init", "-q"], ["add", "harness"], ["commit", "-q", "-m", "One"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert describe_commit(tmp_path / "built" / "harness") == {"commit": commit, "commit_is_dirty": False}
    assert describe_commit(tmp_path) == {"commit": None, "commit_is_dirty": None}


@pytest.fixture
def begun(tmp_path: Path, data_root: Path) -> Path:
    """A set of runs of two ranks that other code than this began."""
    given = {"runtime.implementation": "torchrec", "runtime.threads": 1, "runtime.ranks": 2}
    overrides = [Override(key=key, value=value, source="test") for key, value in given.items()]
    request = Request(
        benchmark="dlrm_tiny", overrides=overrides, runs=1, seed=3, data=data_root, output=tmp_path, quiet=True
    )
    folder = create(prepare(expand(request))).resolve()
    path = folder / "extra" / "run_set.json"
    path.write_text(path.read_text().replace(code_sha256(), "f" * 64))
    return folder


@pytest.mark.slow
@needs_torchrec
def test_a_rank_refuses_a_set_of_other_code(begun: Path, tmp_path: Path, data_root: Path) -> None:
    command = ["run", "dlrm_tiny", "--data", data_root, "--implementation", "torchrec", "--threads", 1,
               "-n", 1, "--run-index", 0, "-o", begun, "--seed", 3]  # fmt: skip
    with started_world([command, command], tmp_path) as world:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in world]
    assert [process.returncode for process in world] == [2, 2], outputs
    assert all("was begun by other code (digest ffffffffffff" in output for output in outputs)
    assert not (begun / "extra" / "run_0").exists()


def test_other_code_is_listed_of_past_sets_and_warned_of_by_resume(
    begun: Path, tmp_path: Path, inside: Command
) -> None:
    assert [past["code"] for past in past_sets(tmp_path)] == ["f" * 12]
    path = begun / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["system"]["name"] = "elsewhere"
    path.write_text(json.dumps(content))
    done = inside("resume", begun)
    assert done.returncode == 2 and "was begun by other code" in done.stderr  # and then, on another system
    path.write_text(json.dumps(content | {"code_sha256": None}))
    assert open_run_set(begun)[1].code_sha256 is None
    assert "other code" not in inside("resume", begun).stderr


def test_other_code_is_a_difference_and_on_the_page(tmp_path: Path) -> None:
    for name in ("a", "b"):
        root = write_recorded(
            tmp_path / name, code={"sha256": name * 64, "commit": name * 40, "commit_is_dirty": True}
        )
        content = run_set_content(
            code_sha256=name * 64, environment={"commit": name * 40, "commit_is_dirty": True}, base_seed=ord(name)
        )
        (root / "extra" / "run_set.json").write_text(json.dumps(content))
        assert describe(root).settings["software"]["code"].value == name * 64
    base, new = gather([tmp_path / "a", tmp_path / "b"], second_opinion=False)
    changes = {change.name: (change.base, change.new) for change in list_changes(base, new)}
    assert changes["code"] == ("a" * 12, "b" * 12)
    path = tmp_path / "a" / "extra" / "run_0" / "attempt_1" / "run.json"
    assert "different versions of the code" not in write_report([tmp_path / "a"], tmp_path / "page.html").read_text()
    path.write_text(
        json.dumps(
            json.loads(path.read_text()) | {"code": {"sha256": "d" * 64, "commit": None, "commit_is_dirty": None}}
        )
    )
    page = write_report([tmp_path / "a"], tmp_path / "page.html").read_text()
    assert "a" * 64 in page and f"{'a' * 12}+" in page
    assert f"The runs were made by 2 different versions of the code ({'d' * 12}, {'a' * 12})." in page


def test_pools_of_processes_read_nothing_of_the_current_folder(own_folder: Path, tmp_path: Path) -> None:
    """Also those of a program that is not the command line, whose environment says nothing of it."""
    script = tmp_path / "pool.py"
    script.write_text(
        "from rules.judge.parallel import map_in_order\n"
        "if __name__ == '__main__':\n"
        "    print(list(map_in_order(abs, [-1, -2, -3], 2, preload=['rules.judge.checker'])))\n"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=own_folder, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[1, 2, 3]\n"), done.stderr


@pytest.mark.slow
def test_what_times_the_start_of_a_process_reads_nothing_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("open('imported', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert measure_start_s() > 0 and not (tmp_path / "imported").exists()
