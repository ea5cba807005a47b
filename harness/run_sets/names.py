"""Find run sets, and their weights, in a results folder by name: the folder's, the one given by --name, or
`latest`."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from rules.benchmarks.loader import list_workload_names, shipped_names
from rules.errors import InputError
from rules.logs.text import printable
from rules.records.codec import Damage, decode
from rules.records.experiment import group_file, not_one_set
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.checkpoint import CHECKPOINTS_FOLDER
from rules.records.kept.weights import WEIGHTS_FOLDER
from rules.records.run_set import RunSetRecord

LATEST = "latest"
_DEFAULT = "results"
_MOMENT = re.compile(r"-\d{8}T\d{6}Z(?:-\d+)?\Z")
_DIGEST = re.compile("[0-9a-f]{8}")
"""Pattern of a configuration's digest, which is in a run set's folder name where no --name was given."""


def find_results_folder() -> Path:
    """Return the folder for results where -o is not given: DLRMBENCH_OUTPUT, or `results`."""
    return Path(os.environ.get("DLRMBENCH_OUTPUT") or _DEFAULT)


def link_latest(folder: Path) -> None:
    """Point the link `latest` to a new run set or experiment in the same folder, unless a file has that name or links
    are impossible."""
    link, draft = folder.parent / LATEST, folder.parent / f".{LATEST}-{os.getpid()}"
    if link.exists() and not link.is_symlink():
        return
    with suppress(OSError):
        draft.symlink_to(folder.name)
        draft.replace(link)


def unlink_latest(folder: Path) -> None:
    """If the link `latest` leads to `folder`, in which nothing was measured, point it to the newest other run set or
    experiment; remove the link if there is no other."""
    link = folder.parent / LATEST
    if not link.is_symlink() or link.readlink() != Path(folder.name):
        return
    others = [path for path in sets_of(folder.parent) if path.name != folder.name and _MOMENT.search(path.name)]
    if others:
        link_latest(max(others, key=lambda path: _MOMENT.findall(path.name)[-1]))
    else:
        link.unlink()


def find_named(name: str, results: Path) -> list[Path]:
    """Return the run sets and sweeps in `results` that `name` names, sorted by folder name. `name` is tried as a
    folder's name, then as a name given by --name, then as a benchmark's name; the first of these that finds anything
    counts."""
    folder = results / name
    with suppress(PermissionError):  # a path inside an unreadable folder is no name
        if name and ".." not in Path(name).parts and folder.exists():
            return [results / folder.readlink() if folder.is_symlink() else folder]
    named = [(path, names) for path in sets_of(results) if name in (names := names_of(path))]
    return [path for path, names in named if names[0] == name] or [path for path, _ in named]


def led_to(word: str, *results: Path) -> str:
    """Return `word`, which names a run set (SET) or one of its runs (SET:RUN), without a link such as `latest`. A
    link is replaced by the folder to which it points, since it may point elsewhere when the word is read again. The
    name is looked for as a path first, then in the folders `results`."""
    for name in filter(None, (word, word.rpartition(":")[0])):
        for path in (Path(name), *(folder / name for folder in results)):
            with suppress(OSError):  # an unreadable path is not known to be a link
                for link in (path, *(above for above in path.parents if above.name == LATEST)):
                    if link.is_symlink():
                        return f"{link.parent / link.readlink() / path.relative_to(link)}{word[len(name) :]}"
            if os.path.lexists(path):
                return word
    return word


def refuse_missing(paths: Iterable[Path]) -> None:
    """Raise InputError if one of `paths` is neither an existing path nor the name of a run set. The message is about
    the first such word, and suggests similar names.

    Words that can only be paths (with a folder, or of a JSON file) are not checked here: the code that reads them
    reports their errors.
    """
    for path in paths:
        word = str(path)
        if word != path.name or path.suffix == ".json" or ":" in word or word == "-" or not _is_missing(path):
            continue
        results = find_results_folder()
        known = dict.fromkeys(name for folder in sets_of(results) for name in (*names_of(folder), folder.name))
        near = [name for name in known if word in name] or get_close_matches(word, known, n=3)
        hint = f"Did you mean {_listed(near)}?" if near else "Give a path, or the name of a set there"
        if not near:
            hint += f": {_listed(names_to_give(results))}." if known else "."
        where = printable(str(results))
        raise InputError(f"{printable(word)}: no such file or directory, and no set of that name in {where}. {hint}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, map(printable, names[:3]))) + (" …" if len(names) > 3 else "")


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        pass  # the path exists in some form, or its error is reported by its reader
    return False


def sets_of(results: Path) -> Iterator[Path]:
    """Yield the run sets, sweeps and pairs in a folder, sorted by name."""
    with suppress(OSError):
        for path in sorted(results.iterdir()):
            is_made = (path / "extra" / "run_set.json").is_file() or group_file(path) is not None
            if is_made and not path.is_symlink():
                yield path


def names_to_give(results: Path) -> list[str]:
    """Return every name that identifies one run set or sweep of a folder: names from --name, folder names, and
    `latest`."""
    folders = list(sets_of(results))
    given = Counter(name for folder in folders for name in names_of(folder) if not _DIGEST.fullmatch(name))
    labels = [name for name, number in given.items() if number == 1]
    return [*labels, *(folder.name for folder in folders), *([LATEST] if folders else [])]


def name_given(folder: Path) -> str | None:
    """Return the name that --name gave a run set; None where none was given. A link such as `latest` is followed to
    its run set."""
    names = [name for name in names_of(folder.resolve()) if not _DIGEST.fullmatch(name)]
    return names[0] if names else None


def names_of(folder: Path) -> tuple[str, ...]:
    """Return the names of a run set. If --name was given, this is the only name. Otherwise the digest of the
    configuration is a name, and, if the benchmark is not a shipped one, the benchmark's name is another.

    The given name or the digest is read from the name of the set's folder, where it stands between the benchmark and
    the time. In the folder of an experiment of several configurations it stands between a prefix (such as `sweep`)
    and the time.
    """
    if (match := _MOMENT.search(folder.name)) is None:
        return ()
    record = decode(folder / "extra" / "run_set.json", RunSetRecord)
    if isinstance(record, Damage):
        return (folder.name[: match.start()].partition("-")[2],)
    benchmark = record.benchmark.name
    label = folder.name[: match.start()].removeprefix(f"{benchmark}-")
    is_named = _DIGEST.fullmatch(label) and benchmark not in (*shipped_names(), *list_workload_names())
    return (label, benchmark) if is_named else (label,)


def find_weights(text: str) -> Path:
    """Return the folder of the kept weights that `text` names. The text is SET, SET:RUN, or SET:RUN@N for checkpoint
    N of a run.

    SET is the folder or name of a run set, or the folder of a package. Without RUN, the first run that has weights is
    taken. Raises HarnessError with exit 2 if the text is malformed or the package has weights of several sets, and
    with exit 8 if there are no weights.
    """
    folder, run, checkpoint = _find_set(text)
    folder = _packaged_set(folder)
    if checkpoint is not None:
        return _find_checkpoint(folder / "extra" / f"run_{run}" / CHECKPOINTS_FOLDER, checkpoint)
    found = sorted(folder.glob(f"extra/run_*/{WEIGHTS_FOLDER}/{MANIFEST_FILE}"), key=_run_index)
    indices = [_run_index(path) for path in found]
    if run is None and found:
        return found[0].parent
    if run in indices:
        return found[indices.index(run)].parent
    have = f"of its runs {', '.join(map(str, indices))} have some" if indices else "none of its runs has any"
    what = "it" if run is None else f"run {run}"
    raise HarnessError(
        f"{folder}: there are no weights of {what}: {have}. 'dlrmbench run --keep-weights' keeps them.",
        ExitCode.INPUT,
    )


def _find_checkpoint(root: Path, number: int) -> Path:
    names = {path.parent.name for path in root.glob(f"*/{MANIFEST_FILE}")}
    if str(number) not in names:
        there = sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)
        have = f"there are {', '.join(map(str, there))}" if there else "it has none"
        raise HarnessError(
            f"{root.parent}: there is no checkpoint {number} of this run: {have}. 'dlrmbench run --set "
            "checkpoint.every=5%' takes some.",
            ExitCode.INPUT,
        )
    return root / str(number)


def _packaged_set(folder: Path) -> Path:
    """Return the only run set with weights in the package `folder`; return `folder` itself if it is no package.
    Raises HarnessError if the package has weights of several run sets."""
    if (folder / "extra").is_dir():
        return folder
    inner = f"benchmarks/*/*/extra/run_*/{WEIGHTS_FOLDER}/{MANIFEST_FILE}"
    sets = sorted({path.parents[3] for pattern in (inner, f"*/{inner}") for path in folder.glob(pattern)})
    if len(sets) > 1:
        raise HarnessError(f"{folder}: holds weights of several sets, {', '.join(map(str, sets))}. Give one of them.")
    return sets[0] if sets else folder


def _find_set(text: str) -> tuple[Path, int | None, int | None]:
    """Return the parts of a name SET:RUN@N: the folder of the run set, the number of the run, and the number of its
    checkpoint. A text that as a whole is the name of a folder or a run set is not split: RUN and N are then None."""
    if (folder := _named(text)) is not None:
        if (said := not_one_set(folder)) is not None:
            raise HarnessError(f"weights {printable(text)}: {said}", ExitCode.INPUT)
        return folder, None, None
    name, colon, run = text.rpartition(":")
    if colon and (folder := _named(name)) is not None:
        parts = run.split("@")
        if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise HarnessError(
                f"weights {text!r}: {run!r} is no run's number. Give SET:RUN, or SET:RUN@N of its checkpoint N; both "
                "from 0."
            )
        return folder, int(parts[0]), int(parts[1]) if len(parts) > 1 else None
    raise HarnessError(f"weights {text!r}: no such run set. Give its folder or name, or SET:RUN.", ExitCode.INPUT)


def _named(text: str) -> Path | None:
    if Path(text).is_dir():
        return Path(text)
    found = find_named(text, find_results_folder()) if text else []
    if len(found) > 1:
        raise HarnessError(f"weights {text!r}: the name of several sets, {', '.join(map(str, found))}. Give one.")
    return found[0] if found else None


def _run_index(manifest: Path) -> int:
    number = manifest.parents[1].name.removeprefix("run_")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 10**9
