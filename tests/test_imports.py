"""What the commands import, read from sys.modules: nothing that they do not use."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_workload import ScriptedWorkload, run_scripted
from waiting import HANG_S

from harness.cli import COMMANDS
from rules.benchmarks.loader import load_benchmark

HEAVY = {"torch", "pandas", "scipy", "numpy"}


def modules_after(folder: Path, *arguments: str) -> tuple[set[str], str]:
    """Top-level modules that one command has loaded when it leaves, and what it printed."""
    loaded, printed = all_modules_after(folder, *arguments)
    return {name.partition(".")[0] for name in loaded}, printed


def all_modules_after(folder: Path, *arguments: str) -> tuple[set[str], str]:
    """All modules that one command has loaded when it leaves, and what it printed."""
    code = (
        "import sys\nfrom harness.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    print('MODULES', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 3), done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "MODULES"
    return set(last[1:]), done.stdout


def write_results(folder: Path, first_seed: int) -> Path:
    """Five logs of dlrm_tiny that meet their target."""
    folder.mkdir(parents=True)
    benchmark = load_benchmark("dlrm_tiny")
    data = benchmark.sections["data"]
    for i in range(5):
        workload = ScriptedWorkload(
            benchmark,
            [0.6, 0.7, benchmark.quality.target],
            global_batch_size=benchmark.sections["train"]["global_batch_size"],
            train_samples=data["train_samples"],
            eval_samples=data["eval_samples"],
        )
        run_scripted(folder / f"result_{i}.txt", workload, run_index=i, seed=first_seed + i)
    return folder


@pytest.fixture(scope="module")
def result_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/<system>/dlrm_tiny with five logs that meet their target."""
    return write_results(tmp_path_factory.mktemp("set") / "results" / "system" / "dlrm_tiny", 100)


@pytest.fixture(scope="module")
def two_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like `result_dir`, with another five logs in ../again."""
    folder = tmp_path_factory.mktemp("two") / "results" / "system" / "dlrm_tiny"
    write_results(folder.parent / "again", 200)
    return write_results(folder, 100)


@pytest.mark.parametrize("arguments", [("--help",), (), ("--version",), ("list",)])
def test_help_and_list_import_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert modules_after(tmp_path, *arguments)[0] & HEAVY == set()


def test_help_imports_little(tmp_path: Path) -> None:
    loaded = modules_after(tmp_path, "--help")[0]
    assert loaded & {"reports", "msgspec", "jinja2", "mlperf_logging", "psutil", "email"} == set()
    assert "click" in loaded


def test_checking_one_log_imports_nothing_heavy(result_dir: Path) -> None:
    loaded, printed = modules_after(result_dir, "check", "result_0.txt")
    assert loaded & HEAVY == set()
    assert "result_0.txt" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "."), ("score", "."), ("report", ".", "-o", "report.html"), ("show", "dlrm_small"), ("system",),
        ("doctor",), ("list", "--format", "json"),
    ],
)  # fmt: skip
def test_verbs_that_train_nothing_never_import_torch(result_dir: Path, arguments: tuple[str, ...]) -> None:
    assert "torch" not in modules_after(result_dir, *arguments)[0]


MAKES_FRAMES, MAKES_PAGES = {"pandas", "pyarrow"}, {"jinja2"}


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (("check", ".", "--no-second-opinion"), MAKES_FRAMES | MAKES_PAGES),
        (("score", "."), MAKES_FRAMES | MAKES_PAGES),
        (("score", ".", "--format", "json"), MAKES_FRAMES | MAKES_PAGES),
        (("score", ".", "--format", "csv"), MAKES_FRAMES | MAKES_PAGES),
        (("report", ".", "--no-second-opinion", "-o", "report.html"), MAKES_FRAMES),
        (("report", ".", "--no-second-opinion", "--format", "json"), MAKES_FRAMES),
        (("report", ".", "--no-second-opinion", "--format", "md"), MAKES_FRAMES),
        (("compare", ".", "../again"), MAKES_FRAMES | MAKES_PAGES),
        (("compare", ".", "../again", "--format", "json"), MAKES_FRAMES | MAKES_PAGES),
        (("diff", ".", "../again"), MAKES_FRAMES | MAKES_PAGES | {"scipy"}),
        (("history", "."), MAKES_FRAMES | MAKES_PAGES),
        (("show", "dlrm_small"), HEAVY | MAKES_PAGES),
        (("schema",), MAKES_FRAMES | MAKES_PAGES),
        (("schema", "run_set"), HEAVY | MAKES_PAGES),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_verbs_import_nothing_that_they_do_not_use(
    two_results: Path, arguments: tuple[str, ...], unused: set[str]
) -> None:
    loaded = modules_after(two_results, *arguments)[0]
    assert loaded & ({"torch"} | unused) == set()


RUNS_THINGS = {"harness.cli.serve", "harness.cli.shared.experiments", "harness.experiment.request"}
SHOWS_NO_STATISTICS = {*RUNS_THINGS, "scipy"}
"""Of two runs no interval is shown and no convergence tested."""


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (("report", "five", "-o", "page.html"), RUNS_THINGS),
        (("report", "two", "--format", "json"), SHOWS_NO_STATISTICS),
        (("compare", "two", "again"), RUNS_THINGS),
        (("check", "two"), {*SHOWS_NO_STATISTICS, "numpy"}),
        (("history", "."), RUNS_THINGS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_results_are_shown_without_what_makes_them_or_statistics_that_they_lack(
    two_results: Path, tmp_path: Path, arguments: tuple[str, ...], unused: set[str]
) -> None:
    folder = tmp_path / "results" / "system"
    for name, logs, num in (
        ("five", two_results, 5), ("two", two_results, 2), ("again", two_results.parent / "again", 2),
    ):  # fmt: skip
        (folder / name).mkdir(parents=True)
        for i in range(num):
            shutil.copyfile(logs / f"result_{i}.txt", folder / name / f"result_{i}.txt")
    assert all_modules_after(folder, *arguments)[0] & unused == set()


def test_nothing_is_looked_through_when_a_command_ends(tmp_path: Path) -> None:
    """What is registered before the command is asked after what the command registers."""
    code = (
        "import atexit, gc\natexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "from harness.cli import main\nmain(['--version'])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    "arguments", [("report", ".", "--format", "csv"), ("compare", ".", "../again", "--format", "csv")]
)
def test_frames_are_made_where_they_are_asked_for(two_results: Path, arguments: tuple[str, ...]) -> None:
    assert "pandas" in modules_after(two_results, *arguments, "--format", "csv")[0]


@pytest.fixture(scope="module")
def torch_after_help(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Whether one process has loaded torch after the help of each verb, one after another."""
    code = (
        "import contextlib, io, json, sys\nfrom harness.cli import main\nfound = {}\n"
        "for verb in sys.argv[1:]:\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:\n"
        "        main([verb, '--help'])\n"
        "    assert 'Usage: dlrmbench ' + verb in said.getvalue(), said.getvalue()\n"
        "    found[verb] = 'torch' in sys.modules\n"
        "print(json.dumps(found))\n"
    )
    command = [sys.executable, "-c", code, *sorted(COMMANDS)]
    folder = tmp_path_factory.mktemp("help")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, bool] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_help_of_every_verb_imports_no_torch(torch_after_help: dict[str, bool], verb: str) -> None:
    assert torch_after_help[verb] is False
