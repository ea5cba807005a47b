"""Generating the click log: samples per second of one core, and as a ratio to writing the same bytes alone.

python tests/performance/generate.py [BENCHMARK]
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from harness.config.catalog import load_entry
from reference_models.config.sections import DataConfig
from reference_models.data.registry import generate_dataset

ROUNDS = 5
NUM_SAMPLES = 500_000


def generate_s(data: DataConfig, folder: Path) -> tuple[float, float]:
    """Wall and processor seconds; a busy machine stretches only the first."""
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    generate_dataset(folder, data, num_threads=1)
    return time.perf_counter() - start_s, time.process_time() - start_cpu_s


def rewrite_s(folder: Path) -> float:
    """The same bytes once more, without making them; their digests are part of generating and left out here."""
    contents = [path.read_bytes() for path in sorted(folder.glob("*.npy"))]
    start_s = time.perf_counter()
    for number, content in enumerate(contents):
        (folder / f"copy_{number}").write_bytes(content)
    return time.perf_counter() - start_s


def main(name: str) -> None:
    data = replace(load_entry(name).workload.data, train_samples=NUM_SAMPLES, eval_samples=1000, sha256=None)
    made, busy, written = [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            wall_s, cpu_s = generate_s(data, Path(folder))
            made.append(wall_s)
            busy.append(cpu_s)
            written.append(rewrite_s(Path(folder)))
    num_samples = NUM_SAMPLES + 1000
    rate, cpu_rate = num_samples / statistics.median(made), num_samples / statistics.median(busy)
    print(f"{name}, one thread, files and sha256 included; measured, median of {ROUNDS}:")
    print(f"  {rate:,.0f} samples/s of wall time, ratio to 1,000,000: {rate / 1e6:.2f}")
    print(f"  {cpu_rate:,.0f} samples/s of processor time, ratio to 1,000,000: {cpu_rate / 1e6:.2f}")
    print(
        f"  ratio to the time of writing the bytes alone: {statistics.median(made) / statistics.median(written):.1f}"
    )


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["dlrm_small"]))
