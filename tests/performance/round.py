"""Measure checking a whole round: 20,000 files, 160 logs of ours among 1,600 of MLPerf's other benchmarks.

    python tests/performance/round.py [--scale S]

The round is written by tests/builders/mixed_round_builder.py into a temporary folder. `dlrmbench check` judges it
without and with the second opinion of the official checkers, `score` and `report` read it; printed are the time by
the clock, the CPU time, the most memory that all processes of the command held together, and how often a line of
progress was printed. On two quiet cores check takes under 5 s without and under 60 s with second opinion, and under
300 MB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))

import psutil
from mixed_round_builder import write_round

_EVERY_S = 0.05
COMMANDS = (
    ("check", "--no-second-opinion"),
    ("check",),
    ("score",),
    ("report", "--no-second-opinion", "-o", "report.html"),
)


def measure(arguments: list[str], folder: Path) -> str:
    """Run one command in `folder` and describe what it took."""
    began_s, before = time.perf_counter(), os.times()
    with (folder / "err").open("w+") as errors, (folder / "out").open("w") as output:
        command = [sys.executable, "-m", "harness", *arguments]
        root = str(Path(__file__).parents[2])
        process = subprocess.Popen(
            command, stdout=output, stderr=errors, cwd=folder, env={**os.environ, "PYTHONPATH": root}
        )
        peak_bytes = 0
        while process.poll() is None:
            peak_bytes = max(peak_bytes, held_bytes(process.pid))
            time.sleep(_EVERY_S)
        errors.seek(0)
        num_lines = sum("official answers" in line for line in errors)
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return (
        f"{time.perf_counter() - began_s:.1f} s by the clock, {cpu_s:.1f} s of CPU, {peak_bytes / 1e6:.0f} MB, "
        f"exit code {process.returncode}, {num_lines} lines of progress"
    )


def held_bytes(pid: int) -> int:
    """Return the resident memory of a process and of all below it, in bytes."""
    total = 0
    try:
        process = psutil.Process(pid)
        for part in (process, *process.children(recursive=True)):
            total += part.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--scale", type=float, default=1.0, help="of the numbers of sets")
    scale = arguments.parse_args().scale
    with tempfile.TemporaryDirectory() as scratch:
        num_ours, num_others = max(1, round(16 * scale)), max(1, round(160 * scale))
        written = write_round(
            Path(scratch),
            num_ours=num_ours,
            num_others=num_others,
            num_logs=10,
            num_code_files=110,
            noise_bytes=60_000,
        )
        num_files = sum(path.is_file() for path in written.rglob("*"))
        print(f"{num_files:,} files, {10 * num_ours} logs of ours, {10 * num_others} of other benchmarks")
        for command in COMMANDS:
            print(f"{' '.join(command)}: {measure([command[0], str(written), *command[1:]], Path(scratch))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
