"""Add to a package the JSON records of dlrmbench's own run sets and of each of their runs, and on request the
weights.

The records are next to the scripts, in benchmarks/<benchmark>/<system>/extra/, as they are in a run set: the rules
then check the logs of a package against them, and `serve --weights` finds the kept weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.extensions.packaging.tree import Tree, is_plain_file
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from harness.run_sets.folder import RUN_SET_FILE
from rules.logs.text import printable
from rules.records.chain import LAST_FILE
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.weights import WEIGHTS_FOLDER, WeightsManifest

EXTRA = "extra"
_FILES = (RUN_SET_FILE, "definition.toml", LAST_FILE)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagedWeights:
    """Weights (final parameters) that were packaged, of one run set or of a whole package: the number of their runs,
    and their bytes."""

    num_runs: int = 0
    num_bytes: int = 0


def add_records(tree: Tree, place: str, root: Path) -> None:
    """Add to the package's folder `place` the JSON records of the run set in `root`, and the JSON records of each of
    its runs that became a result."""
    for name in _FILES:
        if is_plain_file(root / EXTRA / name):
            tree.add(f"{place}/{EXTRA}/{name}", root / EXTRA / name)
    for record in sorted(root.glob(f"{EXTRA}/run_*/attempt_*/run.json")):
        # An attempt that still has its log did not become a result.
        if is_plain_file(record) and not record.with_name("log.txt").exists():
            tree.add(f"{place}/{record.relative_to(root).as_posix()}", record)


def add_weights(tree: Tree, place: str, root: Path) -> PackagedWeights:
    """Add to the package's folder `place` the weights that runs of the run set in `root` kept: each file that a
    manifest of weights lists.

    Raises HarnessError (exit 8) where a manifest or a file is damaged.
    """
    num_runs = num_bytes = 0
    for folder, manifest in kept_weights(root):
        inner = f"{place}/{folder.relative_to(root).as_posix()}"
        tree.add(f"{inner}/{MANIFEST_FILE}", folder / MANIFEST_FILE)
        for name, tensor in manifest.tensors.items():
            file = folder / f"{name}.npy"
            if not is_plain_file(file):
                raise _damaged(file, "no regular file")
            if (found := tree.add(f"{inner}/{file.name}", file)) != tensor.sha256:
                raise _damaged(file, f"sha256 {found[:12]}… where the manifest says {tensor.sha256[:12]}…")
        num_runs, num_bytes = num_runs + 1, num_bytes + manifest.num_bytes
    return PackagedWeights(num_runs=num_runs, num_bytes=num_bytes)


def kept_weights(root: Path) -> Iterator[tuple[Path, WeightsManifest]]:
    """Yield the folders with weights of the run set in `root`. Raises HarnessError (exit 8) for a damaged
    manifest."""
    for path in sorted(root.glob(f"{EXTRA}/run_*/{WEIGHTS_FOLDER}/{MANIFEST_FILE}")):
        if is_plain_file(path) and not path.parent.is_symlink():
            yield path.parent, read_record(path, WeightsManifest)


def _damaged(file: Path, why: str) -> HarnessError:
    return HarnessError(
        f"{printable(str(file))}: {why}. Leave --weights out, or keep weights anew with 'dlrmbench run "
        "--keep-weights'.",
        ExitCode.INPUT,
    )
