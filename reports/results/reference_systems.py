"""Finds reference systems: other systems whose measured results users compare with. Their results come from bundles
(.zip), which are shipped or a user's own.

`dlrmbench measure-system --bundle` makes a bundle; nothing in it is edited by hand. A set whose speed varies between
processes by more than MAX_CV is not in any bundle.
"""

import atexit
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reports.results.bundles import SUFFIX, is_bundle, read_bundle, write_members
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, log_summary
from reports.text.formatting import names, percent, plural, printable
from rules.errors import InputError, ReferenceSystemError, did_you_mean
from rules.records.kept.bundle import BundleRecord
from rules.temporary_folder import temporary_folder
from rules.tree.inventory import take_inventory
from rules.tree.result_set import real_path

FOLDER = Path(__file__).resolve().parents[1] / "reference_systems"
"""Folder of the reference bundles (.zip of other systems' results) that are shipped."""
FOLDER_VARIABLE = "DLRMBENCH_SYSTEMS"
"""Environment variable that names a folder of the user's own reference bundles (.zip of other systems' results)."""
MAX_CV = 0.03
"""Largest coefficient of variation of speed between processes at which a result set may be part of a reference
system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedSystem:
    """Opened reference bundle: its record, and the folder with its unpacked result sets. `close_systems` removes the
    folder; if the bundle was opened inside the context `passing_systems`, the end of that context removes it."""

    path: Path
    record: BundleRecord
    folder: Path


_opened: dict[Path, tuple[OpenedSystem, ExitStack]] = {}
"""Opened reference bundles: a dict from a bundle's real path to the opened bundle and the exit stack that removes its
unpacked folder."""


def system_names() -> tuple[str, ...]:
    """Return the names of the shipped reference systems, sorted."""
    return tuple(path.stem for path in find_bundles(FOLDER))


def find_bundles(folder: Path) -> tuple[Path, ...]:
    """Return the reference bundles (.zip) in a folder, sorted by name; none where the folder is missing or may not be
    read."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ()
    return tuple(found)


def known_bundles(folder: Path | None = None) -> tuple[Path, ...]:
    """Return the shipped reference bundles (.zip of systems' results), then those in `folder`, by default in the
    folder that FOLDER_VARIABLE names.

    A user's own bundle replaces a shipped one of the same file name.
    """
    own = os.environ.get(FOLDER_VARIABLE) or None
    folders = [FOLDER, *([folder] if folder is not None else [] if own is None else [Path(own)])]
    return tuple({path.name: path for each in folders for path in find_bundles(each)}.values())


def open_system(given: str | Path) -> OpenedSystem:
    """Unpack the results of a reference system, given by the name of a known bundle (.zip) or by a bundle's file. A
    bundle that is unpacked already is not unpacked again.

    Raises ReferenceSystemError, which lists the known names, if the name is unknown. Raises InputError if the bundle
    is refused, OSError if it cannot be read or unpacked.
    """
    path = _find(given)
    key = real_path(path)
    if key in _opened:
        return _opened[key][0]
    bundle = read_bundle(path)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("system")) / bundle.record.name
        folder.mkdir()
        write_members(bundle, folder)
        found = OpenedSystem(path=path, record=bundle.record, folder=real_path(folder))
        _opened[key] = found, stack.pop_all()
    return found


@atexit.register
def close_systems() -> None:
    """Remove the unpacked folders of all reference bundles (.zip of systems' results) that were opened."""
    while _opened:
        _opened.popitem()[1][1].close()


@contextmanager
def passing_systems() -> Iterator[None]:
    """Remove, at the end of the context, the unpacked folders of the reference bundles that were opened inside it."""
    before = set(_opened)
    try:
        yield
    finally:
        for key in _opened.keys() - before:
            _opened.pop(key)[1].close()


def expand_bundles(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return paths of results in which each reference bundle (.zip of a system's results) is replaced by the folder
    with its unpacked sets. Bundles in folders among the paths are replaced as well.

    A folder with bundles is kept in addition if it also has other results. Raises InputError if a bundle cannot be
    read.
    """
    found = list[Path]()
    for path in paths:
        inside = [each for each in find_bundles(path) if is_bundle(each)]
        if path.suffix == SUFFIX and _is_file(path):
            found.append(open_system(path).folder)
        elif inside:
            found += [open_system(each).folder for each in inside]
            beside = take_inventory(path)
            found += [path] if beside.result_sets or beside.holds_measurements else []
        else:
            found.append(path)
    return tuple(found)


def find_system(given: str | Path) -> Path:
    """Return the folder of a reference system's result sets, given the name of a known bundle (.zip of its results)
    or the bundle's file."""
    return open_system(given).folder


def _find(given: str | Path) -> Path:
    """Return the file of a reference bundle (.zip of a system's results), given by path or by name. If the text is
    both an existing path and a name, it is taken as the path."""
    path = Path(given)
    if path.suffix == SUFFIX or os.sep in str(given) or _is_file(path):
        return path
    by_name = {bundle.stem: bundle for bundle in known_bundles()}
    if str(given) not in by_name:
        hint = did_you_mean(str(given), [*by_name]) if by_name else " This copy has none."
        raise ReferenceSystemError(
            f"--with {printable(given)}: is no reference system, nor a bundle's file.{hint} "
            f"'dlrmbench list --systems' lists them; {FOLDER_VARIABLE} names a folder of your own."
        )
    return by_name[str(given)]


def _is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False where it cannot be read."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def system_of(result: Result) -> str | None:
    """Return the name of the reference system that a result set belongs to; None for any other set."""
    if result.place is None or not _opened:
        return None  # no bundle is open, so the disk is not read
    parents = real_path(result.place).parents
    return next((each.record.name for each, _ in _opened.values() if each.folder in parents), None)


def variation_of(result: Result) -> float | None:
    """Return the coefficient of variation of speed between a result set's runs or processes; None for fewer than
    two."""
    if result.measured is None:
        summary = result.summary("throughput_samples_per_s")
    else:
        summary = log_summary(result.measured_values)
    return None if summary is None else summary.coefficient_of_variation


def why_no_reference(result: Result) -> str | None:
    """Return the reason why a result set cannot be a reference (too few processes, INVALID, unknown load,
    noise), else None."""
    few = f"{plural(result.num_converged, 'process', 'processes')} to compare, expected at least {MIN_RUNS}"
    if result.num_converged < MIN_RUNS:
        return few
    if result.outcome == "invalid":
        return "the rules reject it; 'dlrmbench check' says why"
    if any(load is None or load.load_avg_before is None for load in result.loads):
        return "the load while it was measured is not on record"
    variation = variation_of(result)
    if variation is None or variation > MAX_CV:
        varied = "an unknown share" if variation is None else percent(variation)
        return (
            f"its speed varies by a CV of {varied} between processes, expected at most {percent(MAX_CV, 0)}: "
            "something else used the system, or its clock changed"
        )
    return None


def require_references(results: Sequence[Result]) -> None:
    """Raise InputError, which names the result set, if a set in a reference bundle cannot be a reference."""
    for result in results:
        if (why := why_no_reference(result)) is not None:
            raise InputError(f"reference system {system_of(result)}: {result.label}: {why}. Measure it again.")


def with_alike(asked: Sequence[Result], known: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results `asked`, followed by the comparable ones among `known`, a reference system's results.
    Comparable results have the same benchmark and kind of measurement as a result in `asked`. Raises
    ReferenceSystemError if there is none."""
    wanted = {(result.benchmark, result.kind) for result in asked}
    found = tuple(result for result in known if (result.benchmark, result.kind) in wanted)
    if not found:
        has, given = (
            names(sorted({f"{result.benchmark_name} ({result.kind})" for result in results}), 8)
            for results in (known, asked)
        )
        raise ReferenceSystemError(f"--with: the system has {has}; given is {given or 'none'}. Measure one of these.")
    require_references(found)
    return (*asked, *found)
