"""What a set has in common with others: repetitions of one configuration, and what it took turns with."""

from pathlib import Path

from reports.text.formatting import printable
from rules.benchmarks.loader import canonical_sha256
from rules.records.codec import Damage, decode
from rules.records.run_set import RunSetRecord
from rules.records.sweep import SweepRecord
from rules.tree.result_set import real_path

SWEEP_FILE = "sweep.json"


def repetition_key(record: RunSetRecord | None) -> str | None:
    """Return what only repetitions share: kind, configuration, dataset, threads, code and system.

    None where a set does not say its code or has no record: it is then not known to repeat another.
    """
    if record is None or record.code_sha256 is None:
        return None
    try:
        return canonical_sha256(
            {
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
