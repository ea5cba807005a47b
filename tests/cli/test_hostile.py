"""What strangers wrote, through every verb that reads it: a documented exit code, never 1, no traceback, no hang.

A failure names its seed: `Random(seed)` makes the tree again. What was found once is in test_hostile_found.py.
"""

import io
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hostile_trees import make_bases, make_hostile
from waiting import HANG_S

from harness.cli import main

MAX_CPU_S = 5.0
MAX_GROWTH_BYTES = 1 << 30
EXIT_CODES = {0, 2, 3, 5, 7, 8, 9}
LONG_CHUNKS = 10
FORMS = {
    "check": ("table", "json", "csv", "md", "sarif", "junit"),
    "score": ("table", "json", "csv", "md"),
    "report": ("html", "json", "csv", "md", "parquet"),
    "compare": ("table", "json", "csv", "md"),
    "diff": ("table", "json", "md"),
    "history": ("table", "json", "csv", "md"),
}


def words_of(verb: str, random: Random, hostile: Path, sound: Path, folder: Path) -> list[str]:
    """The command line of one verb on a hostile path, beside a sound one where it takes two."""
    form = random.choice(FORMS.get(verb, ("table",)))
    two = [str(hostile), str(sound)] if random.random() < 0.5 else [str(sound), str(hostile)]
    return {
        "check": ["check", str(hostile), "--no-second-opinion", "--format", form, *random.choice(([], ["-v"]))],
        "score": ["score", str(hostile), "--format", form],
        "report": [
            "report", str(hostile), "--no-second-opinion", "--format", form,
            *(["-o", str(folder / f"page.{form}")] if form in ("html", "parquet") or random.random() < 0.5 else []),
        ],
        "compare": ["compare", *two, "--format", form],
        "diff": ["diff", *two, "--format", form],
        "history": ["history", str(hostile), "--format", form],
        "package": ["package", str(hostile), "--submitter", "Example", "-o", str(folder / "out"),
                    "--no-second-opinion", *random.choice(([], ["--allow-non-compliant"]))],
    }[verb]  # fmt: skip


class TooSlowError(BaseException):
    """No error of the product's: nothing of it may catch this."""


@contextmanager
def bounded() -> Iterator[None]:
    """End what works for more than MAX_CPU_S of this process's own time, or waits without end."""

    def too_slow(signum: int, frame: object) -> None:
        raise TooSlowError(f"more than {MAX_CPU_S} s of processor time, or a wait without end")

    timers = ((signal.SIGVTALRM, signal.ITIMER_VIRTUAL, MAX_CPU_S), (signal.SIGALRM, signal.ITIMER_REAL, HANG_S))
    before = [signal.signal(number, too_slow) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def run_bounded(words: list[str]) -> tuple[int, str, str]:
    """Exit code and what was printed, by streams as strict as a terminal's in UTF-8."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams
    try:
        with bounded():
            main(words)
    except SystemExit as leaving:
        assert isinstance(leaving.code, int)
        out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
        return leaving.code, out, err
    finally:
        sys.stdout, sys.stderr = kept


def assert_sound(words: list[str], code: int, out: str, err: str) -> None:
    assert code in EXIT_CODES, (code, err)
    assert "Traceback" not in err and "internal error" not in err, err
    for text in (out, err):
        lines = text.replace("\r\n", "\n").split("\n")
        assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()][:3]


def judge_hostile(seeds: range, bases: dict[str, Path], folder: Path) -> None:
    for seed in seeds:
        random = Random(f"hostile {seed}")
        kind = random.choice(list(bases))
        base = bases[kind]
        hostile = folder / f"case_{seed}" / base.name
        harm = make_hostile(random, base, hostile)
        verbs = ["report", "compare", "diff"] if kind == "export" else list(FORMS)
        verbs += [] if kind == "export" else ["package"]
        sound = bases["export"] if kind == "export" else base
        for verb in verbs:
            words = words_of(verb, random, hostile, sound, hostile.parent)
            try:
                assert_sound(words, *run_bounded(words))
            except (Exception, TooSlowError) as error:
                raise AssertionError(f"seed {seed}: {words} after {harm}") from error
        for path, _, _ in os.walk(hostile.parent):
            Path(path).chmod(0o700)
        shutil.rmtree(hostile.parent)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_bases(tmp_path_factory.mktemp("bases"))


@contextmanager
def bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown <= MAX_GROWTH_BYTES, f"{grown} bytes more"


def test_some_hostile_trees_are_judged_or_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    with bounded_memory():
        judge_hostile(range(25), bases, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_many_hostile_trees_are_judged_or_refused(bases: dict[str, Path], tmp_path: Path, chunk: int) -> None:
    with bounded_memory():
        judge_hostile(range(1000 + 100 * chunk, 1100 + 100 * chunk), bases, tmp_path)
