"""Measured sets of known systems, which are shipped: whoever has one system compares with them at once.

`make reference-system` measures them, elsewhere and before; nothing in them is edited by hand.
"""

from collections.abc import Sequence
from pathlib import Path

from reports.results.result import Result
from reports.text.formatting import names, printable
from rules.errors import ReferenceSystemError, did_you_mean
from rules.tree.result_set import real_path

FOLDER = Path(__file__).resolve().parents[1] / "reference_systems"
"""A folder per system, which holds run sets."""


def system_names() -> tuple[str, ...]:
    """Return the names of the shipped systems, sorted."""
    return tuple(sorted(path.name for path in FOLDER.glob("*/")))


def find_system(name: str) -> Path:
    """Return the folder of a shipped system's sets. Raises ReferenceSystemError with the names that there are."""
    if name not in (known := list(system_names())):
        hint = did_you_mean(name, known) if known else " This copy has none."
        raise ReferenceSystemError(f"--with {printable(name)}: is no reference system.{hint}")
    return FOLDER / name


def system_of(result: Result) -> str | None:
    """Return the name of the shipped system that a set is of, which is nobody's own by whatever name; else None."""
    if result.place is None or FOLDER.name not in result.place.parts:
        return None  # without a look at the disk
    place = real_path(result.place)
    return place.relative_to(FOLDER).parts[0] if FOLDER in place.parents else None


def with_alike(asked: Sequence[Result], shipped: Sequence[Result]) -> tuple[Result, ...]:
    """Return `asked`, then those of `shipped` that measure what one of them does: one benchmark, in one kind.

    Raises ReferenceSystemError where none does.
    """
    wanted = {(result.benchmark, result.kind) for result in asked}
    found = tuple(result for result in shipped if (result.benchmark, result.kind) in wanted)
    if not found:
        has, given = (
            names(sorted({f"{result.benchmark_name} ({result.kind})" for result in results}), 8)
            for results in (shipped, asked)
        )
        raise ReferenceSystemError(f"--with: the system has {has}; given is {given or 'none'}. Measure one of its.")
    return (*asked, *found)
