"""Code that is not dlrmbench's own runs only where its user names it: a set may be anyone's."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from harness.config.catalog import MODEL_KEY
from harness.foundation.errors import HarnessError
from reference_models.config.sections import parse_runtime
from reference_models.registry import outside_names, pin_code, without_digest
from rules.benchmarks.loader import parse_benchmark, read_toml


def find_outside_code(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield "model" or "implementation", and its name, of what the definitions of a set or experiment, or of the pair
    that ends a search, name that is not ours."""
    for path in sorted(each for depth in ("", "*/", "*/*/") for each in folder.glob(f"{depth}extra/definition.toml")):
        tables = read_toml(path)
        runtime = dict(tables.get("runtime", {}))
        model = runtime.pop(MODEL_KEY, None) or parse_benchmark(tables, path).model
        yield from outside_names(str(model), parse_runtime(runtime).implementation).items()


def resume_outside_code(folder: Path, missing: Sequence[tuple[str, str]]) -> str:
    """Say how to resume a set with what only it names."""
    words = " ".join(f"--{what} {shlex.quote(name)}" for what, name in missing)
    return (
        f"{folder}: was made with what is not dlrmbench's own. To run that code, give its names: "
        f"dlrmbench resume {shlex.quote(str(folder))} {words}"
    )


def refuse_outside_code(
    folder: Path,
    allowed: Mapping[str, Collection[str]],
    explain: Callable[[Path, Sequence[tuple[str, str]]], str] = resume_outside_code,
) -> None:
    """Refuse to run code of another package or a file that only the set names: a set may be anyone's.

    `explain` makes the message of the folder and of what was not given: ("model" or "implementation", name).
    """
    allowed = {what: [without_digest(pin_code(name)) for name in names] for what, names in allowed.items()}
    missing: dict[tuple[str, str], None] = {}
    for what, name in find_outside_code(folder):
        if without_digest(name) in allowed[what]:
            pin_code(name)  # raises where its file has changed since
        else:
            missing[what, without_digest(name)] = None
    if missing:
        raise HarnessError(explain(folder, tuple(missing)))
