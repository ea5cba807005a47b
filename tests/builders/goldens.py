"""What commands that drive runs say and leave, as text: `python tests/builders/goldens.py --write` writes it anew.

A golden is a file of tests/data/goldens for each story of `golden_scenarios`, and of tests/extensions/<name>/goldens
for each story in the scenarios.py and refusals.py beside that folder. What it holds is what this code does; after a
change that is meant, write all anew and read the difference.
"""

import difflib
import hashlib
import json
import os
import re
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from golden_refusals import COMMANDS, MADE, Refusal, listing, write_files
from golden_scenarios import SCENARIOS, Step
from scripted_commands import SYSTEM, Ended, run_scripted_call, run_scripted_command
from scripted_workers import Moment, ScriptedWorkers
from seams import find_files

from harness.config.catalog import load_entry
from harness.run_sets.dataset import ensure_dataset

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "data" / "goldens"
BASES = FOLDER / "bases"
"""Records in full; stories show how theirs differ from these."""
_SHOWN = (".json", ".toml", ".jsonl")


def find_scenarios() -> dict[str, tuple[tuple[Step, ...], Path]]:
    """Return every story with the file that it is held against, those of extensions after the core's."""
    found = {name: (steps, FOLDER / f"{name}.txt") for name, steps in SCENARIOS.items()}
    for path in find_files("scenarios.py"):
        own = runpy.run_path(str(path))["SCENARIOS"]
        found |= {name: (steps, path.parent / "goldens" / f"{name}.txt") for name, steps in own.items()}
    return found


def find_refusals() -> dict[str, tuple[tuple[Refusal, ...], Path]]:
    """Return the refused command lines by verb, with the file that they are held against; extensions' are last."""
    found = {verb: (told, FOLDER / f"refused_{verb}.txt") for verb, told in COMMANDS.items()}
    for path in find_files("refusals.py"):
        own = runpy.run_path(str(path))["REFUSALS"]
        found |= {verb: (told, path.parent / "goldens" / f"refused_{verb}.txt") for verb, told in own.items()}
    return found


def lay_data(root: Path, folder: Path) -> Path:
    """Make a folder to work in, with the datasets of `root` in its own folder data, whose files are links."""
    shutil.copytree(
        root, folder / "data", copy_function=os.symlink, ignore=shutil.ignore_patterns("choices", ".lock")
    )
    return folder


def tell(steps: tuple[Step, ...], folder: Path) -> str:
    """Run the commands in `folder`; what they said, and every file that is there in the end."""
    moment, parts = Moment(), []
    for each in steps:
        moment.passed_s += 60
        workers = ScriptedWorkers(moment, each.endings, missing=each.missing)
        if each.call is None:
            parts.append(show_command(each.words, run_scripted_command(each.words.split(), folder, workers)))
        else:
            parts.append(show_command(f"api.{each.words}", run_scripted_call(each.call, folder, workers)))
        parts += [f"launched {launch}\n" for launch in workers.launches]
    return normalise("".join([*parts, "\n", *show_files(folder)]), folder)


def tell_refusals(verb: str, folder: Path) -> str:
    """Give the refused command lines of a verb; what each said, and what it wrote although it is refused."""
    moment, parts = Moment(), []
    tell(MADE, folder)
    write_files(folder)
    moment.passed_s += 3600
    for refusal in find_refusals()[verb][0]:
        refusal.before(folder)
        before, workers = listing(folder), ScriptedWorkers(moment)
        with refusal.within(folder):
            if refusal.step.call is None:
                words = refusal.step.words.split()
                ended = run_scripted_command(words, folder, workers, refusal.variables)
            else:
                ended = run_scripted_call(refusal.step.call, folder, workers)
        given = "".join(f"{name}={value} " for name, value in refusal.variables.items())
        parts.append(show_command(given + refusal.step.words, ended))
        written = {name for name, size in listing(folder).items() if before.get(name) != size}
        parts += [f"launched {launch}\n" for launch in workers.launches]
        parts += [f"written {name}\n" for name in sorted(written)]
    return normalise("".join(parts), folder)


def show_command(words: str, ended: Ended) -> str:
    text = f"$ {words}\nexit {ended.code}\n"
    for name, said in (("stdout", ended.out), ("stderr", ended.err)):
        text += f"--- {name}\n{said}" if said else ""
    return text


def show_files(folder: Path, stored: Path | None = None) -> list[str]:
    """All files and folders but the datasets' own, and what is in the records.

    A record is shown in full, or against the last one of its name, here or in BASES: "=" is the same, "~" is
    followed by the lines that differ. Records of a folder that was stored are shown against what was there. What a
    worker wrote is a digest: its stand-in says what it is.
    """
    listed, contents = ["--- files\n"], []
    known = {path.name: path.read_text(encoding="utf-8").splitlines() for path in BASES.glob("*")}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith("data/") and "choices" not in path.parts:
            continue
        if path.is_symlink():
            listed.append(f"{name} -> {path.readlink()}\n")
        elif path.is_dir():
            listed += [] if any(path.iterdir()) else [f"{name}/\n"]
        elif path.suffix in (".txt", ".npy") or _is_of_a_worker(path):
            listed.append(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}\n")
        elif path.suffix in _SHOWN and path.name != "trace.json":
            lines = normalise(path.read_text(encoding="utf-8"), folder).splitlines()
            before = None if stored is None else stored / Path(*path.relative_to(folder).parts[1:])
            if before is not None and before.is_file():
                known[path.name] = normalise(before.read_text(encoding="utf-8"), folder).splitlines()
            is_same = lines == known.get(path.name)
            listed.append(f"{name} =\n" if is_same else f"{name}\n")
            contents += [] if is_same else [_show_record(name, lines, known.get(path.name))]
            known[path.name] = lines
        else:
            listed.append(f"{name}\n")
    return listed + contents


def _is_of_a_worker(path: Path) -> bool:
    """Whether a record is one that the stand-in of a worker wrote, which the product keeps as it is."""
    if path.name in ("measured.json", "manifest.json"):
        return True
    return path.name == "run.json" and json.loads(path.read_text(encoding="utf-8"))["log_sha256"] is not None


def _show_record(name: str, lines: list[str], before: list[str] | None) -> str:
    """Show a record in full, or where and by what lines it differs from the one of that name that was before."""
    if before is None:
        return "".join(f"{line}\n" for line in (f"--- {name}", *lines))
    changed = [line for line in list(difflib.unified_diff(before, lines, n=0, lineterm=""))[2:] if line[0] != "-"]
    return "".join(f"{line}\n" for line in (f"--- {name} ~", *changed))


_LONG_NUMBER = re.compile(r"-?\b\d+\.\d{13,}(?:e[-+]?\d+)?\b")


def normalise(text: str, folder: Path) -> str:
    """Replace the only things that differ from one run of the story to another, and from one processor to another.

    These are the places on the disk, and the last digits of numbers that go through vectorised logarithms.
    """
    text = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.12g}", text)
    for path, name in ((folder, "<folder>"), (folder.resolve(), "<folder>"), (ROOT, "<checkout>")):
        text = text.replace(str(path), name)
    return text


def make_data(root: Path) -> Path:
    ensure_dataset(load_entry("dlrm_tiny").workload.data, root, num_threads=1)
    return root


def write_all() -> None:
    """Write every golden anew."""
    own = (ROOT / "tests" / "extensions").glob("*/goldens/*.txt")
    for path in (path for path in (*FOLDER.glob("*.txt"), *own) if not path.name.startswith("resumed_")):
        path.unlink()
    shutil.rmtree(BASES, ignore_errors=True)
    BASES.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary).resolve()
        root = make_data(place / "root")
        _write_bases(lay_data(root, place / "bases"))
        for name, (steps, path) in find_scenarios().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(tell(steps, lay_data(root, place / name)), encoding="utf-8")
        for verb, (_, path) in find_refusals().items():
            told = tell_refusals(verb, lay_data(root, place / f"refused_{verb}"))
            path.parent.mkdir(exist_ok=True)
            path.write_text(told, encoding="utf-8")


def _write_bases(folder: Path) -> None:
    for verb in ("profile dlrm_tiny --threads 1", "run dlrm_tiny -n 1 --threads 1"):
        tell((Step(words=verb),), folder)
    for path in sorted(folder.rglob("*.*")):
        if path.name in (
            "run_set.json",
            "run.json",
            "spec.json",
            "profile.json",
            "definition.toml",
            f"{SYSTEM}.json",
        ):
            (BASES / path.name).write_text(normalise(path.read_text(encoding="utf-8"), folder), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/builders/goldens.py --write")
    write_all()
