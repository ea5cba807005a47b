"""`data prepare`: the user's Criteo text files become the dataset of a benchmark."""

import shlex
from pathlib import Path

import click

from harness.cli.shared.options import DATA, QUIET, Size, completing, trainable
from harness.config.catalog import load_data
from harness.foundation.status_line import StatusLine
from harness.run_sets.dataset import dataset_lock
from reference_models.data.registry import find_data, locate_dataset
from reference_models.process.errors import ConfigError

_MANY_VALUED = ("--train", "--eval")


class ManyFilesCommand(click.Command):
    """A command whose --train and --eval take several values each, as a shell's `day_*` gives them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread_values(args))


def spread_values(args: list[str]) -> list[str]:
    """Write `--train a b` as `--train a --train b`."""
    spread: list[str] = []
    option: str | None = None
    for position, word in enumerate(args):
        if word.startswith("-"):
            option = word if word in _MANY_VALUED else None
        elif option is not None and args[position - 1] != option:
            spread.append(option)
        spread.append(word)
    return spread


class StageProgress:
    """Stages of the preparation on standard error, each with its share done."""

    def __init__(self, line: StatusLine) -> None:
        self._line, self._stage = line, ""

    def on_progress(self, stage: str, share: float) -> None:
        """Show how far a stage is; a new one at once."""
        is_new, self._stage = stage != self._stage, stage
        self._line.show(f"{stage}: {self._line.bar(share)}{share:4.0%}", now=is_new)


@click.command(
    cls=ManyFilesCommand,
    epilog="Example:  dlrmbench data prepare dlrm_kaggle --train train.txt",
    short_help="Make a benchmark's dataset from your Criteo text files.",
)
@click.argument("benchmark", shell_complete=completing(trainable))
@click.option(
    "--train", "train_files", multiple=True, required=True, metavar="FILE…", type=click.Path(path_type=Path),
    help="Text files in order, plain or gzip; several after one --train.",
)  # fmt: skip
@click.option(
    "--eval", "eval_files", multiple=True, metavar="FILE…", type=click.Path(path_type=Path),
    help="Evaluation files, where the definition says split = 'files'.",
)  # fmt: skip
@DATA
@click.option(
    "--max-malformed", type=click.FloatRange(0, 1), default=0.001, show_default=True, metavar="FRACTION",
    help="Share of lines that may be malformed; they are left out.",
)  # fmt: skip
@click.option(
    "--memory", "memory_bytes", type=Size(takes_bytes=True), default="1GiB", show_default=True, metavar="SIZE",
    help="Upper bound of the memory used.",
)  # fmt: skip
@QUIET
def prepare(
    benchmark: str,
    train_files: tuple[Path, ...],
    eval_files: tuple[Path, ...],
    data_root: Path | None,
    max_malformed: float,
    memory_bytes: int,
    quiet: bool,
) -> None:
    """Make BENCHMARK's dataset from Criteo's text files.

    BENCHMARK is a shipped name such as dlrm_kaggle, or your own definition's TOML file with data.kind = "criteo".
    """
    from reference_models.data.criteo.tsv import prepare_tsv

    data = load_data(benchmark)
    spec = find_data(data.kind)
    if not spec.is_prepared:
        raise ConfigError(
            f"data.kind is {data.kind!r}: only 'criteo' datasets are prepared from text files. "
            + ("Use 'dlrmbench data generate'." if spec.generate else "Its files are read as they are.")
        )
    folder = locate_dataset(data, data_root)
    line = StatusLine(quiet=quiet)
    with dataset_lock(folder):
        prepared = prepare_tsv(
            train_files,
            eval_files,
            data,
            folder,
            max_malformed=max_malformed,
            memory_bytes=memory_bytes,
            on_progress=StageProgress(line).on_progress,
        )
    line.finish()
    unused = f", {prepared.num_unused:,} more of the last day unused" if prepared.num_unused else ""
    total_s = sum(prepared.stages_s.values())
    parsing_s = prepared.stages_s["parsing"]
    for label, text in (
        ("dataset", f"{data.name} in {prepared.folder}"),
        ("lines", f"{prepared.num_lines:,} read, {prepared.num_malformed:,} malformed and left out"),
        ("samples", f"{prepared.num_samples['train']:,} train, {prepared.num_samples['eval']:,} eval{unused}"),
        ("tables", ", ".join(map(str, prepared.num_embeddings)) + " rows (the first row: rare and unseen)"),
        ("sha256", prepared.dataset_sha256),
        (
            "time",
            f"{total_s:.1f} s, {prepared.num_lines / max(total_s, 1e-9):,.0f} rows/s; "
            f"parsing {parsing_s:.1f} s, {prepared.num_lines / max(parsing_s, 1e-9):,.0f} rows/s",
        ),
    ):
        click.echo(f"{label:8} {text}")
    for name in prepared.malformed:
        click.echo(f"left out {name}")
    option = [] if data_root is None else ["--data", str(data_root)]
    click.echo("next     " + shlex.join(["dlrmbench", "run", benchmark, *option]))
