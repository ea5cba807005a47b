"""What the commands import, read from sys.modules: nothing that they do not use."""

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from scripted_workload import ScriptedWorkload, run_scripted
from waiting import HANG_S

from harness.cli import COMMANDS
from rules.benchmarks.loader import load_benchmark

HEAVY = {"torch", "pandas", "scipy", "numpy"}


_AFTER_EACH = """
import contextlib, io, json, sys
from harness.cli import main
answers = []
for arguments in json.load(sys.stdin):
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(said):
        try:
            main(arguments)
        except SystemExit as leaving:
            code = leaving.code
    answers.append([code, sorted(sys.modules), said.buffer.getvalue().decode()])
print(json.dumps(answers))
"""
Arguments = tuple[str, ...]
Loaded = dict[Arguments, tuple[set[str], str]]


def modules_after(folder: Path, *commands: Arguments) -> Loaded:
    """All modules that one fresh process has loaded after each command, one after another, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", _AFTER_EACH],
        input=json.dumps(commands),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    answers = json.loads(done.stdout)
    assert {code for code, _, _ in answers} <= {0, 3}, done.stderr
    return {each: (set(loaded), said) for each, (_, loaded, said) in zip(commands, answers, strict=True)}


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
def two_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/<system>/dlrm_tiny with five logs that meet their target, with another five in ../again."""
    folder = tmp_path_factory.mktemp("two") / "results" / "system" / "dlrm_tiny"
    write_results(folder.parent / "again", 200)
    return write_results(folder, 100)


MAKES_FRAMES, MAKES_PAGES = {"pandas", "pyarrow"}, {"jinja2"}
UNUSED: dict[Arguments, set[str]] = {
    ("--help",): HEAVY | MAKES_FRAMES | MAKES_PAGES | {"reports", "msgspec", "mlperf_logging", "psutil", "email"},
    (): HEAVY | MAKES_FRAMES | MAKES_PAGES,
    ("--version",): HEAVY | MAKES_FRAMES | MAKES_PAGES,
    ("list",): HEAVY | MAKES_FRAMES | MAKES_PAGES,
    ("check", "result_0.txt"): HEAVY | MAKES_FRAMES | MAKES_PAGES,
    ("show", "dlrm_small"): HEAVY | MAKES_FRAMES | MAKES_PAGES,
    ("schema", "run_set"): HEAVY | MAKES_FRAMES | MAKES_PAGES,
    ("diff", ".", "../again"): MAKES_FRAMES | MAKES_PAGES | {"scipy"},
    ("check", ".", "--no-second-opinion"): MAKES_FRAMES | MAKES_PAGES,
    ("score", "."): MAKES_FRAMES | MAKES_PAGES,
    ("score", ".", "--format", "json"): MAKES_FRAMES | MAKES_PAGES,
    ("score", ".", "--format", "csv"): MAKES_FRAMES | MAKES_PAGES,
    ("compare", ".", "../again"): MAKES_FRAMES | MAKES_PAGES,
    ("compare", ".", "../again", "--format", "json"): MAKES_FRAMES | MAKES_PAGES,
    ("history", "."): MAKES_FRAMES | MAKES_PAGES,
    ("schema",): MAKES_FRAMES | MAKES_PAGES,
    ("report", ".", "--no-second-opinion", "-o", "report.html"): MAKES_FRAMES,
    ("report", ".", "--no-second-opinion", "--format", "json"): MAKES_FRAMES,
    ("report", ".", "--no-second-opinion", "--format", "md"): MAKES_FRAMES,
    ("check", "."): set(),
    ("report", ".", "-o", "report.html"): set(),
    ("system",): set(),
    ("doctor",): set(),
    ("list", "--format", "json"): set(),
    **{(verb, "--help"): set() for verb in sorted(COMMANDS)},
}
"""What a command never imports besides torch, from those that import least on: one process answers for all, in which
a module is also of every command after the one that loaded it."""


@pytest.fixture(scope="module")
def loaded(two_results: Path) -> Loaded:
    return modules_after(two_results, *UNUSED)


@pytest.mark.once("what each command imports")
@pytest.mark.parametrize("arguments", [each for each in UNUSED if each[1:] != ("--help",)], ids=" ".join)
def test_verbs_import_nothing_that_they_do_not_use(loaded: Loaded, arguments: Arguments) -> None:
    assert loaded[arguments][0] & ({"torch", "rich"} | UNUSED[arguments]) == set()


def test_no_command_is_asked_after_one_that_may_import_what_it_may_not() -> None:
    unused = [{"torch"} | modules for modules in UNUSED.values()]
    assert all(after <= before for before, after in pairwise(unused))


@pytest.mark.once("what each command imports")
def test_what_is_looked_for_is_what_the_commands_did(loaded: Loaded) -> None:
    assert "click" in loaded[("--help",)][0]
    assert "result_0.txt" in loaded[("check", "result_0.txt")][1]
    assert "jinja2" in loaded[("report", ".", "--no-second-opinion", "-o", "report.html")][0]


RUNS_THINGS = {"harness.cli.shared.experiments", "harness.experiment.request"}
SHOWS_NO_STATISTICS = {*RUNS_THINGS, "scipy"}
"""Of two runs no interval is shown and no convergence tested."""


@pytest.mark.slow
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
        ("five", two_results, 5),
        ("two", two_results, 2),
        ("again", two_results.parent / "again", 2),
    ):
        (folder / name).mkdir(parents=True)
        for i in range(num):
            shutil.copyfile(logs / f"result_{i}.txt", folder / name / f"result_{i}.txt")
    assert modules_after(folder, arguments)[arguments][0] & unused == set()


def test_nothing_is_looked_through_when_a_command_ends(tmp_path: Path) -> None:
    """What is registered before the command is asked after what the command registers."""
    code = (
        "import atexit, gc\natexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "from harness.cli import main\nmain(['--version'])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout.splitlines()[-1] == "True"


def test_a_command_that_loaded_triton_ends_before_its_bindings_list_what_they_leak(tmp_path: Path) -> None:
    """As they do it, when Python has been taken down; what is registered for the end is done all the same."""
    code = (
        "import atexit, ctypes, resource, sys, types\nfrom harness.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "assert ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).abort) == 0\natexit.register(print, 'registered')\n"
        "sys.modules[sys.argv[2]] = types.ModuleType(sys.argv[2])\nsys.argv = ['dlrmbench', sys.argv[1]]\nmain()\n"
    )
    for verb, module, expected in (
        ("--version", "triton", 0),
        ("--nothing", "triton", 2),
        ("--version", "other", -6),
    ):
        command = [sys.executable, "-c", code, verb, module]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == expected and done.stdout.splitlines()[-1] == "registered", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("report", "."), ("compare", ".", "../again")])
def test_frames_are_made_where_they_are_asked_for(two_results: Path, arguments: Arguments) -> None:
    asked = (*arguments, "--format", "csv")
    assert "pandas" in modules_after(two_results, asked)[asked][0]


@pytest.mark.once("what help imports")
@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_help_of_every_verb_is_that_of_the_verb_and_imports_no_torch(loaded: Loaded, verb: str) -> None:
    modules, said = loaded[(verb, "--help")]
    assert not {"torch", "rich"} & modules and f"Usage: dlrmbench {verb}" in said
