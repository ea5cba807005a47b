"""Fuzzing from seeds: no input makes the rules fail, hang, take memory without bound or print control characters.

10,000 inputs each time; a million in the long tests, in chunks that spread over the cores. What was found once is
in test_rules_fuzz_found.py. A failure names its seed: `Random(seed)` makes the input again.
"""

import shutil
from pathlib import Path
from random import Random

import pytest
from fuzz_inputs import LOGS, mutate_system, write_tree
from fuzz_oracles import (
    bounded,
    bounded_memory,
    judge_log_bytes,
    judge_log_file,
    judge_system_bytes,
    judge_tree,
)

FILE_EVERY = 250
"""Every so many logs one goes through a file and to all forms of output."""
LONG_CHUNKS = 40


def fuzz_logs(kind: str, seeds: range, folder: Path) -> None:
    with bounded_memory():
        for seed in seeds:
            data = LOGS[kind](Random(f"{kind} {seed}"))
            try:
                with bounded():
                    judge_log_bytes(data, seed)
                if seed % FILE_EVERY == 0:
                    judge_log_file(data, folder)
            except Exception as error:
                raise AssertionError(f"Random('{kind} {seed}') made {data[:2000]!r}") from error


def fuzz_systems(seeds: range, folder: Path) -> None:
    with bounded_memory():
        for seed in seeds:
            data = mutate_system(Random(f"system {seed}"))
            try:
                with bounded():
                    judge_system_bytes(data, folder)
            except Exception as error:
                raise AssertionError(f"Random('system {seed}') made {data[:2000]!r}") from error


def fuzz_trees(seeds: range, folder: Path) -> None:
    with bounded_memory():
        for seed in seeds:
            root = folder / f"tree_{seed}" / "Example"
            write_tree(Random(f"tree {seed}"), root)
            try:
                with bounded():
                    judge_tree(root)
            except Exception as error:
                raise AssertionError(f"Random('tree {seed}') made the tree") from error
            shutil.rmtree(root.parent)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOGS)
def test_some_mutated_logs_are_judged(kind: str, tmp_path: Path) -> None:
    fuzz_logs(kind, range(2600), tmp_path)


def test_some_mutated_system_descriptions_are_read(tmp_path: Path) -> None:
    fuzz_systems(range(1500), tmp_path)


@pytest.mark.slow
def test_some_mutated_trees_are_judged(tmp_path: Path) -> None:
    fuzz_trees(range(60), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
@pytest.mark.parametrize("kind", LOGS)
def test_many_mutated_logs_are_judged(kind: str, chunk: int, tmp_path: Path) -> None:
    first = 10_000 + chunk * 7400
    fuzz_logs(kind, range(first, first + 7400), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_many_mutated_system_descriptions_are_read(chunk: int, tmp_path: Path) -> None:
    first = 10_000 + chunk * 2800
    fuzz_systems(range(first, first + 2800), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_many_mutated_trees_are_judged(chunk: int, tmp_path: Path) -> None:
    first = 10_000 + chunk * 75
    fuzz_trees(range(first, first + 75), tmp_path)
