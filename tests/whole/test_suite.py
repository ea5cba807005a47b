"""The tests themselves: every process collects the same, and `make test` has some of each file, verb and kind."""

import ast
import os
import re
import subprocess
import sys
from functools import cache

import pytest
from examples import examples
from hypothesis import settings
from mutated_inputs import NUM_CASES, all_families
from places import ROOT, TESTS
from tiers import NOT_IN_MAKE_TEST, QUICK_FILES
from waiting import HANG_S

from harness.cli import COMMANDS
from rules.records.kinds import PLACES

WITHOUT_QUICK_TESTS = {
    "test_torchrec": "two ranks train for half a minute; test_ranks starts two",
    "test_place_by_torchrec": "TorchRec is imported for ten seconds",
    "test_serve_alone": "what is served has to be trained; test_serve_accuracy serves",
    "test_browser": "Chromium starts in five seconds; other tests read the pages as text",
    "test_axe": "as test_browser",
    "test_hostile_sets": "sets are damaged one after another; test_hostile reads hostile trees",
    "test_optimized_convergence": "two models train to a target; test_optimized compares their steps",
    "test_core_alone": "the core's tests are run once more, without extensions",
    "test_ml1m": "real clicks are outside the checkout",
}
"""Why all of a file's tests are slow, and what stands for it in `make test`."""
STARTS_A_COMMAND = {"dlrmbench", "inside", "command", "call", "run_inside", "start", "invoke", "main"}
"""Names of the functions to which tests give the words of a command line."""


def marks_of(function: ast.FunctionDef, module: ast.Module) -> dict[str, str]:
    """The marks of a test and of its module, each with the first thing that it says."""
    found: dict[str, str] = {}
    of_module = [
        value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for value in (node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value])
    ]
    for mark in [*function.decorator_list, *of_module]:
        arguments = mark.args if isinstance(mark, ast.Call) else []
        name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
        if name.startswith("pytest.mark."):
            found[name.removeprefix("pytest.mark.")] = ast.unparse(arguments[0]) if arguments else ""
    return found


@cache
def find_functions_of_make_test() -> dict[ast.FunctionDef, dict[str, str]]:
    """Every test function that `make test` runs, with its marks, and what else stands in a file with such a test.

    Of a test whose cases are marked, all cases count.
    """
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
        marked = {function: marks_of(function, module) for function in functions}
        run = {function: marks for function, marks in marked.items() if not marks.keys() & set(NOT_IN_MAKE_TEST)}
        if any(function.name.startswith("test_") for function in run):
            found |= run
    return found


def verbs_started(function: ast.FunctionDef) -> set[str]:
    """The first words of the command lines that a function starts, where they are written there."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in STARTS_A_COMMAND:
            first = [word for argument in node.args[:2] for word in getattr(argument, "elts", [argument])][:2]
            found |= {word.value for word in first if isinstance(word, ast.Constant)}
    return found


def collect(hash_seed: int) -> list[str]:
    """Node ids in the order in which a fresh process collects them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if line.startswith("tests/")]


@pytest.mark.long
def test_the_same_tests_are_collected_at_another_time_and_with_another_hash_seed() -> None:
    """One collection takes longer than a second, so the clock has gone on before the next."""
    first = collect(1)
    assert len(first) > 1000
    assert first == collect(2)


def test_examples_are_drawn_anew_only_where_that_was_asked_for(request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--hypothesis-profile")
    assert settings().derandomize == (asked != "random")


def test_the_profile_says_how_many_examples_are_drawn(request: pytest.FixtureRequest) -> None:
    """Of what a test asks for, the share that a test draws which asks for no number."""
    is_quick = request.config.getoption("--hypothesis-profile") == "quick"
    assert settings().max_examples == examples(100) == (10 if is_quick else 100)
    assert [examples(num) for num in (2, 40, 200)] == ([2, 5, 20] if is_quick else [2, 40, 200])


def test_no_test_asks_for_a_number_of_examples_whatever_the_profile() -> None:
    files = sorted(TESTS.rglob("*.py"))
    fixed = [path.name for path in files if re.search(r"max_examples=\d", path.read_text("utf-8"))]
    assert fixed == ["conftest.py"]


def test_make_test_has_a_test_of_each_file(request: pytest.FixtureRequest) -> None:
    """Of all that has tests of the ordinary tiers, where all is collected."""
    files = {path.stem for path, has_quick in request.config.stash[QUICK_FILES].items() if not has_quick}
    assert files - set(WITHOUT_QUICK_TESTS) == set()


@pytest.mark.slow
def test_make_test_runs_each_verb_and_measures_each_kind_by_real_processes() -> None:
    found = find_functions_of_make_test()
    started = {verb for function in found for verb in verbs_started(function)}
    assert set(COMMANDS) - started == set()
    said = {function.name: marks["once"] for function, marks in found.items() if "once" in marks}
    assert [name for name, what in said.items() if not what] == []
    assert [kind for kind in PLACES if f"kind {kind}" not in " ".join(said.values())] == []


def test_make_test_all_reads_more_than_4000_mutated_inputs() -> None:
    assert NUM_CASES * sum(family.share for family in all_families().values()) > 4_000
