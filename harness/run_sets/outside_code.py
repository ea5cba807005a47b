"""Run code that is not dlrmbench's own only where its user names it, since a stranger may have made the run set."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from harness.config.catalog import MODEL_KEY
from harness.foundation.errors import HarnessError
from reference_models.config.sections import parse_runtime
from reference_models.registry import outside_names, pin_code, without_digest
from rules.benchmarks.loader import parse_benchmark, read_toml


def find_outside_code(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield a pair (kind, name) for each model or implementation that is not dlrmbench's own; kind is "model" or
    "implementation". The names come from the benchmark definitions in `folder`, which is that of a run set or an
    experiment, and in folders up to two levels below it."""
    for path in sorted(each for depth in ("", "*/", "*/*/") for each in folder.glob(f"{depth}extra/definition.toml")):
        tables = read_toml(path)
        runtime = dict(tables.get("runtime", {}))
        model = runtime.pop(MODEL_KEY, None) or parse_benchmark(tables, path).model
        yield from outside_names(str(model), parse_runtime(runtime).implementation).items()


def resume_outside_code(folder: Path, missing: Sequence[tuple[str, str]]) -> str:
    """Return the message that names the command to resume a run set whose definition names a model or an
    implementation that is not dlrmbench's own."""
    words = " ".join(f"--{what} {shlex.quote(name)}" for what, name in missing)
    return (
        f"{folder}: was made with code that is not dlrmbench's own. To run it, name it again: "
        f"dlrmbench resume {shlex.quote(str(folder))} {words}"
    )


def refuse_outside_code(
    folder: Path,
    allowed: Mapping[str, Collection[str]],
    explain: Callable[[Path, Sequence[tuple[str, str]]], str] = resume_outside_code,
) -> None:
    """Raise HarnessError if a run set would run a model or an implementation that is not dlrmbench's own, and that
    the user has not named with the present command. A stranger may have made the run set, so its code is not trusted.

    `allowed` has the names that the user gave. `explain` makes the error's message from the folder and the missing
    pairs ("model" or "implementation", name).
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
