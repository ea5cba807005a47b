"""Folders that interrupted commands left, and how they are gone on with.

`python tests/builders/stored_folders.py --write` writes what then becomes of each; extensions have theirs in the
stories.py of their tests. Some stories take what another one left and damage it, as a process that was killed would
have left it.
"""

import json
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from golden_scenarios import CTRL_C, RATES, STARVED, TRAIN, Step, step
from goldens import FOLDER, lay_data, make_data, normalise, show_command, show_files
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers
from seams import find_files

from rules.records.chain import LAST_FILE, digest_record

NUM_EVALS = 1


@dataclass(frozen=True, kw_only=True)
class Story:
    """How a folder came to be, what is then done to it, and how it is gone on with."""

    made: tuple[Step, ...] = ()
    """The last one made it; nothing, where `stored` names whose folder it is."""
    stored: str | None = None
    then: Callable[[Path], object] = lambda folder: None
    resumed: tuple[str, ...] = ("resume latest",)


def story(*made: Step, resumed: str = "resume latest") -> Story:
    return Story(made=made, resumed=tuple(resumed.split("; ")))


def damaged(stored: str, then: Callable[[Path], object], resumed: str = "resume latest") -> Story:
    return Story(stored=stored, then=then, resumed=tuple(resumed.split("; ")))


def forget_last_record(folder: Path) -> None:
    """The record of the last run was not written; the chain ends with the run before."""
    before, last = (folder / "extra" / f"run_{index}" / "attempt_0" / "run.json" for index in (0, 1))
    last.unlink()
    (folder / "extra" / LAST_FILE).write_text(f"{digest_record(before.read_bytes())}\n")


def log_not_renamed(folder: Path) -> None:
    """The process was killed after the last run's log was finished, before anything else was done."""
    (log,) = folder.glob("results/*/*/result_1.txt")
    log.rename(folder / "extra" / "run_1" / "attempt_0" / "log.txt")
    forget_last_record(folder)


def attempt_without_record(folder: Path) -> None:
    """The system went down in the middle of the last run."""
    log_not_renamed(folder)
    log = folder / "extra" / "run_1" / "attempt_0" / "log.txt"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[: len(lines) // 2]))


def record_lost(folder: Path) -> None:
    """The log was renamed, and the record of its attempt is gone."""
    forget_last_record(folder)


def gap(folder: Path) -> None:
    shutil.rmtree(folder / "extra" / "throughput_1")


def half_a_record(folder: Path) -> None:
    path = folder / "extra" / "throughput_4" / "measured.json"
    path.write_text(path.read_text()[:100])


def not_gathered(folder: Path) -> None:
    (folder / "extra" / "throughput.json").unlink()


def by_other_code(folder: Path) -> None:
    for path in folder.rglob("run_set.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "code_sha256": "d" * 64}, indent=1) + "\n")


SWEEP = f"sweep dlrm_tiny --threads 1 {RATES} -q"
BESIDE = "run --beside latest --threads 1 --seed 9 -q"
SET = step(f"{TRAIN} -n 2 -q")
STORIES: dict[str, Story] = {
    "set": story(SET, resumed="resume latest; resume latest -n 3"),
    "set_log_not_renamed": damaged("set", log_not_renamed),
    "set_attempt_without_record": damaged("set", attempt_without_record),
    "set_record_lost": damaged("set", record_lost),
    "set_by_other_code": damaged("set_grown", by_other_code),
    "set_grown": story(step(f"{TRAIN} -n 1 -q"), step("resume latest -n 2 -q", {0: CTRL_C})),
    "until": story(
        step(f"{TRAIN} --until 9% -q --seed 5", {5: CTRL_C}),
        resumed="resume latest; resume latest -n 9",
    ),
    "throughput": story(step(f"{TRAIN} --throughput 10 -q"), resumed="resume latest; resume latest -n 6"),
    "throughput_gap": damaged("throughput", gap),
    "throughput_half_a_record": damaged("throughput", half_a_record),
    "throughput_not_gathered": damaged("throughput", not_gathered),
    "quality": story(step(f"{TRAIN} --quality 2000 -q", {3: STARVED})),
    "profile": story(
        step("profile dlrm_tiny --threads 1 -q"),
        resumed="resume latest; profile dlrm_tiny --threads 1 -o latest -q --format md",
    ),
    "sweep_profile": story(
        step(f"{SWEEP} -n 1 --profile", {3: STARVED}), resumed="resume latest; resume latest -n 2"
    ),
    "sweep_failed": story(step(f"{SWEEP} -n 2", {0: STARVED})),
    "sweep_interrupted": story(step(f"{SWEEP} --throughput 10", {3: CTRL_C})),
    "pair": story(step(f"{TRAIN} -n 1 -q"), step(f"{BESIDE} -n 2", {2: CTRL_C})),
    "pair_throughput": story(step(f"{TRAIN} --throughput 10 -q"), step(BESIDE, {2: CTRL_C})),
    "pair_of_interpreters": story(
        step(f"{TRAIN} -n 1 -q"),
        step(f"{BESIDE} -n 2 --python other/bin/python", {3: CTRL_C}),
        resumed="resume latest; resume latest --python other/bin/python",
    ),
    "pair_by_other_code": damaged("pair", by_other_code),
}


def find_stories() -> dict[str, tuple[Story, Path]]:
    """Return every story with the file that it is held against, those of extensions after the core's."""
    found = {name: (told, FOLDER / f"resumed_{name}.txt") for name, told in STORIES.items()}
    for path in find_files("stories.py"):
        own = runpy.run_path(str(path))["STORIES"]
        found |= {name: (told, path.parent / "goldens" / f"resumed_{name}.txt") for name, told in own.items()}
    return found


def make(made: Story, place: Path) -> Path:
    """Make the newest part of a story below `place`; its folder."""
    moment = Moment()
    for each in made.made:
        moment.passed_s += 60
        workers = ScriptedWorkers(moment, each.endings, num_evals=NUM_EVALS)
        run_scripted_command(each.words.split(), place, workers)
    latest = place / "results" / "latest"
    return latest.resolve() if latest.exists() else next(path for path in latest.parent.iterdir())


def lay_folder(name: str, place: Path) -> Path:
    """Make a story's folder, move it to `place`/latest and damage it as the story says; return a copy of it whole."""
    stories = find_stories()
    told, _ = stories[name]
    made = make(stories[told.stored][0] if told.stored else told, place)
    for path in (path for pattern in ("*.html", "lock") for path in [*made.rglob(pattern)]):
        path.unlink()
    before = place.with_name(f"{place.name}-before")
    shutil.copytree(made, before)
    made.rename(place / "latest")
    shutil.rmtree(place / "results")
    told.then(place / "latest")
    return before


def tell_resumed(name: str, place: Path) -> str:
    """Go on with a story's folder in `place`; what was said, and all files that are there in the end."""
    before = lay_folder(name, place)
    moment, parts = Moment(passed_s=86_400), []
    for words in find_stories()[name][0].resumed:
        moment.passed_s += 60
        workers = ScriptedWorkers(moment, num_evals=NUM_EVALS)
        parts.append(show_command(words, run_scripted_command(words.split(), place, workers)))
        parts += [f"launched {launch}\n" for launch in workers.launches]
    return normalise("".join([*parts, "\n", *show_files(place, before)]), place)


def write_resumed() -> None:
    """Write what becomes of each of them now."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary).resolve()
        root = make_data(place / "root")
        for name, (_, path) in find_stories().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(tell_resumed(name, lay_data(root, place / name)), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/builders/stored_folders.py --write")
    write_resumed()
