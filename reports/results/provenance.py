"""Finds how a result set relates to others: whether it repeats a configuration, was measured alternately with others,
or belongs to a pair or sweep."""

from collections.abc import Sequence
from pathlib import Path

from reports.text.formatting import distinct_labels, printable
from rules.benchmarks.loader import canonical_sha256
from rules.records.codec import Damage
from rules.records.experiment import ExperimentRecord, Group, is_table, read_experiment, read_group
from rules.records.run_set import RunSetRecord
from rules.tree.result_set import real_path


def repetition_key(record: RunSetRecord | None) -> str | None:
    """Return a digest that is equal for two result sets only if one repeats the other: same kind, configuration,
    dataset, threads, matrix products, code and system.

    A system is identified by its name and by its processor's family and model, because virtual processors of several
    models have one name. None if a set has no record, or no digest of its code: such a set is not known to repeat
    another.
    """
    if record is None or record.code_sha256 is None:
        return None
    choice = record.choice
    chosen = None if choice is None else [choice.spin_count, choice.matmul and choice.matmul.digest]
    if chosen is not None and choice is not None and choice.service is not None:
        chosen += choice.service.chosen.setup
    try:
        return canonical_sha256(
            {
                "chosen": chosen,
                "kind": [record.kind, record.options, record.num_threads, record.code_sha256],
                "system": [record.system.name, record.environment.get("processor")],
                "benchmark": [record.benchmark.definition_sha256, record.dataset.dataset_sha256, record.division],
                "config": {key: entry.value for key, entry in record.config.items()},
            }
        )
    except ValueError:  # a text is not valid UTF-8
        return None


def group_of(folder: Path | None) -> Group | None:
    """Return the group (pair, sweep, suite or search) in which the result set in `folder` was measured; None for a
    set that was measured by itself."""
    if folder is None:
        return None
    place = real_path(folder)
    group = read_group(place.parent)
    return group if group is not None and group.holds(place.name) else None


def name_of(folder: Path) -> str:
    """Return the name of the set in `folder`: the folder's name; for a set in a pair or sweep, the label that the
    pair's or sweep's record gives it."""
    name, group = real_path(folder).name, group_of(folder)
    if group is not None and not isinstance(group.record, Damage):
        name = next((side.label for side in group.record.configurations if side.folder == name), name)
    return printable(name, 80)


def interleaving_of(folder: Path) -> str | None:
    """Return the folder of the sweep or suite in which the measurement in `folder` was made alternately with others;
    else None."""
    group = group_of(folder)
    if group is None or isinstance(group.record, Damage) or group.record.reads_as not in ("table", "pairs"):
        return None
    return printable(group.file.parent, 1000)


def labels_of(places: Sequence[tuple[str, Path | None]]) -> tuple[str, ...]:
    """Return distinct labels of result sets, made from their names and folders.

    Sets of pairs and sweeps whose names occur in several pairs or sweeps are labelled with the folder of the pair or
    sweep, as in 'beside-small-20261122T101500Z/base'. Any other repeated name gets a number.
    """
    groups = _groups_of([folder for _, folder in places])
    used: dict[str, set[Path | None]] = {}
    for (label, _), group in zip(places, groups, strict=True):
        used.setdefault(label, set()).add(group)
    shared = {group for found in used.values() if len(found) > 1 for group in found}
    return distinct_labels(
        f"{printable(group.name, 80)}/{label}" if group is not None and group in shared else label
        for (label, _), group in zip(places, groups, strict=True)
    )


def _groups_of(folders: Sequence[Path | None]) -> list[Path | None]:
    """Return, for each result set, the folder of the group (such as a pair or sweep) in which it was measured; None
    for a set measured by itself. Every set in a sweep's folder belongs to the sweep."""
    places = [None if folder is None else real_path(folder) for folder in folders]
    groups = {above: read_group(above) for above in {place.parent for place in places if place}}
    return [
        place.parent
        if place and (group := groups[place.parent]) and (is_table(group.record) or group.holds(place.name))
        else None
        for place in places
    ]


def pair_of(folder: Path | None) -> str | None:
    """Return the name of the pair (two sets measured alternately) that has the result set in `folder`; None for any
    other set."""
    group = group_of(folder)
    return None if group is None or not group.is_pair else printable(group.file.parent.name, 80)


def search_of(folder: Path | None) -> ExperimentRecord | None:
    """Return the record of a hyperparameter search, given the folder of a result set: the set belongs to an A/B pair
    that the search made. None for a set in no such pair."""
    if pair_of(folder) is None:
        return None
    assert folder is not None
    record = read_experiment(real_path(folder).parent.parent)
    return record if isinstance(record, ExperimentRecord) and record.reads_as == "trials" else None


def with_seed(command: str, seed: int) -> str:
    """Return a command with the option `--seed` added where it has none; an empty command stays empty."""
    return command if not command or "--seed" in command.replace("=", " ").split() else f"{command} --seed {seed}"


def seeded_command(record: RunSetRecord, folder: Path | None) -> str:
    """Return the command that made a run set, with its seed added if the command names none. For a set in a pair that
    a hyperparameter search made, return the search's command."""
    made = search_of(folder) or record
    return with_seed(made.command, made.base_seed)


def order_in_pair(folder: Path | None) -> int:
    """Return the position of the result set in `folder` in its A/B pair: 0 for the base, 1 for the other; 0 for a set
    in no pair."""
    group = group_of(folder)
    if folder is None or group is None or isinstance(group.record, Damage) or not group.is_pair:
        return 0
    return group.record.folders.index(real_path(folder).name)
