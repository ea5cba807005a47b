"""Read choices of kernels for matrix products, given by a user (`--matmul FILE`) or recorded by a run set."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.config.catalog import WorkloadConfig
from harness.foundation.errors import ExitCode, HarnessError
from reference_models.fused.choice import MatmulChoice, convert_choice
from reference_models.process.errors import ConfigError
from reference_models.registry import label_of
from rules.logs.text import show
from rules.records.codec import Damage, DamageError, convert, read_object
from rules.records.run_set import MatmulRecord, RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenMatmul:
    """Choice of kernels for matrix products that a user gave, and the source of the choice."""

    record: MatmulRecord
    source: str


def give_matmul(path: Path | None, workloads: Sequence[WorkloadConfig]) -> GivenMatmul | None:
    """Return the choice of kernels for matrix products that is in the file given by `--matmul`; None if no file is
    given.

    Raises HarnessError: exit 8 for an invalid file, exit 2 if a configuration in `workloads` cannot use the choice.
    """
    if path is None:
        return None
    record = read_matmul(path)
    refuse_other_matmul(record, path, workloads)
    return GivenMatmul(record=record, source=f"file {path}")


def read_matmul(path: Path) -> MatmulRecord:
    """Return a choice of kernels for matrix products, read from a file that holds only such a choice, or from the
    run_set.json of a run set that recorded one.

    Raises HarnessError (exit 8), which names the file and the JSON field, if the file is invalid.
    """
    content = read_object(path)
    if isinstance(content, Damage):
        raise HarnessError(f"--matmul {content}.", ExitCode.INPUT)
    place = f"--matmul {path}"
    try:
        if "schema_version" not in content:
            found = convert(content, MatmulRecord)
        else:
            choice = convert(content, RunSetRecord).choice
            if choice is None or choice.matmul is None:
                raise DamageError("choice.matmul", show(None), "the choice of matrix products of a set that has one")
            found, place = choice.matmul, f"{place}: choice.matmul"
    except DamageError as damage:
        raise HarnessError(f"--matmul {damage.at(path)}.", ExitCode.INPUT) from None
    as_choice(found, place)
    return found


def as_choice(matmul: MatmulRecord, place: str) -> MatmulChoice:
    """Convert a recorded choice of kernels for matrix products to the type that implementations take. Raises
    HarnessError (exit 8) for a kernel that this version does not know; `place` is the file for the message."""
    try:
        return convert_choice(msgspec.to_builtins(matmul), place)
    except ConfigError as error:
        raise HarnessError(str(error), ExitCode.INPUT) from None


def refuse_other_matmul(matmul: MatmulRecord, path: Path, workloads: Sequence[WorkloadConfig]) -> None:
    """Raise HarnessError (exit 2) where no configuration can choose kernels for matrix products. Raise it also where
    the user's choice does not fit the precision or the batch size of a configuration that can choose kernels."""
    choosing = [workload for workload in workloads if can_choose(workload)]
    if not choosing:
        names = ", ".join(dict.fromkeys(label_of(workload.runtime.implementation) for workload in workloads))
        raise HarnessError(
            f"--matmul {path}: implementation {names} has no choice among matrix products here. Use 'optimized', "
            "on a CPU and one rank, or leave --matmul out."
        )
    for workload in choosing:
        if workload.runtime.precision != matmul.precision:
            raise HarnessError(
                f"--matmul {path}: precision is {matmul.precision}, expected {workload.runtime.precision}, as "
                "runtime.precision says."
            )
        batch_size = workload.train.global_batch_size
        sizes = sorted({chosen.product.num_samples for chosen in matmul.products})
        if batch_size not in sizes:
            raise HarnessError(
                f"--matmul {path}: its products are of {', '.join(map(str, sizes)) or 'no'} samples, expected some "
                f"of {batch_size}, as train.global_batch_size says. Give one that was chosen for this batch size."
            )


def can_choose(workload: WorkloadConfig) -> bool:
    """Return whether a configuration has several kernels to choose from for its matrix products."""
    runtime = workload.runtime
    return workload.implementation.chooses_matmul and runtime.device == "cpu" and runtime.ranks == 1
