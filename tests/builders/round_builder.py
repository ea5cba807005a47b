"""Two synthetic rounds of an official benchmark side by side, with what readers of published rounds stumble over.

Long names that differ in their middle, runs submitted again in the next round, a set that breaks a rule, findings of
submissions themselves.
"""

import shutil
from pathlib import Path

from log_builder import START_MS, Record, make_runs, with_record
from submission_builder import DCNV2, write_submission

HPE_SYSTEMS = tuple(f"HPE-Cray-XD670-H200-SXM5-141GB_{nodes}_ngc25.03_merlin_hugectr" for nodes in ("n1", "n2", "n4"))
INVALID_LABEL = "Florida · node-0 · v5.1"


def write_rounds(root: Path, num_others: int = 22) -> Path:
    """Rounds 5.0 and 5.1 below `root`, of 10 sets and `num_others` more: HPE's three, NVIDIA's two in both rounds,
    Florida's two, of which the first is INVALID, and Cisco's, whose submission lacks benchmarks/."""
    older, newer = root / "training_results_v5.0", root / "training_results_v5.1"
    _write(older, "HPE", HPE_SYSTEMS, 2.4e7)
    _write(older, "NVIDIA", ("tyche_ngpu8", "tyche_ngpu64"), 3.0e7)
    for name in ("systems", "results", "benchmarks"):
        shutil.copytree(older / "NVIDIA" / name, newer / "NVIDIA" / name)
    _write(newer, "Florida", tuple(f"node-{number}" for number in range(2)), 1.8e7, first_epsilon=1e-7)
    shutil.rmtree(_write(newer, "Cisco", ("hpf_n8",), 2.1e7) / "benchmarks")
    _write(newer, "Vendor", tuple(f"system-{number:02d}" for number in range(num_others)), 2.0e7)
    return root


def _write(
    folder: Path, organization: str, systems: tuple[str, ...], throughput: float, first_epsilon: float | None = None
) -> Path:
    """A submission whose systems are each a twentieth faster than the one before; the first may break a rule."""
    for number, system in enumerate(systems):
        runs = _runs(organization, throughput * 1.05**number, START_MS + number * 10**9)
        if first_epsilon is not None and number == 0:
            runs = [with_record(records, "opt_adagrad_epsilon", value=first_epsilon) for records in runs]
        write_submission(folder, organization=organization, systems=(system,), runs=runs)
    return folder / organization


def _runs(organization: str, throughput: float, start_ms: int) -> list[list[Record]]:
    """Ten runs with seeds of their own."""
    start_ms += sum(map(ord, organization)) * 10**6
    runs = make_runs(DCNV2, ours=False, organization=organization, throughput=throughput, start_ms=start_ms)
    return [with_record(records, "seed", value=start_ms // 1000 + index) for index, records in enumerate(runs)]
