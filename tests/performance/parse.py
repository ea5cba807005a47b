"""Measure how fast Criteo text is parsed, beside a per-line parser of the kind that facebookresearch/dlrm uses.

    python tests/performance/parse.py [--rows N] [--memory-test GIB]

Both parsers read the same generated lines in one process on one thread, alternately; the ratio of medians is printed.
Then a whole preparation is timed. With --memory-test a file of that size is prepared under the default bound and the
peak of the process's own memory (without the page cache of files) is printed: exit 1 if it exceeds the bound.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))

import numpy as np
from criteo_builder import make_text

from reference_models.data.criteo.parse import parse_block, transform_integers
from reference_models.data.criteo.tsv import prepare_tsv
from reference_models.data.prepared.lines import BLOCK_BYTES
from reference_models.data.prepared.pipeline import MEMORY_BYTES, PreparedDataset
from reference_models.data.registry import parse_data

_ROUNDS = 5
_PER_LINE_ROWS = 20_000
_MAX_IND_RANGE = 10_000_000


def parse_per_line(text: bytes) -> int:
    """As data_utils.py's inner loop does it: split, fill in zeros, convert a row, take ids modulo, note them."""
    lines = text.decode().splitlines(keepends=True)
    labels = np.zeros(len(lines), np.int32)
    integers = np.zeros((len(lines), 13), np.int32)
    categories = np.zeros((len(lines), 26), np.int32)
    seen: list[dict[int, int]] = [{} for _ in range(26)]
    for row, line in enumerate(lines):
        fields = line.split("\t")
        for column, field in enumerate(fields):
            if field in ("", "\n"):
                fields[column] = "0"
        labels[row] = np.int32(fields[0])
        integers[row] = np.array(fields[1:14], np.int32)
        categories[row] = np.array([int(field, 16) % _MAX_IND_RANGE for field in fields[14:]], np.int32)
        for column in range(26):
            seen[column][categories[row][column]] = 1
    return len(lines)


def parse_columns(text: bytes) -> int:
    """The preparation's parsing stage: blocks of lines to labels, log(x + 1) and category values."""
    num_rows, start = 0, 0
    while start < len(text):
        stop = text.rfind(b"\n", start, start + BLOCK_BYTES) + 1
        rows = parse_block(text[start:stop])
        transform_integers(rows.integers)
        num_rows += len(rows.labels)
        start = stop
    return num_rows


def rows_per_s(parse: Callable[[bytes], int], text: bytes) -> float:
    started_s = time.perf_counter()
    return parse(text) / (time.perf_counter() - started_s)


def prepare(path: Path, folder: Path, memory_bytes: int) -> PreparedDataset:
    parameters = {"split": "days", "num_days": 7}
    data = parse_data({"kind": "criteo", "name": "generated", "parameters": parameters})
    return prepare_tsv([path], [], data, folder, memory_bytes=memory_bytes)


def print_stages(prepared: PreparedDataset, num_bytes: int) -> None:
    total_s = sum(prepared.stages_s.values())
    stages = ", ".join(f"{name} {prepared.num_lines / took_s:,.0f}" for name, took_s in prepared.stages_s.items())
    print(
        f"whole preparation of {num_bytes / 2**20:,.0f} MiB, {prepared.num_lines:,} rows, "
        f"{sum(prepared.num_embeddings):,} ids: {prepared.num_lines / total_s:,.0f} rows/s (stages: {stages})"
    )


class PeakMemory:
    """Samples this process's anonymous resident memory: pages of files belong to the system's cache."""

    def __enter__(self) -> "PeakMemory":
        self.peak_bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--memory-test", type=float, metavar="GIB")
    options = arguments.parse_args()
    text = make_text(options.rows)
    short = b"".join(text.splitlines(keepends=True)[:_PER_LINE_ROWS])
    slow, fast = [], []
    for _ in range(_ROUNDS):
        slow.append(rows_per_s(parse_per_line, short))
        fast.append(rows_per_s(parse_columns, text))
    print(
        f"per line {median(slow):,.0f} rows/s, columnar {median(fast):,.0f} rows/s: "
        f"ratio {median(fast) / median(slow):.1f} (one thread, median of {_ROUNDS})"
    )
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "train.txt"
        path.write_bytes(text)
        print_stages(prepare(path, Path(scratch) / "one", MEMORY_BYTES), len(text))
        if options.memory_test is None:
            return 0
        with path.open("wb") as file:
            seed = 0
            while file.tell() < options.memory_test * 2**30:
                file.write(make_text(100_000, seed=seed, exponent=1.5))
                seed += 1
        with PeakMemory() as memory:
            prepared = prepare(path, Path(scratch) / "two", MEMORY_BYTES)
        print_stages(prepared, path.stat().st_size)
        print(f"peak memory {memory.peak_bytes / 2**20:,.0f} MiB, bound {MEMORY_BYTES / 2**20:,.0f} MiB")
        return int(memory.peak_bytes > MEMORY_BYTES)


if __name__ == "__main__":
    sys.exit(main())
