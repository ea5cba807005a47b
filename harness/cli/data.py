"""`data generate`, `data prepare`, `data verify`: datasets, outside of results and shared between runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.options import DATA, completing, trainable
from harness.foundation.status_line import StatusLine

if TYPE_CHECKING:
    from reference_models.config.sections import DataConfig


class DataGroup(click.Group):
    """Loads `prepare` only when it is asked for: it needs more than the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["generate", "prepare", "verify"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "prepare":
            command = import_module("harness.cli.prepare").prepare
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=DataGroup)
def data() -> None:
    """Generate, prepare and verify datasets."""


@data.command()
@click.argument("benchmark", shell_complete=completing(trainable))
@DATA
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads.  [default: the cores allowed]")
def generate(benchmark: str, data_root: Path | None, threads: int | None) -> None:
    """Generate BENCHMARK's click log, unless it is there.

    The bytes are the same on every machine and with any number of threads; where the definition pins their
    sha256, they are held against it. Prints the dataset's folder.
    """
    from harness.config.catalog import load_data
    from harness.run_sets.dataset import dataset_lock, how_to_get
    from harness.run_sets.progress import generation_progress
    from harness.system.resources import usable_cores
    from reference_models.data.registry import find_data, generate_dataset, locate_dataset

    config = load_data(benchmark)
    if find_data(config.kind).generate is None:
        raise click.UsageError(f"{benchmark}: its data is not generated. {how_to_get(config, benchmark, data_root)}")
    folder = locate_dataset(config, data_root)
    with dataset_lock(folder):
        if _is_ready(folder, config, may_replace=folder != data_root):
            click.echo(f"{config.name} is already there", err=True)
        else:
            with generation_progress(config) as on_progress:
                generate_dataset(folder, config, num_threads=threads or usable_cores(), on_progress=on_progress)
    click.echo(folder)


@data.command()
@click.argument("what", metavar="BENCHMARK|DIR")
@DATA
def verify(what: str, data_root: Path | None) -> None:
    """Read a whole dataset and check it: sha256 of every file, ids inside their tables, labels and values.

    With a benchmark's name the dataset is also held against its definition. Exits 8 and names the file when
    something is wrong.
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
            sizes = sum(opened.files.values())
            files = plural(len(opened.files), "file")
            click.echo(f"{folder}: {files}, {sizes:,} bytes: sizes agree with the definition")
            click.echo("the owner of these files publishes no digest, so contents were not compared", err=True)
            return
    manifest = read_manifest(folder)
    total = sum(entry["bytes"] for entry in manifest["files"].values())
    with _byte_progress(folder.name, total) as on_bytes:
        verify_dataset(folder, on_bytes)
    splits = manifest["splits"]
    click.echo(
        f"{folder / MANIFEST}: {manifest['name']}, {splits['train']:,} train and {splits['eval']:,} eval samples, "
        f"{total:,} bytes: all as the manifest says"
        + (" and as the definition asks" if config is not None else "")
        + f"\ndataset_sha256 {manifest['dataset_sha256']}"
    )


def _is_ready(folder: Path, config: "DataConfig", *, may_replace: bool) -> bool:
    """Return whether the dataset is there. A damaged one is not, unless it may not be replaced: DatasetError then."""
    from reference_models.data.registry import open_dataset
    from reference_models.data.store.manifest import MANIFEST
    from reference_models.process.errors import DatasetError

    if not (folder / MANIFEST).exists():
        return False
    try:
        open_dataset(folder, config)
    except DatasetError as error:
        # A folder that the user named may hold another dataset; one that carries this one's digest does not.
        if not may_replace:
            raise
        click.echo(f"replacing a damaged dataset: {error}", err=True)
        return False
    return True


@contextmanager
def _byte_progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    line, done = StatusLine(), 0

    def on_bytes(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        if line.is_terminal:
            line.show(f"verifying {name}: {done / max(1, total):4.0%}")

    if not line.is_terminal:
        line.finish(f"verifying {name}: {total:,} bytes")
    yield on_bytes
    line.finish()
