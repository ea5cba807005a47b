"""Advise after a study of memories slower than DRAM for embedding rows: which memory to take, how many bytes of rows
the memory and DRAM then hold, and which command to run next."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.extensions.memory.policies import LRU
from harness.extensions.memory.setups import PoolResult, Setup, TierQuestion
from harness.extensions.memory.trace import KeptTrace, name_units
from reference_models.data.traces.trace import AccessTrace
from reports.text.formatting import num_bytes, percent, plural

_LOAD = 0.7
"""Load (busy share of the time) of the busiest device or link at the query rate that the suggested next command asks
for."""
_CACHES = "1%,5%,20%"
_NO_PRICES = "no costs are given: memory prices are not known"
_ROW_BYTES = 128
"""Bytes of an embedding row in the suggested command where a trace does not give the size: 32 values of fp32."""


def advise_tiers(
    trace: AccessTrace,
    question: TierQuestion,
    results: Sequence[PoolResult],
    kept_bytes: int,
    folder: Path,
    row_size: int | None,
) -> str:
    """Say which memory and row cache to take, the bytes of embedding rows in DRAM and on devices, and the command to
    run next.

    `results` are a study's results (one per memory, cache and place where rows are summed), the best first;
    `kept_bytes` is the size of the tables that stay in DRAM whole; `row_size` is the row size that the command line
    gave for all tables, in bytes.
    """
    setup = results[0].setup
    all_bytes = trace.num_units * question.row_bytes
    in_dram = kept_bytes + question.local_bytes + setup.cache.num_rows * question.row_bytes
    if not any(each.setup.reads.rows.any() for each in results) or in_dram >= all_bytes:
        return f"DRAM holds all rows ({num_bytes(all_bytes)}): no slower memory is needed."
    below = max(0, all_bytes - kept_bytes - question.local_bytes)
    sizes = (
        f"In the recommended setup, rows take {num_bytes(in_dram)} of DRAM and {num_bytes(below)} on "
        f"{plural(question.num_devices, 'device')} of {setup.name}, instead of {num_bytes(all_bytes)} of DRAM "
        f"(computed; {_NO_PRICES})"
    )
    is_possible = results[0].wait_s is not None
    take = f"Recommended: {setup.label}, rows summed by the {results[0].pool}. {sizes}." if is_possible else ""
    return f"{take} {_ask_next(setup, results[0], folder, row_size)}".strip()


def _ask_next(setup: Setup, best: PoolResult, folder: Path, row_size: int | None) -> str:
    """Return a sentence with the `tiers` command to run next; where the study already has a row cache and a query
    rate that the memory can answer, a sentence that suggests to add --fleet and --watts."""
    question, changed = setup.question, list[str]()
    if not setup.cache.words:
        changed = ["--cache", _CACHES]
    elif setup.cache.share is not None and setup.cache.of_tables is None:
        changed = ["--cache", f"{100 * setup.cache.share:.6g}%"]
    elif question.fit_bytes is not None:
        changed = ["--fit-cache", str(question.fit_bytes)]
    if setup.cache.words and setup.cache.policy != LRU:
        changed += ["--policy", setup.cache.policy]
    rate = question.rate
    if rate is None or best.wait_s is None:
        busy_s = setup.busiest(best.pool).busy_s
        rate = float(f"{_LOAD / busy_s:.2g}") if busy_s else None
        why = (
            "to see the latency at 70 % of the highest rate"
            if best.wait_s is not None
            else "for a rate that is possible"
        )
    elif not setup.cache.words:
        why = "to see caches"
    else:
        return "Next, for hosts and power: this study's command with --fleet, and --watts of your machines."
    words = ["dlrmbench", "tiers", "--trace", str(folder), "--tier", setup.name, *changed]
    words += [] if rate is None else ["--rate", f"{rate:g}"]
    words += ["--devices", str(question.num_devices)] if question.num_devices > 1 else []
    words += [] if question.pools == ("host",) else ["--pool", ",".join(question.pools)]
    words += [] if question.side is None else ["--side", question.side]
    if question.local_bytes:
        words += ["--local", str(question.local_bytes)]
        words += [] if question.placement == "interleave" else ["--placement", question.placement]
    words += [] if row_size is None else ["--row-size", str(row_size)]
    return f"Next, {why}: {shlex.join(words)}"


def advise_trace(kept: KeptTrace, folder: Path, ratio_at: tuple[float, float]) -> str:
    """Return sentences for a study of a trace: how many bytes of DRAM all embedding rows take, how many a cache of
    some of the rows takes, and which command simulates slower memories.

    `ratio_at` has two shares: the cache's size as a share of the rows, and the share of lookups that miss the cache.
    """
    trace, (share, ratio) = kept.trace, ratio_at
    unit_bytes = trace.unit_bytes or kept.about.get("row_bytes")
    words = ["dlrmbench", "tiers", "--trace", str(folder), "--tier", "nand,3dxp,cxl", "--cache", _CACHES]
    words += [] if unit_bytes is not None else ["--row-size", str(_ROW_BYTES)]
    if unit_bytes is None:
        sizes = "The size of rows is not known"
    else:
        all_bytes = trace.num_units * unit_bytes
        sizes = (
            f"All rows take {num_bytes(all_bytes)}; a cache of {percent(share)} of the {name_units(trace)} takes "
            f"{num_bytes(round(share * all_bytes))} of DRAM (computed; {_NO_PRICES})"
        )
    return f"{sizes}. Next, to see the latency of the {percent(ratio)} of lookups that miss: {shlex.join(words)}"
