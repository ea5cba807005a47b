"""What a set has in common with others: repetitions of one configuration, its turns, its pair or sweep."""

from collections.abc import Sequence
from pathlib import Path

from reports.text.formatting import distinct_labels, printable
from rules.benchmarks.loader import canonical_sha256
from rules.records.codec import Damage, decode
from rules.records.pair import SIDES
from rules.records.run_set import RunSetRecord
from rules.records.sweep import SweepRecord
from rules.tree.result_set import real_path

SWEEP_FILE, PAIR_FILE = "sweep.json", "pair.json"


def repetition_key(record: RunSetRecord | None) -> str | None:
    """Return what only repetitions share: kind, configuration, dataset, threads, products, code and system.

    None where a set does not say its code or has no record: it is then not known to repeat another.
    """
    if record is None or record.code_sha256 is None:
        return None
    choice = record.choice
    chosen = None if choice is None else [choice.spin_count, choice.matmul and choice.matmul.digest]
    try:
        return canonical_sha256(
            {
                "chosen": chosen,
                "kind": [record.kind, record.options, record.num_threads, record.code_sha256, record.system.name],
                "benchmark": [record.benchmark.definition_sha256, record.dataset.dataset_sha256, record.division],
                "config": {key: entry.value for key, entry in record.config.items()},
            }
        )
    except ValueError:  # text that is no UTF-8
        return None


def turns_of(folder: Path) -> str | None:
    """Return the folder of the sweep in which the measurement in `folder` took turns with others; else None."""
    above = real_path(folder).parent
    if not (above / SWEEP_FILE).is_file():
        return None
    sweep = decode(above / SWEEP_FILE, SweepRecord)
    if isinstance(sweep, Damage):
        return None
    names = {configuration.folder for configuration in sweep.configurations}
    return printable(above, 1000) if real_path(folder).name in names else None


def labels_of(places: Sequence[tuple[str, Path | None]]) -> tuple[str, ...]:
    """Labels that differ, of sets by their names and folders: of several pairs or sweeps, each is called by its own.

    'beside-small-20261122T101500Z/base' then: where sets of several share a name, all sets of these pairs and sweeps
    are called so. Any other name that is there already gets a number.
    """
    groups = [_group_of(folder) for _, folder in places]
    used: dict[str, set[Path | None]] = {}
    for (label, _), group in zip(places, groups, strict=True):
        used.setdefault(label, set()).add(group)
    shared = {group for found in used.values() if len(found) > 1 for group in found}
    return distinct_labels(
        f"{printable(group.name, 80)}/{label}" if group is not None and group in shared else label
        for (label, _), group in zip(places, groups, strict=True)
    )


def _group_of(folder: Path | None) -> Path | None:
    """The folder of the pair or sweep that the set in `folder` is of."""
    if folder is None:
        return None
    above = real_path(folder).parent
    is_in_group = (above / SWEEP_FILE).is_file() or pair_of(folder) is not None
    return above if is_in_group else None


def pair_of(folder: Path | None) -> str | None:
    """The name of the pair that a folder is one side of."""
    if folder is None or folder.name not in SIDES:
        return None
    above = real_path(folder).parent
    return printable(above.name, 80) if (above / PAIR_FILE).is_file() else None
