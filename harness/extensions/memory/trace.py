"""Make traces of embedding lookups from a benchmark or a file, write them as folders, and read them back."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.autotune.id_maps import ensure_id_map
from harness.config.catalog import refuse_without_bags
from harness.config.run_config import RunConfig, command_name
from harness.extensions.memory.records import TraceManifest
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from harness.foundation.kept_arrays import read_kept, write_kept
from harness.measure.id_maps import read_id_maps
from harness.measure.refusals import refuse_id_map
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.progress import generation_progress
from harness.system.resources import read_resources
from reference_models.data.registry import open_dataset
from reference_models.data.synthetic.config import SYNTHETIC_KINDS, ZIPF_EXPONENT
from reference_models.data.table_file import FORMS, TableEntry, read_tables
from reference_models.data.traces.sources import (
    generate_reuse,
    read_lookups,
    read_profile,
    trace_split,
)
from reference_models.data.traces.trace import AccessTrace, Ids, TracedTable
from reference_models.process.errors import DatasetError
from reference_models.serving.weight_bytes import row_bytes
from rules.benchmarks.loader import Benchmark
from rules.records.kept.arrays import MANIFEST_FILE

_AGAIN = "Make it again with 'dlrmbench trace'."
_LOOKUPS, _PROFILES = (".pt", ".gz"), (".log", ".txt")
_FLOAT_BYTES = 4
_LOOKUP_BYTES = 100
"""Bytes of memory that drawing one lookup takes, Python's lists of numbers included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptTrace:
    """A trace of embedding lookups, with the fields that its manifest.json takes."""

    trace: AccessTrace
    about: dict[str, Any]
    """Fields of the trace's manifest (TraceManifest) by name, except tables and arrays."""
    benchmark: Benchmark | None = None
    zipf_exponents: tuple[float, ...] | None = None
    """Exponent of the power law from which each table's ids were drawn [tables]; None where rows' probabilities are
    unknown."""


def trace_benchmark(
    config: RunConfig, split: Literal["train", "eval"], num_lookups: int, data_root: Path | None
) -> KeptTrace:
    """Trace the embedding lookups that a model makes for the first samples of a split. Stop after `num_lookups`
    lookups, or at the end of the split.

    Raises ConfigError if the model has no embedding bags, and DatasetError if the data cannot be read or made.
    """
    workload, benchmark = config.workload, config.benchmark
    refuse_without_bags(workload, "trace")
    refuse_id_map(workload.data, "made")
    data, num_samples = workload.data, max(1, num_lookups // workload.data.mapped.num_lookups)
    if is_synthetic := data.kind in SYNTHETIC_KINDS:
        _refuse_many(num_lookups)
        data = replace(data, train_samples=num_samples, eval_samples=num_samples)
    threads = workload.runtime.threads or read_resources().num_cores
    with generation_progress(data, quiet=False) as shown:
        name = command_name(benchmark)
        folder = ensure_dataset(data, data_root, on_progress=shown, num_threads=threads, benchmark=name)
    ensure_id_map(config, folder)
    if (read := read_id_maps(workload, folder)) is not None:
        data = replace(data, id_maps=read.tables)
    opened = open_dataset(folder, data)
    samples = opened.train if split == "train" else opened.eval
    trace = trace_split(samples, min(num_samples, samples.num_samples), f"{folder}: {split} split, from sample 0")
    about = {
        "source": f"{split} split of {benchmark.name}",
        "benchmark": benchmark.name,
        "definition_sha256": benchmark.definition_sha256,
        "dataset_sha256": opened.dataset_sha256,
        "row_bytes": workload.costs(trace.num_rows).row_width * _FLOAT_BYTES,
    }
    is_drawn = is_synthetic and not data.id_map.is_active
    exponents = (data.parameters["zipf_exponent"],) * len(trace.num_rows) if is_drawn else None
    return KeptTrace(trace=trace, about=about, benchmark=benchmark, zipf_exponents=exponents)


def is_file(path: Path) -> bool:
    """Return whether `path` has the suffix of a file to trace: lookups, a profile of stack distances, or tables."""
    return path.suffix in (*_LOOKUPS, *_PROFILES, *FORMS)


def trace_tables(path: Path, num_lookups: int, items: int, seed: int) -> KeptTrace:
    """Draw `num_lookups` lookups of the embedding tables that a file describes, in queries of `items` samples each.

    Raises DatasetError, HarnessError (exit 9 for more lookups than fit in memory), OSError.
    """
    from reference_models.data.traces.drawn import count_lookups, draw_lookups  # loads torch

    entries = read_tables(path, ("width", "pooling"))
    of_query = count_lookups(entries, items)
    num_queries = max(1, int(num_lookups / of_query))
    _refuse_many(num_lookups, math.ceil(num_queries * (of_query + len(entries) * items)))
    trace = draw_lookups(entries, num_queries, items, seed)
    trace.check(str(path))
    trace = replace(trace, tables=_describe(entries), samples_per_query=items)
    exponents = tuple(ZIPF_EXPONENT if each.zipf_exponent is None else each.zipf_exponent for each in entries)
    about = {"source": f"lookups drawn of the tables in {path.name}", "seed": seed}
    return KeptTrace(trace=trace, about=about, zipf_exponents=exponents)


def _describe(entries: Sequence[TableEntry]) -> tuple[TracedTable, ...]:
    """Return each embedding table's name, bytes of a row as stored (fp32 unless given), and side (user or item)."""
    return tuple(
        TracedTable(
            each.name, None if each.width is None else row_bytes(each.width, each.precision or "fp32"), each.side
        )
        for each in entries
    )


def trace_file(path: Path, num_lookups: int, seed: int, tables: Path | None = None, items: int = 1) -> KeptTrace:
    """Read a file of embedding lookups, or draw lookups that follow a file's profile of stack distances.

    `tables` is a file that describes the tables. A query is `items` samples, of which only the first looks up tables
    of the user's side. Raises DatasetError if a file is wrong or has fewer samples than one query, HarnessError (exit
    9) if the lookups do not fit into memory, and OSError if a file cannot be read.
    """
    available = read_resources().available_memory_bytes
    if is_profile := path.suffix in _PROFILES:
        _refuse_many(num_lookups)
    try:
        made = generate_reuse(*read_profile(path), num_lookups, seed) if is_profile else read_lookups(path, available)
    except MemoryError:
        why = f"reading it takes more than the {available:,} bytes of memory that are free."
        raise HarnessError(f"{path}: {why}", ExitCode.RESOURCES) from None
    if tables is not None:
        made = _give_rows(made, path, tables)
    if items > made.num_bags:
        raise DatasetError(f"{path}: {made.num_bags} samples, less than one query of --items {items}. Ask for fewer.")
    made = made.with_queries(items) if items > 1 else made
    source = f"{'stack distances of' if is_profile else 'lookups in'} {path.name}"
    return KeptTrace(trace=made, about={"source": source, "seed": seed if is_profile else None})


def _give_rows(trace: AccessTrace, path: Path, tables: Path) -> AccessTrace:
    """Return the trace with the numbers of rows that the file `tables` gives. Raises DatasetError where these do not
    fit the trace."""
    entries = read_tables(tables)
    if len(entries) != len(trace.num_rows):
        raise DatasetError(
            f"{tables}: {len(entries)} tables, but {path} has lookups of {len(trace.num_rows)}. Give each "
            "of these, in their order."
        )
    for table, (entry, found) in enumerate(zip(entries, trace.num_rows, strict=True)):
        if entry.rows < found:
            raise DatasetError(
                f"{entry.place}: rows: found {entry.rows}, but {path} looks up row {found - 1} of table {table}; "
                f"expected at least {found}. Put the tables in the order of the lookups, or mend the number."
            )
    num_rows = tuple(entry.rows for entry in entries)
    made = replace(trace, num_rows=num_rows, are_rows_least=False, tables=_describe(entries))
    made.check(str(tables))
    return made


def _refuse_many(num_lookups: int, num_numbers: int = 0) -> None:
    """Raise HarnessError (exit 9) if drawing a trace of `num_lookups` lookups, or of `num_numbers` numbers in all
    (lookups and bags), takes more than the free memory."""
    if max(num_lookups, num_numbers) * _LOOKUP_BYTES > (available := read_resources().available_memory_bytes):
        raise HarnessError(
            f"--lookups {num_lookups}: drawing them takes more than the {available:,} bytes of memory that are free. "
            "Ask for fewer.",
            ExitCode.RESOURCES,
        )


def refuse_existing(folder: Path) -> None:
    """Raise HarnessError where the folder that is to hold a new trace exists already."""
    if folder.exists() or folder.is_symlink():
        raise HarnessError(f"{folder}: exists already. Give another folder with -o, or remove it.")


def keep_trace(kept: KeptTrace, folder: Path, write_more: Callable[[Path], object] = lambda draft: None) -> None:
    """Write a trace of embedding lookups as a folder. `write_more` adds further files to the folder's draft. The
    folder appears complete or not at all.

    Raises HarnessError if the folder exists already, and OSError.
    """
    refuse_existing(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    trace = kept.trace
    sizes = enumerate(trace.num_rows)
    tables = [{"num_rows": num, "num_lookups": len(trace.rows_of(table))} for table, num in sizes]
    known = [table._asdict() for table in trace.tables] or [{}] * len(tables)
    arrays = {"indices": trace.indices, "offsets": trace.offsets}
    about = {
        **kept.about,
        "num_bags": trace.num_bags,
        "are_rows_least": trace.are_rows_least,
        "samples_per_query": trace.samples_per_query,
        "tables": [{**table, **more} for table, more in zip(tables, known, strict=True)],
    }
    write_kept(folder, arrays, TraceManifest, about, "arrays", write_more)


def read_trace(folder: Path) -> tuple[TraceManifest, AccessTrace]:
    """Read a trace of embedding lookups that `keep_trace` wrote, with its manifest.

    Raises HarnessError: exit 8 for any damage, 9 where memory is short.
    """
    if not folder.exists():
        raise HarnessError(f"{folder}: no such folder. Give one that 'dlrmbench trace' made by -o.", ExitCode.INPUT)
    if not folder.is_dir():
        raise HarnessError(
            f"{folder}: a file, expected the folder of a trace. 'dlrmbench trace {folder} -o DIR' makes one "
            "of a file of tables or lookups; give DIR then.",
            ExitCode.INPUT,
        )
    manifest = read_record(folder / MANIFEST_FILE, TraceManifest)
    if manifest.num_bags % manifest.samples_per_query:
        raise HarnessError(
            f"{folder / MANIFEST_FILE}: samples_per_query: found {manifest.samples_per_query}, expected a divisor of "
            f"the {manifest.num_bags} bags. {_AGAIN}",
            ExitCode.INPUT,
        )
    num_tables, num_lookups = len(manifest.tables), sum(table.num_lookups for table in manifest.tables)
    expected = {"indices": ("int64", (num_lookups,)), "offsets": ("int64", (num_tables * manifest.num_bags + 1,))}
    if {name: (array.dtype, array.shape) for name, array in manifest.arrays.items()} != expected:
        raise HarnessError(
            f"{folder / MANIFEST_FILE}: arrays: expected int64 indices and offsets of {num_lookups} lookups in "
            f"{num_tables} x {manifest.num_bags} bags. {_AGAIN}",
            ExitCode.INPUT,
        )
    arrays = read_kept(
        folder, manifest.arrays, available_bytes=read_resources().available_memory_bytes, remedy=_AGAIN
    )
    num_rows = tuple(table.num_rows for table in manifest.tables)
    known = [TracedTable(table.name, table.row_bytes, table.side) for table in manifest.tables if table.name]
    trace = AccessTrace(
        num_rows=num_rows,
        num_bags=manifest.num_bags,
        are_rows_least=manifest.are_rows_least,
        tables=tuple(known) if len(known) == len(num_rows) else (),
        samples_per_query=manifest.samples_per_query,
        **arrays,
    )
    try:
        trace.check(str(folder))
    except DatasetError as error:
        raise HarnessError(f"{error} {_AGAIN}", ExitCode.INPUT) from None
    return manifest, trace


def keys_in_order(trace: AccessTrace) -> Ids:
    """Return the key of the embedding row of each lookup [lookups], over all tables, in the order of lookups."""
    return np.concatenate([part.keys for part in trace.in_order()])


def is_unlike(trace: AccessTrace) -> bool:
    """Return whether rows of tables differ in size, so that shares and sizes of caches are of bytes, not of rows."""
    return len({*trace.row_bytes}) > 1


def name_units(trace: AccessTrace) -> str:
    """Return the word for the units in which cache sizes and shares are stated: 'rows' or 'bytes'."""
    return "bytes" if is_unlike(trace) else "rows"


def say_cold(caches: str, num_lookups: int, *, is_drawn: bool = True) -> str:
    """Return a warning that most misses of a cache are first lookups of a row. The warning names the trace's number
    of lookups, and advises a longer trace.

    `caches` names the caches that the warning is about; if it is empty, the warning is about all caches of the study.
    `is_drawn` says whether the option --lookups can make the trace longer, which it cannot for a file of lookups.
    """
    most = f"With {caches}, most misses" if caches else "Most misses"
    longer = "make a longer trace (--lookups)" if is_drawn else "take a longer trace"
    return (
        f"{most} are first lookups of a row, as in every short trace. This trace has {num_lookups:,} lookups; to see "
        f"the steady miss ratio of a cache, {longer}."
    )


def refuse_empty(trace: AccessTrace, source: str) -> None:
    """Raise HarnessError where a new trace has no embedding lookups; `source` names the trace in the message."""
    if not len(trace.indices):
        raise HarnessError(f"{source}: no lookups, expected at least one. Ask for more --lookups.")


def say_least(num_rows: Sequence[int]) -> str:
    """Say that the numbers of rows of a trace's tables [tables] are lower bounds."""
    of = "its table has" if len(num_rows) == 1 else f"its {len(num_rows)} tables have"
    return (
        f"The file does not say how many rows {of}. Shares of all rows refer to the least possible number of rows, "
        "the highest row looked up plus one; 'trace --tables FILE' takes the true sizes."
    )
