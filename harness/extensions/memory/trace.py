"""`trace`: make an access trace, keep it, read it back, and say what is in it."""

from collections.abc import Callable
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
from harness.foundation.study import Columns, make_check, make_study, make_table
from harness.measure.id_maps import read_id_maps
from harness.measure.refusals import refuse_id_map
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.progress import generation_progress
from harness.system.resources import read_resources
from reference_models.data.registry import open_dataset
from reference_models.data.synthetic.config import SYNTHETIC_KINDS
from reference_models.data.traces.sources import (
    expect_touched,
    generate_reuse,
    read_lookups,
    read_profile,
    trace_split,
)
from reference_models.data.traces.stack_distances import WHOLE_BELOW, MissRatioCurve, measure_curve
from reference_models.data.traces.trace import NUM_REUSE_BINS, AccessTrace, reuse_histogram
from reference_models.process.errors import DatasetError
from reports.text.formatting import percent
from rules.benchmarks.loader import Benchmark
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.study import Origin, Parameter, StudyCheck, StudyRecord

_AGAIN = "Make it again with 'dlrmbench trace'."
_LOOKUPS, _PROFILES = (".pt", ".gz"), (".log", ".txt")
_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Cache sizes of the study, as shares of the rows."""
_TABLE_SHARES = (0.01, 0.05, 0.2, 1.0)
_FLOAT_BYTES, _DEVIATIONS = 4, 6.0
_LOOKUP_BYTES = 100
"""What drawing a lookup takes: its number, its row, and what numbers in lists of Python's take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptTrace:
    """A trace and what its manifest says about it."""

    trace: AccessTrace
    about: dict[str, Any]
    """Members of TraceManifest but for tables and arrays."""
    benchmark: Benchmark | None = None
    zipf_exponent: float | None = None
    """Power law that synthetic ids were drawn from, just now; None where chances of rows are not known."""


def trace_benchmark(
    config: RunConfig, split: Literal["train", "eval"], num_lookups: int, data_root: Path | None
) -> KeptTrace:
    """Trace the first samples of a split, as models see them: so many that they have `num_lookups`, or all.

    Raises ConfigError for a model without bags, DatasetError.
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
    exponent = data.parameters["zipf_exponent"] if is_synthetic and not data.id_map.is_active else None
    return KeptTrace(trace=trace, about=about, benchmark=benchmark, zipf_exponent=exponent)


def is_file(path: Path) -> bool:
    """Return whether `trace_file` reads it: lookups as tensors, or a profile of stack distances."""
    return path.suffix in (*_LOOKUPS, *_PROFILES)


def trace_file(path: Path, num_lookups: int, seed: int) -> KeptTrace:
    """Read a file of lookups, or draw them after a profile. Raises DatasetError, HarnessError (exit 9), OSError."""
    available = read_resources().available_memory_bytes
    if is_profile := path.suffix in _PROFILES:
        _refuse_many(num_lookups)
    try:
        made = generate_reuse(*read_profile(path), num_lookups, seed) if is_profile else read_lookups(path, available)
    except MemoryError:
        why = f"reading it takes more than the {available:,} bytes of memory that are free."
        raise HarnessError(f"{path}: {why}", ExitCode.RESOURCES) from None
    source = f"{'stack distances of' if is_profile else 'lookups in'} {path.name}"
    return KeptTrace(trace=made, about={"source": source, "seed": seed if is_profile else None})


def _refuse_many(num_lookups: int) -> None:
    """Raise HarnessError (exit 9) for more lookups than can be drawn in memory."""
    if num_lookups * _LOOKUP_BYTES > (available := read_resources().available_memory_bytes):
        raise HarnessError(
            f"--lookups {num_lookups}: drawing them takes more than the {available:,} bytes of memory that are free. "
            "Ask for fewer.",
            ExitCode.RESOURCES,
        )


def refuse_existing(folder: Path) -> None:
    """Raise HarnessError where something is at the place of a new trace."""
    if folder.exists() or folder.is_symlink():
        raise HarnessError(f"{folder}: is there already. Give another folder with -o, or remove it.")


def keep_trace(kept: KeptTrace, folder: Path, write_more: Callable[[Path], object] = lambda draft: None) -> None:
    """Write a trace as a folder, with what `write_more` writes to its draft: whole, or not at all.

    Raises HarnessError where something is there already, OSError.
    """
    refuse_existing(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    trace = kept.trace
    sizes = enumerate(trace.num_rows)
    tables = [{"num_rows": num, "num_lookups": len(trace.rows_of(table))} for table, num in sizes]
    arrays = {"indices": trace.indices, "offsets": trace.offsets}
    about = {**kept.about, "num_bags": trace.num_bags, "tables": tables}
    write_kept(folder, arrays, TraceManifest, about, "arrays", write_more)


def read_trace(folder: Path) -> tuple[TraceManifest, AccessTrace]:
    """Read a trace that `keep_trace` wrote. Raises HarnessError: exit 8 for any damage, 9 where memory is short."""
    if not folder.exists():
        raise HarnessError(f"{folder}: no such folder. Give one that 'dlrmbench trace' made by -o.", ExitCode.INPUT)
    manifest = read_record(folder / MANIFEST_FILE, TraceManifest)
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
    trace = AccessTrace(num_rows=num_rows, num_bags=manifest.num_bags, **arrays)
    try:
        trace.check(str(folder))
    except DatasetError as error:
        raise HarnessError(f"{error} {_AGAIN}", ExitCode.INPUT) from None
    return manifest, trace


def merged_curve(trace: AccessTrace, sample_rate: float = 1.0, seed: int = 0) -> MissRatioCurve:
    """Measure what one cache of the rows of all tables misses."""
    is_whole = np.array(trace.num_rows) < WHOLE_BELOW
    stream = ((part.keys, is_whole[part.tables]) for part in trace.in_order())
    return measure_curve(stream, sample_rate=sample_rate, seed=seed)


def table_curve(trace: AccessTrace, table: int, sample_rate: float = 1.0, seed: int = 0) -> MissRatioCurve:
    """Measure what a cache of one table's rows misses."""
    rate = 1.0 if trace.num_rows[table] < WHOLE_BELOW else sample_rate
    return measure_curve([(trace.rows_of(table), False)], sample_rate=rate, seed=seed)


def trace_study(kept: KeptTrace, sample_rate: float, seed: int) -> StudyRecord:
    """Say what is in a trace: rows and how often they are used, and what LRU caches of every size miss."""
    trace, place, tables = kept.trace, kept.about["source"], range(len(kept.trace.num_rows))
    names, rows = ["all", *map(str, tables)], [sum(trace.num_rows), *trace.num_rows]
    curves = [merged_curve(trace, sample_rate, seed), *(table_curve(trace, t, sample_rate, seed) for t in tables)]
    lookups = [trace.rows_of(table) for table in tables]
    keys = np.concatenate([each + first for each, first in zip(lookups, trace.first_keys, strict=False)])
    uses = [reuse_histogram(each) for each in (keys, *lookups)]
    touched = [sum(each) for each in uses]
    how: Origin = "computed" if sample_rate == 1 else "modelled"
    merged = curves[0]
    ratio, cold = merged.miss_ratio(rows[0] // 10), merged.num_cold / merged.num_lookups
    findings = [
        f"{place}: {merged.num_lookups:,} lookups touch {touched[0]:,} of {rows[0]:,} rows; an LRU cache of 10 % of "
        f"the rows misses {percent(ratio)} of the lookups; {percent(cold)} are a row's first ({how})."
    ]
    if sample_rate < 1:
        findings.append(
            f"Miss ratios are estimated from {percent(sample_rate)} of the rows, chosen by hash (SHARDS-adj); tables "
            f"of less than {WHOLE_BELOW:,} rows are whole. Rows touched, and how often, are counted of all."
        )
    if kept.benchmark is not None and cold > ratio / 2:
        findings.append(say_cold("these misses", merged.num_lookups))
    merged_columns: Columns = (("Cache", "share", "given"), ("Rows", None, "computed"), ("Miss ratio", "share", how))
    of_merged = [(share, size := round(share * rows[0]), merged.miss_ratio(size)) for share in _SHARES]
    columns: Columns = (
        ("Table", None, "given"),
        ("Rows", None, "given"),
        ("Lookups", None, "measured"),
        ("Touched", None, "measured"),
        *((f"Cache {percent(share, 0)}", "share", how) for share in _TABLE_SHARES),
    )
    of_tables: list[tuple[Any, ...]] = [
        (name, num, curve.num_lookups, hot, *(curve.miss_ratio(round(share * num)) for share in _TABLE_SHARES))
        for name, num, curve, hot in zip(names, rows, curves, touched, strict=True)
    ]
    bins: Columns = (("Table", None, "given"), *((name, None, "measured") for name in _name_bins()))
    of_bins: list[tuple[Any, ...]] = [(name, *each) for name, each in zip(names, uses, strict=True)]
    title = "Rows that are touched, and what an LRU cache of so many of a table's rows misses"
    return make_study(
        "trace",
        f"{place}: an LRU cache of 10 % of the rows misses {percent(ratio)} of the lookups, {how}",
        kept.benchmark,
        seed=seed,
        findings=findings,
        tables=(
            make_table("Misses of one LRU cache of the rows of all tables, by its size", merged_columns, of_merged),
            make_table(title, columns, of_tables),
            make_table("Touched rows by how often they are used", bins, of_bins),
        ),
        parameters=(
            Parameter(name="bags per table", value=trace.num_bags, unit=None, source="measured", note=place),
            Parameter(name="row size", value=kept.about.get("row_bytes"), unit="B", source="definition", note=None),
            Parameter(name="sample rate", value=sample_rate, unit="share", source="given", note="of rows"),
        ),
        checks=_check_touched(kept, touched[0]),
    )


def say_cold(misses: str, num_lookups: int) -> str:
    """Warn that most of `misses` are first lookups, which a longer trace than one of so many lookups has fewer of."""
    return (
        f"Most of {misses} are a row's first lookup, as in every short trace: one of more --lookups, than "
        f"{num_lookups:,}, says what a cache misses in the long run."
    )


def _name_bins() -> list[str]:
    ends = [1 << number for number in range(NUM_REUSE_BINS - 1)]
    return ["1", "2", *(f"{end // 2 + 1}-{end}" for end in ends[2:]), f">{ends[-1]}"]


def _check_touched(kept: KeptTrace, touched: int) -> tuple[StudyCheck, ...]:
    """Hold the rows touched against their expectation, within six standard deviations, where chances are known."""
    trace, exponent = kept.trace, kept.zipf_exponent
    if exponent is None:
        return ()
    sizes = enumerate(trace.num_rows)
    expected = np.array([expect_touched(num, exponent, len(trace.rows_of(table))) for table, num in sizes])
    mean, deviation = expected[:, 0].sum(), np.sqrt(np.square(expected[:, 1]).sum())
    name = "touched rows of all tables, sum of 1 - (1 - p)^n"
    tolerance = (_DEVIATIONS * deviation + 0.5) / mean
    return (make_check(name, expected=round(float(mean), 1), found=touched, tolerance=float(tolerance)),)
