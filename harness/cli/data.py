"""Define the commands `data generate`, `prepare`, `verify` and `predict`, for datasets, which are kept apart from
results and shared between runs."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.shared.help import HelpedCommand, HelpedGroup
from harness.cli.shared.options import DATA, QUIET, READ_DATA, FiniteRange, SizeParam, completing, trainable
from harness.cli.shared.output import note, tell
from harness.foundation.status_line import StatusLine

if TYPE_CHECKING:
    from reference_models.config.sections import DataConfig


_MANY_VALUED = ("--train", "--eval")


class ManyFilesCommand(HelpedCommand):
    """Command whose options --train and --eval each take several values, so that a shell's pattern can be given:
    `--train day_*`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread_values(args))


def spread_values(args: list[str]) -> list[str]:
    """Return command-line arguments with `--train a b` rewritten as `--train a --train b`; the values of `--eval` are
    rewritten in the same way."""
    spread: list[str] = []
    option: str | None = None
    for position, word in enumerate(args):
        if word.startswith("-"):
            option = word if word in _MANY_VALUED else None
        elif option is not None and args[position - 1] != option:
            spread.append(option)
        spread.append(word)
    return spread


@click.group(
    cls=HelpedGroup,
    examples=("dlrmbench data generate dlrm_tiny", "dlrmbench data prepare ./mine.toml --train clicks.csv"),
)
def data() -> None:
    """Generate, prepare and verify datasets, and predict on them."""


@data.command(
    cls=HelpedCommand,
    examples=("dlrmbench data generate dlrm_tiny", "dlrmbench data generate ./mine.toml --data /scratch/data"),
)
@click.argument("benchmark", shell_complete=completing(trainable))
@DATA
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Number of CPU threads.  [default: the number of cores that the process may use]",
)
def generate(benchmark: str, data_root: Path | None, threads: int | None) -> None:
    """Generate BENCHMARK's synthetic dataset, unless it exists.

    The files have the same bytes on every machine and with any number of threads; where the definition states a
    sha256, the files are checked against it. The command prints the dataset's folder.
    """
    from harness.config.catalog import load_data
    from harness.run_sets.dataset import how_to_get, making_lock
    from harness.run_sets.progress import generation_progress
    from harness.system.resources import count_usable_cores
    from reference_models.data.registry import find_data, generate_dataset, locate_dataset

    config = load_data(benchmark)
    if find_data(config.kind).generate is None:
        raise click.UsageError(f"{benchmark}: its data is not generated. {how_to_get(config, benchmark, data_root)}")
    folder = locate_dataset(config, data_root)
    is_there = _is_ready(folder, config)  # before the lock, since the folder may be read-only
    with nullcontext() if is_there else making_lock(folder, data_root):
        if is_there or _is_ready(folder, config, may_replace=folder != data_root):
            note(f"{config.name} is already there")
        else:
            with generation_progress(config) as on_progress:
                generate_dataset(folder, config, num_threads=threads or count_usable_cores(), on_progress=on_progress)
    click.echo(folder)


@data.command(
    cls=ManyFilesCommand,
    examples=(
        "dlrmbench data prepare ./mine.toml --train clicks.csv",
        "dlrmbench data prepare dlrm_kaggle --train train.txt --memory 4GiB",
    ),
    short_help="Make a benchmark's dataset from your files.",
)
@click.argument("benchmark", shell_complete=completing(trainable))
@click.option(
    "--train",
    "train_files",
    multiple=True,
    required=True,
    metavar="FILE…",
    type=click.Path(path_type=Path),
    help="Files with the rows of the data, in order, compressed or not, or folders of part files; one --train takes "
    "several files.",
)
@click.option(
    "--eval",
    "eval_files",
    multiple=True,
    metavar="FILE…",
    type=click.Path(path_type=Path),
    help="Files with the rows for evaluation, where the definition says split = 'files'.",
)
@DATA
@click.option(
    "--max-malformed",
    type=FiniteRange(0, 1),
    default=0.001,
    show_default=True,
    metavar="FRACTION",
    help="Largest share of lines that may be malformed; malformed lines are left out.",
)
@click.option(
    "--memory",
    "memory_bytes",
    type=SizeParam(takes_bytes=True),
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="Upper bound of the memory used, in addition to 0.15 GB for libraries.",
)
@QUIET
def prepare(
    benchmark: str,
    train_files: tuple[Path, ...],
    eval_files: tuple[Path, ...],
    data_root: Path | None,
    quiet: bool,
    **limits: Any,
) -> None:
    """Make BENCHMARK's dataset from your own files.

    BENCHMARK is the name of a benchmark that comes with dlrmbench, such as dlrm_kaggle, or the TOML file of your own
    benchmark definition. In your own definition, set data.kind = "criteo" for text in Criteo's format. For CSV, JSON
    lines or Parquet, set data.kind = "columns", as 'dlrmbench init mine.toml --from-columns FILE' does.
    """
    from harness.config.catalog import load_data
    from harness.run_sets.dataset import making_lock
    from reference_models.data.registry import find_data, locate_dataset
    from reference_models.process.errors import ConfigError
    from reference_models.process.open_file import list_parts, refuse_irregular

    config = load_data(benchmark)
    spec = find_data(config.kind)
    if spec.prepare is None:
        how = "is generated: no files go into it" if spec.generate else "is read as it is"
        raise ConfigError(
            f"data.kind is {config.kind!r}, which {how}. For files of your own begin another definition: 'dlrmbench "
            "init mine.toml --from-columns FILE' for CSV, JSON lines or Parquet, '--kind criteo' for Criteo's text."
        )
    train_paths, eval_paths = list_parts(train_files), list_parts(eval_files)
    refuse_irregular([*train_paths, *eval_paths])
    folder = locate_dataset(config, data_root)
    line, last = StatusLine(quiet=quiet), ""

    def show_stage(stage: str, share: float) -> None:
        nonlocal last
        is_new, last = stage != last, stage
        line.show(stage, share=share, now=is_new)

    try:
        with making_lock(folder, data_root):
            prepared = spec.prepare(
                train_paths, eval_paths, config, folder, on_progress=show_stage, on_note=note, **limits
            )
    finally:
        line.finish()
    unused = f", {prepared.num_unused:,} more of the last day unused" if prepared.num_unused else ""
    num_others = (
        prepared.num_lines - prepared.num_malformed - sum(prepared.num_samples.values()) - prepared.num_unused
    )
    others = f", {num_others:,} not in the share" if num_others else ""
    total_s = sum(prepared.stages_s.values())
    parsing_s = prepared.stages_s["parsing"]
    for label, text in (
        ("dataset", f"{config.name} in {prepared.folder}"),
        ("lines", f"{prepared.num_lines:,} read, {prepared.num_malformed:,} malformed and left out{others}"),
        ("samples", f"{prepared.num_samples['train']:,} train, {prepared.num_samples['eval']:,} eval{unused}"),
        ("tables", ", ".join(map(str, prepared.num_embeddings)) + " rows (the first row: rare and unseen)"),
        ("sha256", prepared.dataset_sha256),
        (
            "time",
            f"{total_s:.1f} s, {prepared.num_lines / max(total_s, 1e-9):,.0f} rows/s; "
            f"parsing {parsing_s:.1f} s, {prepared.num_lines / max(parsing_s, 1e-9):,.0f} rows/s",
        ),
    ):
        tell(f"{label:8} {text}")
    if prepared.soft is None:
        shares = [f"{100 * share:.3g} % {split}" for split, share in prepared.positives.items()]
        click.echo(f"labels   {', '.join(shares)} are 1")
    else:
        means = [f"mean {mean:.4g} {split}" for split, mean in prepared.positives.items()]
        click.echo(
            f"labels   soft: {', '.join(means)}; ranked by themselves, the first evaluation rows have a ROC AUC of "
            f"{prepared.soft.best_auc:.4f}, the highest that a model can reach there"
        )
    for name in prepared.malformed:
        click.echo(f"left out {name}")
    for remark in prepared.remarks:
        click.echo(f"remark   {remark}")
    option = [] if data_root is None else ["--data", str(data_root)]
    click.echo("next     " + shlex.join(["dlrmbench", "run", benchmark, *option]))


@data.command(
    cls=HelpedCommand,
    examples=("dlrmbench data verify dlrm_tiny", "dlrmbench data verify data/dlrm_tiny"),
)
@click.argument("what", metavar="BENCHMARK|DIR")
@READ_DATA
def verify(what: str, data_root: Path | None) -> None:
    """Read a whole dataset and check it: sha256 of every file, ids inside their tables, labels and values.

    Given a benchmark's name, the command also checks the dataset against the benchmark's definition; MLPerf's own
    files are checked by their MD5 digests where MLPerf publishes MD5 digests. Where the check finds an error, the
    exit code is 8, and a message names the file.
    """
    from reference_models.data.registry import find_data, locate_dataset, open_dataset, verify_dataset
    from reference_models.data.store.manifest import MANIFEST, read_manifest

    config = None
    folder = Path(what)
    if not folder.is_dir():
        from harness.config.catalog import load_data
        from rules.logs.text import plural

        config = load_data(what)
        folder = locate_dataset(config, data_root)
        opened = open_dataset(folder, config)
        if not find_data(config.kind).has_store:
            files, sizes = plural(len(opened.files), "file"), sum(opened.files.values())
            click.echo(f"{folder}: {files}, {sizes:,} bytes: sizes agree with the definition")
            _verify_published(opened.files, find_data(config.kind).published(config))
            return
    manifest = read_manifest(folder)
    total = sum(entry["bytes"] for entry in manifest["files"].values())
    with _byte_progress(folder.name, total) as on_bytes:
        verify_dataset(folder, on_bytes)
    splits = manifest["splits"]
    tell(
        f"{folder / MANIFEST}: {manifest['name']}, {splits['train']:,} train and {splits['eval']:,} eval samples, "
        f"{total:,} bytes: all as in the manifest"
        + (" and the definition" if config is not None else "")
        + f"\ndataset_sha256 {manifest['dataset_sha256']}"
    )


@data.command(
    cls=HelpedCommand,
    examples=(
        "dlrmbench data predict dlrm_tiny latest -o logits.parquet",
        "dlrmbench data predict ./mine.toml mine:0 -o train.parquet --split train",
        "dlrmbench data predict ./mine.toml mine -o logits.parquet --file new.csv",
    ),
)
@click.argument("benchmark", shell_complete=completing(trainable))
@click.argument("weights", metavar="SET[:RUN]")
@click.option(
    "-o", "--output", required=True, metavar="FILE", type=click.Path(path_type=Path), help="Parquet file to write."
)
@click.option(
    "--split",
    type=click.Choice(["eval", "train"]),
    help="Split of the dataset whose samples are predicted.  [default: eval]",
)
@click.option(
    "--file",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Predict for the rows of FILE instead of the samples of a split. FILE has the format of the files from "
    "which the dataset was prepared; labels may be missing.",
)
@READ_DATA
@QUIET
def predict(
    benchmark: str,
    weights: str,
    output: Path,
    split: Any,
    path: Path | None,
    data_root: Path | None,
    quiet: bool,
) -> None:
    """Write the logits that a run's kept weights predict for BENCHMARK's data, as Parquet.

    SET[:RUN] names a set made by 'run --keep-weights' and, with RUN, one of its runs; SET:RUN@N names checkpoint N of
    a run. Each row of the Parquet file has a sample's number in its split (from 0, in the order of the prepared
    rows), its label and its logit, before the sigmoid. With --file, each row of the Parquet file has the number of a
    row in FILE (from 1) and that row's logit. The Parquet file is written completely or not at all.
    """
    from harness.config.catalog import load_entry
    from harness.measure.predictions import write_file_predictions, write_predictions
    from harness.run_sets.names import find_weights
    from reference_models.data.registry import locate_dataset

    if output.is_dir():
        raise click.UsageError(f"{output}: is a folder, expected the name of a file to write.")
    if path is not None and split is not None:
        raise click.UsageError("--file has no splits; leave --split out.")
    entry = load_entry(benchmark)
    folder, line = locate_dataset(entry.workload.data, data_root), StatusLine(quiet=quiet)
    given = (entry, find_weights(weights), folder)

    def on_progress(share: float) -> None:
        line.show("predicting", share=share)

    try:
        if path is not None:
            written = write_file_predictions(*given, path, output, on_progress=on_progress)
        else:
            written = write_predictions(*given, split or "eval", output, on_progress=on_progress)
    finally:
        line.finish()
    what = f"the {split or 'eval'} split" if path is None else str(path)
    of_labels = "mean label" if written.has_soft_labels else "share of labels that are 1"
    labels = "" if written.mean_label is None else f", {of_labels} {written.mean_label:.4f}"
    tell(
        f"{output}: {written.num_samples:,} logits of {what}; mean probability {written.mean_probability:.4f}{labels}"
    )


def _verify_published(files: Mapping[str, int], published: Mapping[str, str]) -> None:
    """Verify those of the dataset's files whose MD5 is published. `files` maps paths to sizes in bytes, for the
    progress display; `published` maps file names to MD5 digests.

    Raises DatasetError (exit 8) if a file's MD5 is not the published one.
    """
    from reference_models.data.store.manifest import compute_file_md5
    from reference_models.process.errors import DatasetError

    paths = [Path(path) for path in files if Path(path).name in published]
    if not paths:
        note("no digests of these files are published, so their contents were not compared")
        return
    with _byte_progress(paths[0].parent.name, sum(files[str(path)] for path in paths)) as on_bytes:
        for path in paths:
            if (found := compute_file_md5(path, on_bytes)) != published[path.name]:
                raise DatasetError(
                    f"{path}: MD5 is {found}, published is {published[path.name]}. Copy it again, or make it anew "
                    "as the reference does."
                )
    click.echo(f"contents of {len(paths)} of {len(files)} files have their published MD5")


def _is_ready(folder: Path, config: "DataConfig", *, may_replace: bool | None = None) -> bool:
    """Return whether the dataset is complete. `may_replace` says what happens where it is damaged: with False,
    DatasetError is raised; with True, its replacement is announced, and False is returned; with None, False is
    returned."""
    from reference_models.data.registry import open_dataset
    from reference_models.data.store.manifest import MANIFEST
    from reference_models.process.errors import DatasetError

    if not (folder / MANIFEST).exists():
        return False
    try:
        open_dataset(folder, config)
    except DatasetError as error:
        # A folder that the user named may hold another dataset; a folder named by the digest cannot.
        if may_replace is None:
            return False
        if not may_replace:
            raise
        note(f"replacing a damaged dataset: {error}")
        return False
    return True


@contextmanager
def _byte_progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    line, done = StatusLine(), 0

    def on_bytes(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        if line.is_terminal:
            line.show(f"verifying {name}", share=done / max(1, total))

    if not line.is_terminal:
        line.finish(f"verifying {name}: {total:,} bytes")
    try:
        yield on_bytes
    finally:
        line.finish()
