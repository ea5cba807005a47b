"""Define the command `init`, which writes a first version of a user's own benchmark definition, or of a user's own
model."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import value_option
from harness.cli.shared.output import tell
from reference_models.data.registry import examples

if TYPE_CHECKING:
    from harness.config.run_config import Override
    from reference_models.data.columns.guess import Guess

_PARAMETERS = "data.parameters."
_MODEL_TARGET = 0.87
"""Target AUC on dlrm_tiny's data, which the example model reaches within its one epoch of training."""


@verb("dlrmbench init ./mine.toml --from-columns clicks.csv", "dlrmbench init --model my.py", name="init")
@click.argument("path", metavar="FILE", required=False, type=click.Path(path_type=Path))
@click.option(
    "--like",
    help="Benchmark, by name or by the TOML file of its definition, from which the new definition starts.  [default: "
    "a benchmark with data of --kind]",
)
@click.option("--name", help="Name of the new benchmark.  [default: the name of FILE]")
@click.option("--title", help="Title of the new benchmark, one line.")
@click.option(
    "--kind",
    type=click.Choice([*examples()]),
    metavar="KIND",
    help=f"Kind of the new benchmark's data: {', '.join(examples())}.",
)
@click.option(
    "--from-columns",
    "columns_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="CSV, JSON lines or Parquet file, or a folder of part files: the roles of its columns are guessed. "
    "Comments in the new definition give the reason for each guess.",
)
@click.option(
    "--model",
    "model_file",
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="Also write an example model, which can be trained unchanged, to FILE.py. If no file is named for the "
    "definition, it is written beside the model's file: model.py gives model.toml.",
)
@click.option(
    "--data-of",
    metavar="BENCHMARK",
    help="Benchmark, by name or by the TOML file of its definition, whose dataset the new benchmark shares.",
)
@click.option("--target", type=float, help="Quality at which a run of the new benchmark ends.")
@value_option("--set", "assignments", "Set one value of the new definition; repeatable.")
def init(
    path: Path | None,
    like: str | None,
    name: str | None,
    title: str | None,
    kind: str | None,
    columns_file: Path | None,
    model_file: Path | None,
    data_of: str | None,
    target: float | None,
    assignments: tuple[str, ...],
) -> None:
    """Write the definition of your own benchmark to FILE, with every key explained. On a terminal, the command asks
    for missing values."""
    from harness.config.catalog import load_data
    from harness.config.run_config import read_set_option
    from harness.config.start import begin_definition
    from harness.foundation.files import write_text
    from harness.run_sets.dataset import how_to_get
    from reference_models.data.registry import find_data

    if path is None:
        if model_file is None:
            raise click.UsageError("Missing argument 'FILE', such as mine.toml.")
        path = model_file.with_suffix(".toml")
    for file, suffix in ((path, ".toml"), (model_file, ".py")):
        if file is not None and file.suffix != suffix:
            raise click.UsageError(f"{file}: expected a file name that ends in {suffix}.")
        if file is not None and os.path.lexists(file):  # a broken link exists, too: writing would follow it
            raise click.UsageError(f"{file}: exists already. Nothing is overwritten; choose another file.")
    if (
        not (like or kind or columns_file or model_file or name or title or data_of or target or assignments)
        and _is_terminal()
    ):
        kind = click.prompt("Data", type=click.Choice([*examples()]), default="click_log", err=True)
        name = click.prompt("Name", default=path.stem, err=True)
        title = click.prompt("Title", default="", err=True) or None
        target = click.prompt("Target quality", type=float, default=0.8, err=True)
    overrides = [read_set_option(text) for text in assignments]
    if data_of is not None:
        if kind is not None:
            raise click.UsageError("--data-of is data already; leave --kind out.")
        kind = load_data(data_of).kind
    has_own_files = kind is not None and find_data(kind).is_prepared and like is None
    columns = None
    if columns_file is not None:
        if kind is not None or data_of is not None:
            raise click.UsageError("--from-columns already says which data to use. Leave --kind and --data-of out.")
        columns = _guess_columns(columns_file, name or path.stem, overrides)
        title = title or f"Clicks of {columns_file.name}"
    begin = partial(
        begin_definition,
        path,
        like or examples().get(kind or "", "dlrm_tiny" if model_file or columns_file else examples()["click_log"]),
        name or path.stem,
        title=title,
        target=_MODEL_TARGET if model_file and not (target or like or kind or columns_file or data_of) else target,
        overrides=overrides,
        data_of=data_of,
        columns=columns,
        has_own_files=has_own_files,
    )
    write_text(path, begin() if model_file is None else _begin_model(model_file, path, begin))
    shown = shlex.quote(str(path) if "/" in str(path) else f"./{path}")
    data = load_data(path)
    first = "" if find_data(data.kind).generate else f"First its data. {how_to_get(data, shown, None)}\n"
    if columns_file is not None:
        first = first.replace("--train FILE…", f"--train {shlex.quote(str(columns_file))}")
    wrote, given = str(path), shown
    if model_file is not None:
        wrote, given = f"{model_file} and {path}", f"{shown} --model {shlex.quote(f'{model_file}:SPEC')}"
    more = f"dlrmbench calibrate {given}, " if model_file is None else ""
    tell(f"wrote {wrote}.\n{first}{'Then' if first else 'Next'}: dlrmbench plan {given}, {more}dlrmbench run {given}")
    has_target = target is not None or any(each.key == "quality.target" for each in overrides)
    if (columns is not None or has_own_files) and not has_target:
        tell("Its target is guessed, and low: calibrate trains without a target, and proposes one for your data.")


def _guess_columns(path: Path, name: str, overrides: Sequence["Override"]) -> "Guess":
    """Return a guess of the columns of a data file and of their types. For a folder of part files the guess is made
    from the first part, and the number of rows is estimated for all parts."""
    from reference_models.data.columns.guess import guess_columns
    from reference_models.process.open_file import list_parts, refuse_irregular

    parts = list_parts([path])
    refuse_irregular(parts)
    of_parameters = [override for override in overrides if override.key.startswith(_PARAMETERS)]
    known = {override.key.removeprefix(_PARAMETERS): override.value for override in of_parameters}
    columns = guess_columns(parts[0], name, known)
    sizes = [part.stat().st_size for part in parts]
    columns.num_rows = round(columns.num_rows * sum(sizes) / sizes[0])
    return columns


def _begin_model(file: Path, definition: Path, begin: Callable[..., str]) -> str:
    """Write the example model to `file`; return the text of a benchmark definition with that model's keys.

    The file is removed again where the definition cannot be made.
    """
    from harness.foundation.files import write_text
    from reference_models.registry import pin_code

    example = resources.files("reference_models.examples").joinpath("deepfm.py").read_text(encoding="utf-8")
    write_text(file, example.replace("deepfm.toml", definition.name).replace("deepfm.py", file.name))
    try:
        return begin(model=pin_code(f"{file}:SPEC"))
    except BaseException:
        file.unlink()
        raise


def _is_terminal() -> bool:
    return sys.stdin.isatty()
