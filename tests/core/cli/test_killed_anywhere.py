"""A command that is killed at any of its writes is completed as if nothing had happened."""

import shutil
from pathlib import Path

import pytest
from goldens import lay_data
from killed_commands import run_counted, run_killed, state
from made_sets import made_in
from seams import find_seams

from rules.judge.checker import check_paths

SPREAD = 6
"""Places at which an ordinary run of the tests kills each command."""
OTHERS = find_seams("KILLED")
MOST = 60
"""Writes of a command of an extension at which it is killed; some have over 400 that repeat."""
BEFORE_S = 3600
"""When a command begins that is killed, and again when it is completed: after what was there before."""
AXIS = "--axis train.opt_base_learning_rate=0.03,0.06"
SET = ("run dlrm_tiny --threads 1 -n 1 -q --seed 1 --name old",)
SHAPES: dict[str, tuple[tuple[str, ...], str]] = {
    "set": ((), "run dlrm_tiny --threads 1 -n 2 -q --seed 5"),
    "weights": ((), "run dlrm_tiny --threads 1 -n 1 -q --seed 5 --keep-weights"),
    "until": ((), "run dlrm_tiny --threads 1 --until 20% --max-runs 6 -q --seed 5"),
    "grown": (("run dlrm_tiny --threads 1 -n 1 -q --seed 5",), "resume latest -n 3 -q"),
    "measurement": ((), "run dlrm_tiny --threads 1 --throughput 10 -q --seed 5"),
    "pair": (SET, "run --beside old --threads 1 -n 2 -q --seed 9"),
    "sweep": ((), f"sweep dlrm_tiny --threads 1 -n 2 -q --seed 5 {AXIS}"),
    "sweep_profile": ((), f"sweep dlrm_tiny --threads 1 -n 1 -q --seed 5 --profile {AXIS}"),
    **OTHERS,
}
"""Commands that are killed, after what was there before."""


def prepare(shape: str, data_root: Path, place: Path) -> Path:
    lay_data(data_root, place)
    for words in SHAPES[shape][0]:
        assert run_counted(words, place)[0].code == 0
    return place


def newest(place: Path) -> Path | None:
    """The folder that the command makes, if it is whole enough to be resumed."""
    made = made_in(place / "results") if (place / "results").exists() else []
    made = [path for path in made if "-old-" not in path.name and not path.name.startswith(".")]
    whole = [
        path for path in made if any((path / name).exists() for name in ("experiment.json", "extra/run_set.json"))
    ]
    return whole[-1] if whole else None


def killed_and_completed(shape: str, place: Path, kill_at: int, code: int) -> dict[str, str] | None:
    """What is left after a kill at that write, and after what a user then does, which ends with `code`; None where
    nothing was killed."""
    words = SHAPES[shape][1]
    if not run_killed(words, place, kill_at, passed_s=BEFORE_S):
        return None
    folder = newest(place)
    again = words if folder is None or shape == "grown" else f"resume {folder.relative_to(place)} -q"
    ended, _ = run_counted(again, place, passed_s=2 * BEFORE_S)
    assert ended.code == code, f"killed at write {kill_at}, then {again!r}: {ended.err}"
    completed = newest(place)
    assert completed is not None
    missed = [
        finding
        for verdict in (check_paths([completed], second_opinion=False) if [*completed.rglob("result_*.txt")] else ())
        for finding in verdict.findings
        if finding.code in ("RS117", "RS121", "RS131", "RS132")
    ]
    assert not missed, f"killed at write {kill_at}: {missed}"
    return state(completed, place)


def compare(shape: str, data_root: Path, tmp_path: Path, places: int | None) -> None:
    whole = prepare(shape, data_root, tmp_path / "whole")
    ended, number = run_counted(SHAPES[shape][1], whole, passed_s=BEFORE_S)
    assert ended.code in (0, 3), ended.err  # the rules find runs that converge at their first evaluation suspicious
    made = newest(whole)
    assert made is not None
    expected = state(made, whole)
    step = 1 if places is None else max(1, number // places)
    for kill_at in range(step // 2, number, step):
        place = prepare(shape, data_root, tmp_path / "killed")
        found = killed_and_completed(shape, place, kill_at, ended.code)
        assert found is not None, f"write {kill_at} of {number} was not reached"
        differing = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
        assert not differing, f"killed at write {kill_at} of {number}"
        shutil.rmtree(place)


ONCE = pytest.mark.once("a command is killed at each write")


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=ONCE if shape == "set" else pytest.mark.slow) for shape in SHAPES]
)
def test_what_is_killed_at_a_write_is_completed_alike(shape: str, data_root: Path, tmp_path: Path) -> None:
    compare(shape, data_root, tmp_path, SPREAD)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_killed_at_any_write_is_completed_alike(shape: str, data_root: Path, tmp_path: Path) -> None:
    compare(shape, data_root, tmp_path, MOST if shape in OTHERS else None)
