"""A round as published ones are: organisations with a few sets of ours among many of MLPerf's other benchmarks."""

import json
from collections.abc import Sequence
from pathlib import Path

from log_builder import make_runs, make_system_desc, to_text
from other_benchmark_builder import make_other_run
from submission_builder import DCNV2, write, write_submission

OTHERS = ("llama31_8b", "llama2_70b_lora", "retinanet", "flux1", "rgat", "bert")


def write_round(
    root: Path,
    *,
    name: str = "training_results_v5.1",
    num_ours: int = 2,
    num_others: int = 3,
    num_logs: int = 3,
    num_code_files: int = 4,
    noise_bytes: int = 0,
    others: Sequence[str] = OTHERS,
) -> Path:
    """Write `num_ours` organisations with one set of DLRM-DCNv2 of ten runs each, and over all organisations
    `num_others` sets of other benchmarks of `num_logs` logs each.

    Every set of another benchmark has a system of its own, `num_code_files` files of code, and `noise_bytes` of a
    launcher's output in each log. One organisation more has no set of ours. Returns the round's directory.
    """
    folder = root / name
    organizations = [f"Example{number}" for number in range(num_ours + 1)]
    noise = "\n".join("+ srun --mpi=none bash -c 'launch training'" for _ in range(noise_bytes // 44))
    for number, organization in enumerate(organizations[:num_ours]):
        runs = make_runs(DCNV2, ours=False, organization=organization, start_ms=1_700_000_000_000 + number * 10**10)
        write_submission(folder, organization=organization, runs=runs)
    for number in range(num_others):
        top = folder / organizations[number % len(organizations)]
        benchmark, system = others[number % len(others)], f"system{number:03}"
        for index in range(num_logs):
            records = make_other_run(
                benchmark, seed=index, start_ms=1_690_000_000_000 + number * 10**9 + index * 10**7
            )
            write(top / "results" / system / benchmark / f"result_{index}.txt", f"{noise}\n{to_text(records)}")
        description = make_system_desc(submitter=top.name, system_name=system)
        write(top / "systems" / f"{system}.json", json.dumps(description))
        for index in range(num_code_files):
            write(top / "benchmarks" / benchmark / "implementations" / system / f"part{index:03}.py", "print()\n")
    return folder
