"""`data prepare --memory`: the peak of a real process, whatever is in the files and however wide their rows are."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from places import ROOT
from pyarrow import parquet
from waiting import HANG_S

from reference_models.data.columns.parameters import MAX_IDS

MEMORY_BYTES = 512 << 20
NUM_DISTINCT = 2_300_000
"""Rows, of which nine tenths train: nearly as many categories as there is room for."""
PEAK_OF = """
import os, subprocess, sys
with subprocess.Popen([sys.executable, "-m", "harness", *sys.argv[1:]], stdout=subprocess.DEVNULL) as process:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, usage.ru_maxrss * 1024)
"""
"""A process of its own, for what it starts is said to have had the memory of who started it."""
EXAMPLE = ROOT / "reference_models" / "examples"


def peak_bytes(folder: Path, parameters: str, file: Path) -> int:
    text = (EXAMPLE / "clicks.toml").read_text()
    begin, end = text.index("[data.parameters]"), text.index("[train]")
    (folder / "mine.toml").write_text(f"{text[:begin]}[data.parameters]\n{parameters}\n{text[end:]}")
    words = [
        "data",
        "prepare",
        "mine.toml",
        "--train",
        str(file),
        "--memory",
        str(MEMORY_BYTES),
        "-q",
        "--data",
        "data",
    ]
    done = subprocess.run(
        [sys.executable, "-c", PEAK_OF, *words],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=HANG_S,
        check=True,
    )
    code, peak = map(int, done.stdout.split())
    assert code == 0, done.stderr
    return peak


def write_distinct_text(path: Path) -> None:
    with path.open("w") as file:
        file.write("y,t,c\n")
        file.writelines(f"{number & 1},{number},{number * 7919:x}\n" for number in range(NUM_DISTINCT))


def write_one_group(path: Path) -> None:
    number = np.arange(NUM_DISTINCT)
    table = pa.table({"y": (number & 1).astype("int8"), "t": number, "c": number * 7919})
    parquet.write_table(table, path, row_group_size=NUM_DISTINCT)


def write_short_cells(path: Path) -> None:
    path.write_text("y,t,c\n" + "".join(f"{number & 1},{number},{number % 9}\n" for number in range(20_000)))


def write_many_numbers(path: Path) -> None:
    """More of them than a batch of rows may take at once."""
    number = np.arange(30_000)
    columns = {f"n{column}": (number * column % 97).astype("float32") for column in range(1000)}
    parquet.write_table(pa.table({"y": (number & 1).astype("int8"), "c": number % 9, **columns}), path)


DENSE = ", ".join(f'{{ column = "n{column}", transform = "standardised" }}' for column in range(1000))
CATEGORY = 'sparse = [{ column = "c" }]'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "parameters"),
    [
        (write_distinct_text, f'split = "time"\ntime = "t"\n{CATEGORY}'),
        (write_one_group, f'split = "fraction"\n{CATEGORY}'),
        (write_short_cells, 'split = "fraction"\nsparse = [{ column = "c", separator = "/", max_ids = 5000 }]'),
        (write_many_numbers, f'split = "fraction"\ndense = [{DENSE}]\n{CATEGORY}'),
    ],
)
def test_no_input_takes_more_than_a_quarter_beyond_what_was_said(
    write: Callable[[Path], None], parameters: str, tmp_path: Path
) -> None:
    """Above what the interpreter and its libraries take, which differs from system to system."""
    (tmp_path / "few").mkdir()
    few = peak_bytes(tmp_path / "few", 'label = "click"\nsparse = [{ column = "site_id" }]', EXAMPLE / "clicks.csv")
    write(tmp_path / "rows")
    peak = peak_bytes(tmp_path, f'label = "y"\n{parameters}', tmp_path / "rows")
    assert peak - few <= 1.25 * MEMORY_BYTES, f"{peak >> 20} MiB, of which {few >> 20} MiB are imports"


def test_more_ids_of_a_sample_than_any_cell_has_are_refused(inside: Callable[..., object], tmp_path: Path) -> None:
    text = (EXAMPLE / "clicks.toml").read_text()
    column = f'{{ column = "site_id", separator = "/", max_ids = {MAX_IDS} }}'
    (tmp_path / "mine.toml").write_text(text.replace('{ column = "site_id" }', column))
    done: subprocess.CompletedProcess[str] = inside("data", "prepare", "mine.toml", "--train", EXAMPLE / "clicks.csv")
    assert done.returncode == 2 and f"a sample has {MAX_IDS + 2:,} ids" in done.stderr, done.stderr
