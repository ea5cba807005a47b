"""Describe how a study (findings and tables) was made, for its record: command, code, processor, environment, and the
digests of input files."""

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from harness.system.code import code_sha256
from harness.system.hardware import read_processors
from harness.system.software import environment
from rules.logs.text import printable
from rules.records.experiment import ExperimentRecord
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.run_set import RunSetRecord
from rules.records.study import InputRecord, MadeRecord

_BLOCK = 1 << 20


def describe_making(command: Sequence[str], inputs: Iterable[Path] = ()) -> MadeRecord:
    """Return a description of how this process makes a study (findings and tables): the command line in `command`,
    and digests that identify the files `inputs`.

    A folder among the inputs is identified by its manifest. Inputs that can no longer be read are left out.
    """
    processors = read_processors()
    return MadeRecord(
        command=shlex.join(command),
        created_utc=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        harness_version=version("dlrmbench"),
        code_sha256=code_sha256(),
        processor=processors.model_name,
        num_processors=str(processors.num_packages) if processors.num_packages else None,
        environment=environment(),
        inputs=tuple(record for path in inputs if (record := _describe_input(path)) is not None),
    )


def making_of(record: ExperimentRecord, member: RunSetRecord | None) -> MadeRecord | None:
    """Return a description of how the study of an experiment was made, from the experiment's record and the record of
    one of its run sets, `member`. None if there is no run set, or the code that made it is unknown."""
    if member is None or member.code_sha256 is None:
        return None
    fields = member.system.fields
    return MadeRecord(
        command=record.command,
        created_utc=record.created_utc,
        harness_version=record.harness_version,
        code_sha256=member.code_sha256,
        processor=fields.get("host_processor_model_name") or None,
        num_processors=fields.get("host_processors_per_node") or None,
        environment=member.environment,
    )


def _describe_input(path: Path) -> InputRecord | None:
    digest = hashlib.sha256()
    try:
        with (path / MANIFEST_FILE if path.is_dir() else path).open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError:
        return None
    return InputRecord(name=printable(str(path)), sha256=digest.hexdigest())
