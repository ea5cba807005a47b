"""Measure time and memory of preparing CSV, JSON lines and Parquet with 13 numbers and 26 categories.

    python tests/performance/columns.py [--rows N] [--distinct]

Makes the files, prepares each in a process of its own and prints processor time per million rows and the peak of the
process's own memory above the imports (without the page cache of files). Exits 1 beyond 20 s, or 300 MB. With
--distinct every fifth column holds another value in every row, the worst case of a dictionary.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from reference_models.data.columns.prepare import prepare_columns
from reference_models.data.registry import parse_data

_CHUNK_ROWS = 250_000
_MAX_S, _MAX_BYTES = 20.0, 300e6
_TRANSFORMS = ("as_is", "log1p", "standardised")
_VALUES = (10, 100, 1000, 10_000, 100_000)
_PARAMETERS = {
    "label": "label",
    "dense": [{"column": f"d{number}", "transform": _TRANSFORMS[number % 3]} for number in range(13)],
    "sparse": [{"column": f"c{number}"} for number in range(26)],
}


def write_files(folder: Path, num_rows: int, is_distinct: bool) -> list[Path]:
    """Write the same rows as CSV, as Parquet and as JSON lines."""
    draw, writers = np.random.default_rng(0), []
    paths = [folder / "rows.csv", folder / "rows.parquet"]
    for start in range(0, num_rows, _CHUNK_ROWS):
        count = min(_CHUNK_ROWS, num_rows - start)
        columns = {"label": draw.integers(0, 2, count)}
        columns |= {f"d{number}": np.round(draw.lognormal(1, 2, count), 3) for number in range(13)}
        for number in range(26):
            values = draw.zipf(1.2, count) % _VALUES[number % 5]
            if is_distinct and number % 5 == 4:
                values = np.arange(start, start + count)
            columns[f"c{number}"] = np.char.add("v", values.astype(str))
        table = pa.table(columns)
        writers = writers or [csv.CSVWriter(paths[0], table.schema), parquet.ParquetWriter(paths[1], table.schema)]
        for writer in writers:
            writer.write_table(table)
    for writer in writers:
        writer.close()
    paths.append(folder / "rows.jsonl")
    with paths[-1].open("w") as lines, csv.open_csv(paths[0]) as batches:
        for batch in batches:
            lines.writelines(f"{json.dumps(row)}\n" for row in batch.to_pylist())
    return paths


def own_bytes() -> int:
    """Return the anonymous resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


def prepare_and_print(path: Path) -> int:
    """Prepare one file and print what it took; 1 where that is more than allowed."""
    data = parse_data({"kind": "columns", "name": "rows", "parameters": _PARAMETERS})
    before, peak = own_bytes(), [0]

    def watch() -> None:
        while True:
            peak[0] = max(peak[0], own_bytes())
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()
    started_s = time.process_time()
    prepared = prepare_columns([path], [], data, path.parent / f"prepared-{path.suffix[1:]}")
    cpu_s = (time.process_time() - started_s) / prepared.num_lines * 1e6
    more = peak[0] - before
    stages = ", ".join(f"{name} {took_s:.1f} s" for name, took_s in prepared.stages_s.items())
    print(
        f"{path.suffix[1:]:8} {prepared.num_lines:,} rows, tables of up to {max(prepared.num_embeddings):,} rows: "
        f"{cpu_s:.1f} s of processor time per million rows ({stages}), {more / 1e6:.0f} MB above the imports"
    )
    return int(cpu_s > _MAX_S or more > _MAX_BYTES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--distinct", action="store_true")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.file is not None:
        return prepare_and_print(given.file)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), given.rows, given.distinct)
        return max(subprocess.run([sys.executable, __file__, "--file", path]).returncode for path in paths)


if __name__ == "__main__":
    sys.exit(main())
