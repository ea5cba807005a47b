"""Working folders in which names that a command writes are taken: by links, pipes, folders and files of others.

WORDS has a command line of every verb, after what was there before. Extensions have theirs in their seams.py.
"""

import os
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bounded_command import bounded, bounded_memory
from goldens import lay_data
from places import ROOT
from scripted_commands import Ended, run_scripted_command
from scripted_workers import Moment, ScriptedWorkers
from seams import find_seams

from harness.foundation.errors import ExitCode

KINDS = ("link", "link to nothing", "pipe", "folder", "of another user")
MAX_CPU_S = 30.0
PRECIOUS = "the user's"
_NOBODY = 65534
_SET = "run dlrm_tiny --threads 1 -n 1 -q --seed 1"
_AXIS = "--axis train.opt_base_learning_rate=0.03,0.06"
Words = tuple[tuple[str, ...], str]
CORE_WORDS: Mapping[str, Words] = {
    "run": ((), "run dlrm_tiny -n 1 -q --seed 5 --keep-weights"),
    "run pair": ((_SET,), "run --beside results/latest --threads 1 -n 1 -q --seed 9"),
    "versus": ((_SET,), "versus results/latest --threads 1 -n 1 -q --seed 9"),
    "resume": ((_SET,), "resume results/latest -n 2 -q"),
    "resume sweep": ((f"sweep dlrm_tiny --threads 1 -n 1 -q {_AXIS}",), "resume results/latest -n 2 -q"),
    "sweep": ((), f"sweep dlrm_tiny --threads 1 -n 1 -q --seed 5 {_AXIS}"),
    "check": ((_SET,), "check results --no-second-opinion"),
    "score": ((_SET,), "score results"),
    "compare": ((f"{_SET} --name a", f"{_SET}1 --name b"), "compare a b"),
    "diff": ((_SET,), "diff results/latest results/latest"),
    "report": ((_SET,), "report results --no-second-opinion"),
    "profile": ((), "profile dlrm_tiny --threads 1 -q"),
    "profile of a set": ((_SET,), "profile dlrm_tiny --threads 1 -q -o results/latest"),
    "plan": ((), "plan dlrm_tiny --no-measure --threads 1"),
    "list": ((), "list"),
    "show": ((), "show dlrm_tiny"),
    "init": ((), "init begun.toml --like dlrm_tiny"),
    "init --model": ((), "init --model begun.py"),
    "system": ((), "system --format json"),
    "doctor": ((), "doctor"),
    "schema": ((), "schema run_set"),
    "data generate": ((), "data generate other.toml"),
    "data prepare": ((), "data prepare clicks.toml --train clicks.csv -q"),
    "data verify": ((), "data verify dlrm_tiny"),
    "data predict": ((f"{_SET} --keep-weights",), "data predict dlrm_tiny latest -o logits.parquet -q"),
}
"""By what is walked, whose first word is the verb."""


def all_words() -> dict[str, Words]:
    return {**CORE_WORDS, **find_seams("WORDS")}


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A command line, the folder that it is run in, and every name that is there afterwards."""

    words: str
    base: Path
    names: tuple[Path, ...]
    """Relative to the folder, parents first."""
    ended: Ended


def begin_walk(what: str, data_root: Path, folder: Path) -> Walk:
    """Run a command as nobody disturbs it, in `folder`/whole; keep what was there before in `folder`/base."""
    before, words = all_words()[what]
    base = lay_data(data_root, folder / "base")
    write_inputs(base)
    for each in before:
        ended = run(each, base, 0.0)
        assert ended.code in (0, 3), ended.err
    whole = shutil.copytree(base, folder / "whole", symlinks=True)
    ended = run(words, whole, 3600.0)
    found = (path.relative_to(whole) for path in sorted(whole.rglob("*")))
    named = {name for word in words.split() for name in _named(Path(word), whole)}
    names = tuple(name for name in found if name not in named and (name.parts[0] != "data" or name.suffix != ".npy"))
    return Walk(words=words, base=base, names=names, ended=ended)


def _named(path: Path, folder: Path) -> set[Path]:
    """What the user names by that word of a command line: where it leads, and the way there, may be links."""
    place = folder / path
    leads = {place.resolve().relative_to(folder.resolve())} if place.is_symlink() else set()
    return leads | {path, *path.parents} if os.path.lexists(place) else set()


def write_inputs(folder: Path) -> None:
    """Write the files that command lines name."""
    text = run("show dlrm_tiny --format toml", folder, 0.0).out
    few = text.replace("train_samples = 327680", "train_samples = 2048").replace('"dlrm_tiny"', '"other"', 1)
    (folder / "other.toml").write_text(re.sub("(?m)^sha256 = .*$", "", few))
    for name in ("clicks.csv", "clicks.toml"):
        shutil.copy(ROOT / "reference_models" / "examples" / name, folder)
    for name, content in find_seams("FILES").items():
        (folder / name).write_text(content)


def run(words: str, folder: Path, passed_s: float) -> Ended:
    workers = ScriptedWorkers(Moment(passed_s), num_evals=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that a verb imports
        return run_scripted_command(words.split(), folder, workers)


def take_names(walk: Walk, names: Sequence[Path], kind: str, folder: Path) -> Path:
    """Make `folder`/here as before the command, but for these names, and `folder`/outside, where links lead."""
    here, outside = shutil.copytree(walk.base, folder / "here", symlinks=True), folder / "outside"
    outside.mkdir()
    for number, name in enumerate(names):
        path, victim = here / name, outside / f"{number}-{name.name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        was_folder = path.is_dir()
        if kind == "link":
            if path.exists():  # what is read there is as it should be
                copy = shutil.copytree if was_folder else shutil.copy
                copy(path, victim)
            else:
                victim.mkdir()
                (victim / "thesis.txt").write_text(PRECIOUS)
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif was_folder:
            shutil.rmtree(path)
        if kind.startswith("link"):
            path.symlink_to(victim)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
            (path / "thesis.txt").write_text(PRECIOUS)
        else:
            path.write_text(PRECIOUS)
            os.chown(path, _NOBODY, _NOBODY)
            path.chmod(0o600)
    return here


def look(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder, with what a write would change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and about.st_size < 1 << 20 else b""
        found[path.relative_to(folder).as_posix()] = (about.st_mode, about.st_size, about.st_mtime_ns, content)
    return found


def walk_halves(walk: Walk, names: Sequence[Path], kind: str, data_root: Path, folder: Path, *, times: int) -> None:
    """Try these names at once, and where that is refused, which may be so for the first, their halves.

    What goes through with all of them has met each. They are halved so many `times`; as often as there are names,
    until each is met alone, or beside others where the command does its work all the same.
    """
    ended = walk_names(walk, names, kind, data_root, folder)
    if ended.code not in (0, 3) and len(names) > 1 and times:
        middle = len(names) // 2
        for half in (names[:middle], names[middle:]):
            walk_halves(walk, half, kind, data_root, folder, times=times - 1)


def walk_names(walk: Walk, names: Sequence[Path], kind: str, data_root: Path, folder: Path) -> Ended:
    """Run the command where these names are taken: nothing outside changes, and it ends by itself, explained."""
    here = take_names(walk, names, kind, folder)
    before = look(folder / "outside"), look(data_root)
    what = f"{walk.words!r} where {', '.join(map(str, names))} is a {kind}"
    with bounded(MAX_CPU_S), bounded_memory():
        ended = run(walk.words, here, 3600.0)
    assert ended.code in set(ExitCode) - {ExitCode.INTERNAL_ERROR}, f"{what}: {ended.code}: {ended.err}"
    assert "Traceback" not in ended.err and "internal error" not in ended.err, f"{what}: {ended.err}"
    assert (look(folder / "outside"), look(data_root)) == before, f"{what}: wrote outside; {ended.code}: {ended.err}"
    shutil.rmtree(folder / "here")
    shutil.rmtree(folder / "outside")
    return ended
