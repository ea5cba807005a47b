"""Trees from strangers, of every kind that a verb reads, mutated from a seed: bytes, values, links, names, modes.

`make_bases` writes sound trees once; `make_hostile` copies one of them and harms it in one to four places.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from fuzz_inputs import LOGS, mutate_system
from log_builder import make_runs, write_set
from mixed_round_builder import write_round
from records_builder import quality_content, quality_process, run_set_content
from report_builder import write_run_set

from reports.page.content import gather_everything
from reports.page.report import render_report
from rules.benchmarks.loader import load_benchmark

SETS = Path(__file__).parents[1] / "data" / "sets"
LONG = "a" * 255
NAMES: tuple[bytes, ...] = (
    b"\xff\xfe", b"result_\xff.txt", b"new\nline", b"\x1b[31mred", b"result_\x1b]0;t\x07.txt", LONG.encode(), b"-o",
    b" ", b"result_1.txt", b"result_x.txt", b"extra", b"results", b"systems", b"x.toml", b"run_set.json", b"\xc2\x85",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 10**400, -(10**400), 1e308, -1e308, 5e-324, -0.0, 0.5,
    "", "x", "a" * 2000, "\x00", "\x1b[31mred", "\ud800", "../../../etc/passwd", "\u202e", "\n", {}, [], [[[[]]]],
    {"": None}, {"a": {"b": 1}}, [1, "2", None], "nan", "1e999", "9" * 5000, ["x"] * 1000,
)  # fmt: skip
TOKENS: tuple[bytes, ...] = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 100_000,
    b'{"a":' * 100_000, b"{" * 1000, b"]", b"}", b'"', b"'''", b"\\ud800", b":::MLLOG ",
    b"a = " + b"[" * 100_000 + b"\n",
    b"[[benchmark]]\n", b"a.b.c = 1\n", b"9" * 100_000, b"x" * 100_000,
    b"= 1979-05-27\n", b"inf", b"-nan",
)  # fmt: skip
LINKS = (".", "..", "nowhere", "/dev/zero", "/dev/null", "/etc/passwd", "/proc/self/mem", "/", "loop")
Mutation = Callable[[Random, Path], object]


def make_bases(folder: Path) -> dict[str, Path]:
    """Write a sound tree of each kind; returns its folder, or for an export its file, by kind."""
    tiny, official = load_benchmark("dlrm_tiny"), load_benchmark("dlrm_dcnv2")
    runs = write_run_set(folder / "runs", runs=make_runs(tiny, num_evals=3))
    write_set(folder / "submission" / "Example", official, make_runs(official, num_evals=3, ours=False), ours=False)
    quality = folder / "quality"
    content = quality_content([quality_process(auc=0.75 + index / 1e4) for index in range(5)])
    write_json(quality / "extra" / "quality.json", content)
    record = run_set_content(kind="quality", options={"num_samples": 100_352}, name="quality", seeds=list(range(5)))
    write_json(quality / "extra" / "run_set.json", record)
    for name in ("throughput_sweep", "two_ranks", "runs"):
        shutil.copytree(SETS / name, folder / f"made_{name}")
    export = folder / "export.json"
    export.write_text(
        render_report(gather_everything([runs], second_opinion=False), output_format="json"), encoding="utf-8"
    )
    write_round(folder / "mixed", num_ours=1, num_others=3, num_logs=2, num_code_files=1)
    trees = ("runs", "submission", "mixed", "quality", *(path.name for path in folder.glob("made_*")))
    return {**{name: folder / name for name in sorted(trees)}, "export": export}


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def make_hostile(random: Random, base: Path, target: Path) -> list[str]:
    """Copy `base` to `target` and harm it; returns what was done to what, for a failure's message."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if base.is_file():
        shutil.copyfile(base, target)
    else:
        shutil.copytree(base, target, symlinks=True)
    done, forbidden = [], []
    for _ in range(random.choice((1, 1, 2, 4))):
        kind = random.choice(list(CONTENTS if base.is_file() or random.random() < 0.6 else PLACES))
        if base.suffix == ".toml" and random.random() < 0.6:  # what else is done to it seldom leaves it TOML
            kind = "values"
        place = target if base.is_file() else pick(random, target, folders=kind in PLACES)
        if place is None:
            continue
        if kind == "forbid":  # at last, since it would keep the others out, too
            forbidden.append(place)
            continue
        try:
            {**CONTENTS, **PLACES}[kind](random, place)
        except (FileExistsError, NotADirectoryError, IsADirectoryError, FileNotFoundError):
            continue
        done.append(f"{kind} {str(place)!r}")
    for place in forbidden:
        with suppress(OSError):
            forbid(random, place)
            done.append(f"forbid {str(place)!r}")
    return done


def release(root: Path) -> None:
    """Allow everything below `root` again, so that it can be removed."""
    root.chmod(0o700)
    for entry in os.scandir(root):
        if entry.is_dir(follow_symlinks=False):
            release(Path(entry.path))


def pick(random: Random, root: Path, *, folders: bool) -> Path | None:
    """One file below `root`, or also one folder; what is beside logs comes as often as they do."""
    paths = sorted((path for path in root.rglob("*") if not path.is_symlink()), key=os.fsencode)
    files = [path for path in paths if path.is_file()]
    beside = [path for path in files if path.suffix != ".txt"]
    choices = paths if folders else beside if beside and random.random() < 0.6 else files
    return random.choice(choices) if choices else None


def harm_bytes(random: Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 2, 8))):
        place = random.randrange(len(data) + 1)
        what = random.randrange(4)
        if what == 0:
            data[place : place + 1] = random.randbytes(1)
        elif what == 1:
            data[place:place] = random.choice(TOKENS)
        elif what == 2:
            del data[place : place + random.randrange(60)]
        else:
            data[place:place] = data[place : place + random.randrange(200)]
    path.write_bytes(data)


def harm_lines(random: Random, path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    what = random.randrange(5)
    if what == 0:
        del lines[first]
    elif what == 1:
        lines[first:first] = [lines[second]] * random.choice((1, 50))
    elif what == 2:
        lines[first], lines[second] = lines[second], lines[first]
    elif what == 3:
        lines[first] = lines[first] + lines[second]
    else:
        lines[first:first] = [random.choice(TOKENS)]
    path.write_bytes(b"\n".join(lines))


def harm_values(random: Random, path: Path) -> None:
    """Give members of JSON, records of a log or keys of TOML other values, or take them away."""
    if path.suffix == ".toml":
        lines = path.read_bytes().split(b"\n")
        places = [index for index, line in enumerate(lines) if b"=" in line]
        for index in random.sample(places, min(len(places), random.choice((1, 2)))):
            key = lines[index].partition(b"=")[0]
            value = random.choice((*VALUES, 1.5, "free", {"min": 1, "max": -1}, {"min": "x"}, 10**4299))
            lines[index] = key + b"= " + as_toml(value)
        path.write_bytes(b"\n".join(lines))
        return
    is_log = path.suffix == ".txt"
    lines = path.read_bytes().split(b"\n") if is_log else [path.read_bytes()]
    index = random.randrange(len(lines))
    head, record = re.match(rb"((?::::MLLOG )?)(.*)", lines[index], re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        content = json.loads(record)
    except (ValueError, RecursionError):
        return
    for _ in range(random.choice((1, 1, 3))):
        content = put_somewhere(random, content)
    lines[index] = head + json.dumps(content).encode("utf-8", "surrogatepass")
    path.write_bytes(b"\n".join(lines))


def put_somewhere(random: Random, content: Any) -> Any:
    """`content` with one member or element at any depth replaced, removed or doubled."""
    inside = random.random() < 0.8
    if isinstance(content, dict) and content and inside:
        key = random.choice(list(content))
        if random.random() < 0.1:
            return {name: value for name, value in content.items() if name != key}
        return content | {key: put_somewhere(random, content[key])}
    if isinstance(content, list) and content and inside:
        index = random.randrange(len(content))
        if random.random() < 0.2:
            return content[:index] + content[index : index + 1] * random.choice((0, 2, 100)) + content[index + 1 :]
        return [*content[:index], put_somewhere(random, content[index]), *content[index + 1 :]]
    return random.choice(VALUES)


def as_toml(value: Any) -> bytes:
    """A value in TOML's spelling, or what is none."""
    return b"" if value is None else json.dumps(value).encode()


def append(random: Random, path: Path) -> None:
    path.write_bytes(path.read_bytes() + random.choice((*TOKENS, random.randbytes(1000), b"\n" * 100_000)))


def truncate(random: Random, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: random.choice((0, 1, random.randrange(len(data) + 1)))])


def replace_text(random: Random, path: Path) -> None:
    """Another file of the kind that its name promises, mutated by itself."""
    path.write_bytes(LOGS[random.choice(list(LOGS))](random) if path.suffix == ".txt" else mutate_system(random))


def nest(random: Random, path: Path) -> None:
    """Deeper than any reader's stack."""
    depth = random.choice((100, 1000, 100_000))
    opened, closed = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    nested = opened * depth + b"1" + closed * depth
    if path.suffix == ".toml":
        nested = b"a = " + b"[" * depth + b"]" * depth + b"\n"
    elif path.suffix == ".txt":
        nested = b':::MLLOG {"key": "seed", "value": ' + nested + b"}\n"
    path.write_bytes(random.choice((nested, path.read_bytes() + nested, nested + path.read_bytes())))


def link(random: Random, path: Path) -> None:
    """A link beside or in place of something: to itself, its parent, nothing, a device, another file, outside."""
    place = random.choice((path, path.with_name(random.choice(("result_9.txt", "link", "definition.toml")))))
    if place == path:
        remove(random, path)
    leads_to = random.choice((*LINKS, place.name, path.name))
    place.symlink_to(leads_to if leads_to != "loop" else place.name)


def fifo(random: Random, path: Path) -> None:
    """A pipe that nobody writes to: who opens it waits for ever."""
    remove(random, path)
    os.mkfifo(path)


def device(random: Random, path: Path) -> None:
    """/dev/zero or /dev/null under the file's name; a link to it for who may make none."""
    remove(random, path)
    minor = random.choice((3, 5))
    try:
        os.mknod(path, 0o020666, os.makedev(1, minor))
    except PermissionError:
        path.symlink_to({3: "/dev/null", 5: "/dev/zero"}[minor])


def remove(random: Random, path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def rename(random: Random, path: Path) -> None:
    new = os.path.join(os.fsencode(path.parent), random.choice(NAMES))  # noqa: PTH118  (bytes)
    if not os.path.lexists(new):
        path.rename(Path(os.fsdecode(new)))


def copy_under_odd_name(random: Random, path: Path) -> None:
    new = os.path.join(os.fsencode(path.parent), random.choice(NAMES))  # noqa: PTH118
    if path.is_file() and not os.path.lexists(new):
        shutil.copyfile(os.fsencode(path), new)


def as_folder(random: Random, path: Path) -> None:
    """A folder where a file is expected, with the file in it; or a file where a folder is."""
    remove(random, path)
    if random.random() < 0.5:
        path.mkdir()
    else:
        path.write_bytes(random.choice((b"", b"{}", b"x")))


def deepen(random: Random, path: Path) -> None:
    folder = path if path.is_dir() else path.parent
    (folder / "/".join(["d"] * random.choice((3, 400)))).mkdir(parents=True)


def forbid(random: Random, path: Path) -> None:
    """Unreadable, and for a folder also not to be entered. Root reads it all the same."""
    path.chmod(random.choice((0, 0o200, 0o400)))


CONTENTS: dict[str, Mutation] = {
    "bytes": harm_bytes,
    "lines": harm_lines,
    "values": harm_values,
    "append": append,
    "truncate": truncate,
    "replace": replace_text,
    "nest": nest,
}
PLACES: dict[str, Mutation] = {
    "link": link, "fifo": fifo, "device": device, "remove": remove, "rename": rename, "copy": copy_under_odd_name,
    "folder": as_folder, "deepen": deepen, "forbid": forbid,
}  # fmt: skip
