"""Inputs of every kind, mutated: no traceback, no internal error, within bounds of time and memory.

More than 4,000 in `make test-all`. A failure names its case: `Random(f"{family} {seed}")` makes it again.
"""

from pathlib import Path
from random import Random

import pytest
from bounded_command import TooSlowError, bounded, bounded_memory
from hostile_folders import MAX_CPU_S
from mutated_inputs import NUM_CASES, all_families, make_base, make_case
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers

from harness.foundation.errors import ExitCode

FAMILIES = all_families()
DOCUMENTED = set(ExitCode) - {ExitCode.INTERNAL_ERROR}


def read_mutated(name: str, seeds: range, data_root: Path, folder: Path) -> None:
    base = make_base(FAMILIES[name], data_root, folder / "base")
    for seed in seeds:
        words, done = make_case(FAMILIES[name], base, Random(f"{name} {seed}"), folder / "here")
        case = f"Random('{name} {seed}'): {words} after {done}"
        try:
            with bounded(MAX_CPU_S), bounded_memory():
                ended = run_scripted_command(words, folder / "here", ScriptedWorkers(Moment(3600), num_evals=1))
        except (Exception, TooSlowError) as error:
            raise AssertionError(case) from error
        assert ended.code in DOCUMENTED and "Traceback" not in ended.err and "internal error" not in ended.err, (
            f"{case}: {ended.code}: {ended.err}"
        )


@pytest.mark.parametrize("name", ["set", "own clicks.jsonl"])
def test_few_mutated_inputs_are_read_or_refused(name: str, data_root: Path, tmp_path: Path) -> None:
    read_mutated(name, range(6), data_root, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_mutated_inputs_are_read_or_refused(name: str, data_root: Path, tmp_path: Path) -> None:
    read_mutated(name, range(1_000, 1_000 + NUM_CASES * FAMILIES[name].share), data_root, tmp_path)
