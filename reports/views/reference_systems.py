"""Makes the list of reference systems as blocks. A reference system is a bundle (.zip) of results of one system,
shipped with dlrmbench or a user's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reports.comparison.history import read_history
from reports.document.blocks import Block, Heading, Prose
from reports.results.records import read_run_set
from reports.results.reference_systems import FOLDER_VARIABLE, known_bundles, open_system
from reports.text.formatting import printable
from reports.views.history import history_blocks
from rules.errors import InputError


def describe_systems(folder: Path | None = None) -> list[dict[str, Any]]:
    """Describe each known reference system, from the records of the result sets in its bundle. The known systems are
    those of the shipped bundles and of the bundles in `folder`.

    A description has name, file, MLPerf's fields of the system, processor, and past result sets. If a bundle cannot
    be read, its description has no sets, and `problem` is the reason. Raises InputError if `folder` does not exist.
    """
    if folder is not None and not folder.is_dir():
        raise InputError(f"{printable(folder)}: no such directory. Give a folder of bundles, or none.")
    found = list[dict[str, Any]]()
    for path in known_bundles(folder):
        try:
            system = open_system(path)
        except (InputError, OSError) as error:
            found.append({"name": path.stem, "path": str(path), "problem": printable(str(error)), "sets": ()})
            continue
        sets, _ = read_history(system.folder)
        record = read_run_set(Path(sets[0].folder), []) if sets else None
        about = {"fields": record.system.fields, "processor": record.environment.get("processor")} if record else {}
        version = system.record.harness_version
        # Only names of folders: the temporary folder of the unpacked bundle is gone when anybody reads this.
        named = [replace(past, folder=Path(past.folder).name) for past in sets]
        found.append(
            {"name": system.record.name, "path": str(path), "harness_version": version, **about, "sets": named}
        )
    return found


def systems_blocks(systems: Sequence[dict[str, Any]]) -> tuple[Block, ...]:
    """Return, for each reference system, a heading, a sentence on the system and a table of the result sets in its
    bundle."""
    how = "'dlrmbench measure-system --bundle NAME' makes a bundle of this system"
    none = f"No reference system is here. {how}; {FOLDER_VARIABLE} names a folder of them."
    blocks: list[Block] = [] if systems else [Prose(text=none)]
    for system in systems:
        blocks.append(Heading(text=printable(system["name"])))
        if "problem" in system:
            blocks.append(Prose(text=f"Not used: {system['problem']}"))
            continue
        of, numbers = system.get("fields", {}), system.get("processor")
        about = f"{of.get('host_processors_per_node')} x {of.get('host_processor_model_name')}"
        about += f" ({numbers})" if numbers else ""
        about += f", {of.get('host_processor_core_count')} cores each, {of.get('host_memory_capacity')}"
        blocks.append(Prose(text=printable(f"{about}; {of.get('framework')}; {system['path']}", 400)))
        blocks += history_blocks(system["sets"])
    return tuple(blocks)
