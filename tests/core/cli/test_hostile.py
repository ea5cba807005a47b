"""What strangers wrote, through every verb that reads it: a documented exit code, never 1, no traceback, no hang.

A failure names its seed: `Random(seed)` makes the tree again. What was found once is in test_hostile_found.py.
"""

import shutil
from pathlib import Path
from random import Random

import pytest
from bounded_command import TooSlowError, assert_sound, bounded_memory, run_bounded
from hostile_trees import make_bases, make_hostile, release
from seams import READING, WAYS, reading

LONG_CHUNKS = 10
OFFICIAL_EVERY = 20
"""Of so many checks one asks the official checkers, too, which takes seconds."""
FORMS = {
    "check": ("table", "json", "csv", "md", "sarif", "junit"),
    "score": ("table", "json", "csv", "md"),
    "report": ("html", "json", "csv", "md", "parquet"),
    "compare": ("table", "json", "csv", "md"),
    "diff": ("table", "json", "md"),
}


def words_of(verb: str, random: Random, hostile: Path, sound: Path, folder: Path) -> list[str]:
    """The command line of one verb on a hostile path, beside a sound one where it takes two."""
    form = random.choice(FORMS.get(verb, ("table",)))
    two = [str(hostile), str(sound)] if random.random() < 0.5 else [str(sound), str(hostile)]
    return {
        "check": ["check", str(hostile), "--no-second-opinion", "--format", form, *random.choice(([], ["-v"]))],
        "score": ["score", str(hostile), "--format", form],
        "report": [
            "report",
            str(hostile),
            "--no-second-opinion",
            "--format",
            form,
            *(["-o", str(folder / f"page.{form}")] if form in ("html", "parquet") or random.random() < 0.5 else []),
        ],
        "compare": ["compare", *two, "--format", form],
        "diff": ["diff", *two, "--format", form],
        **{each: reading(each, hostile, folder / "out", random.choice(WAYS.get(each, ("",)))) for each in READING},
    }[verb]


def judge_hostile(seeds: range, bases: dict[str, Path], folder: Path) -> None:
    for seed in seeds:
        random = Random(f"hostile {seed}")
        kind = random.choice(list(bases))
        base = bases[kind]
        hostile = folder / f"case_{seed}" / base.name
        harm = make_hostile(random, base, hostile)
        verbs = ["report", "compare", "diff"] if kind == "export" else list(FORMS)
        verbs += [] if kind == "export" else [*READING]
        sound = bases["export"] if kind == "export" else base
        for verb in verbs:
            words = words_of(verb, random, hostile, sound, hostile.parent)
            if verb == "check" and seed % OFFICIAL_EVERY == 0:
                words.remove("--no-second-opinion")
            try:
                assert_sound(words, *run_bounded(words))
            except (Exception, TooSlowError) as error:
                raise AssertionError(f"seed {seed}: {words} after {harm}") from error
        release(hostile.parent)
        shutil.rmtree(hostile.parent)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_bases(tmp_path_factory.mktemp("bases"))


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(10), marks=pytest.mark.once("hostile trees")),
        pytest.param(range(10, 25), marks=pytest.mark.slow),
    ],
)
def test_some_hostile_trees_are_judged_or_refused(bases: dict[str, Path], tmp_path: Path, seeds: range) -> None:
    with bounded_memory():
        judge_hostile(seeds, bases, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_many_hostile_trees_are_judged_or_refused(bases: dict[str, Path], tmp_path: Path, chunk: int) -> None:
    with bounded_memory():
        judge_hostile(range(1000 + 100 * chunk, 1100 + 100 * chunk), bases, tmp_path)
