"""What is at a path is found in one walk, whatever is there."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from log_builder import make_records, write_log, write_set
from records_builder import pair_content, sweep_content, write_group

from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError, NothingToJudgeError
from rules.tree.inventory import find_skipped, take_inventory

TINY = load_benchmark("dlrm_tiny")


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}", encoding="utf-8")
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A set, a sweep with a measurement and a profile, a set without a run, a log of another name."""
    write_set(tmp_path / "a" / "set", TINY)
    write(tmp_path / "a" / "set" / "extra" / "run_set.json")
    write(tmp_path / "sweep" / "experiment.json")
    for name in ("run_set.json", "throughput.json"):
        write(tmp_path / "sweep" / "c1" / "extra" / name)
    write(tmp_path / "sweep" / "c1" / "extra" / "profile.json")
    write(tmp_path / "unfinished" / "extra" / "run_set.json")
    write_log(tmp_path / "kept" / "evening.log", make_records(TINY))
    return tmp_path


def test_every_kind_of_thing_is_found(tree: Path) -> None:
    found = take_inventory(tree)
    assert [result_set.root for result_set in found.result_sets] == [tree / "a" / "set"]
    assert found.run_sets == (tree / "a" / "set", tree / "sweep" / "c1", tree / "unfinished")
    assert found.sweeps == (tree / "sweep",)
    assert found.measurements["profile"] == found.measurements["throughput"] == (tree / "sweep" / "c1",)
    assert [skipped.path.name for skipped in find_skipped(found)] == ["evening.log", "c1", "unfinished"]


def test_each_directory_is_listed_once(tree: Path) -> None:
    listed: Counter[str] = Counter()
    original = os.scandir

    def scandir(path: Any = ".") -> Any:
        listed[os.fspath(path)] += 1
        return original(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        take_inventory(tree)
    assert set(listed.values()) == {1}
    assert str(tree / "a" / "set" / "results" / "example" / "dlrm_tiny") in listed
    assert not any(Path(path).name == "extra" for path in listed)


def test_links_are_not_followed_and_loops_end(tree: Path) -> None:
    before = take_inventory(tree)
    (tree / "loop").symlink_to(tree)
    (tree / "a" / "up").symlink_to("..")
    (tree / "self").symlink_to("self")
    after = take_inventory(tree)
    assert after.result_sets == before.result_sets and after.sweeps == before.sweeps
    assert set(after.subfolders) == set(before.subfolders)


def test_names_that_are_not_utf_8_are_found(tree: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    write(tree / name / "experiment.json")
    assert take_inventory(tree).sweeps == (tree / name, tree / "sweep")


def test_a_matrix_is_a_sweep_and_a_pair_is_none(tmp_path: Path) -> None:
    sweep = sweep_content(axes=[{"key": "data.k", "values": ["1"]}], configurations=[{"label": "k=1", "folder": "a"}])
    for name, content in (("sweep", sweep), ("pair", pair_content())):
        (tmp_path / name).mkdir()
        write_group(tmp_path / name, content)
    assert take_inventory(tmp_path).sweeps == (tmp_path / "sweep",)


@pytest.mark.parametrize(
    "name", ["experiment.json", "extra/profile.json", "extra/throughput.json", "extra/run_set.json"]
)
def test_a_directory_or_a_pipe_named_like_a_record_is_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "one" / name).mkdir(parents=True)
    pipe = tmp_path / "two" / name
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    found = take_inventory(tmp_path)
    assert (found.run_sets, found.sweeps, found.holds_measurements) == ((), (), False)


def test_what_is_below_a_run_sets_extra_or_hidden_is_not_entered(tmp_path: Path) -> None:
    for name in ("extra", ".hidden", "systems", "benchmarks"):
        write_log(tmp_path / name / "result_0.txt", make_records(TINY))
    found = take_inventory(tmp_path)
    assert found.result_sets == ()
    with pytest.raises(InputError, match=r"no result_\*\.txt here or below"):
        found.require_result_sets()


@pytest.mark.parametrize("folder", ["sweep", "sweep/sets/speed"])
def test_of_measurements_alone_it_says_what_shows_them(folder: str, tmp_path: Path) -> None:
    write(tmp_path / "sweep" / "experiment.json")
    write(tmp_path / "sweep" / "sets" / "speed" / "extra" / "throughput.json")
    with pytest.raises(NothingToJudgeError, match=r"holds measurements \(throughput\).*'dlrmbench report .*compare"):
        take_inventory(tmp_path / folder).require_result_sets()


def test_of_what_was_interrupted_it_says_what_completes_it(tmp_path: Path) -> None:
    write(tmp_path / "tune" / "experiment.json")
    write(tmp_path / "tune" / "01-default" / "extra" / "run_set.json")
    with pytest.raises(NothingToJudgeError, match=r"not complete, .*'dlrmbench resume .*tune'"):
        take_inventory(tmp_path / "tune").require_result_sets()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_cannot_be_read_is_named_and_the_rest_is_found(tree: Path) -> None:
    (tree / "kept").chmod(0)
    try:
        found = take_inventory(tree)
    finally:
        (tree / "kept").chmod(0o755)
    assert found.unreadable is not None and str(tree / "kept") in found.unreadable
    assert len(found.result_sets) == 1
    with pytest.raises(InputError, match="cannot be read"):
        found.require_result_sets()
