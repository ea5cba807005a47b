"""The shipped reference systems: what each is, and its sets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports.comparison.history import read_history
from reports.document.blocks import Block, Heading, Prose
from reports.results.records import read_run_set
from reports.results.reference_systems import find_system, system_names
from reports.views.history import history_blocks


def describe_systems() -> list[dict[str, Any]]:
    """Describe each by the records of its sets: name, MLPerf's fields of the system, processor, and past sets."""
    found = []
    for name in system_names():
        sets, _ = read_history(find_system(name))
        record = read_run_set(Path(sets[0].folder), []) if sets else None
        about = {"fields": record.system.fields, "processor": record.environment.get("processor")} if record else {}
        found.append({"name": name, **about, "sets": sets})
    return found


def systems_blocks(systems: Sequence[dict[str, Any]]) -> tuple[Block, ...]:
    """Return a heading, a sentence on the system and a table of sets for each."""
    blocks: list[Block] = [] if systems else [Prose(text="No reference system is shipped with this copy.")]
    for system in systems:
        of, numbers = system.get("fields", {}), system.get("processor")
        about = f"{of.get('host_processors_per_node')} x {of.get('host_processor_model_name')}"
        about += f" ({numbers})" if numbers else ""
        about += f", {of.get('host_processor_core_count')} cores each, {of.get('host_memory_capacity')}"
        blocks += [Heading(text=system["name"]), Prose(text=f"{about}; {of.get('framework')}")]
        blocks += history_blocks(system["sets"])
    return tuple(blocks)
