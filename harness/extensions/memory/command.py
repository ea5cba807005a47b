"""Define the commands `trace` and `tiers`: record embedding lookups, and simulate memories slower than DRAM for
them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import (
    BENCHMARK,
    SizeParam,
    collect_overrides,
    completing,
    completing_several,
    defining,
    fraction,
    output_option,
    trainable,
)
from harness.cli.shared.output import VERBOSE, form_option
from harness.cli.shared.values import amount, several, share
from reports.render.forms import FORMS

_SEED = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of all random draws."
)


def _tiers() -> Iterable[str]:
    from harness.extensions.memory.tier import TIERS

    return TIERS


@verb("dlrmbench trace rm1_deeprecsys -o t", "dlrmbench trace dlrm_small -o t --lookups 10000000 --sample-rate 1%")
@BENCHMARK
@defining
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="New folder to which the trace is written."
)
@click.option(
    "--split",
    type=click.Choice(["train", "eval"]),
    default="train",
    show_default=True,
    help="Split of the dataset whose lookups are traced.",
)
@click.option(
    "--lookups",
    "num_lookups",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Number of embedding lookups to trace, from the start of the split.",
)
@click.option(
    "--sample-rate",
    type=share,
    metavar="SHARE",
    default="100%",
    show_default=True,
    help="For long traces: estimate miss ratios from eight samples, each with this share of the embedding rows; 100% "
    "counts all rows, without samples.",
)
@click.option(
    "--policy",
    "policies",
    type=several(click.Choice(["lru", "lfu", "static"])),
    default="lru,lfu,static",
    show_default=True,
    metavar="NAME,…",
    help="Cache policies to simulate: lru; lfu, with ageing; static, which holds those rows that the first half of "
    "the trace looks up most.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File (.csv or .json) with rows, width and side (user or item) of each table of the traced file, in the "
    "order of the tables.",
)
@click.option(
    "--items",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="Number of samples (items ranked for one user) in one query; tables of user features are looked up once "
    "per query.",
)
@_SEED
@form_option("table", "json", *FORMS)
@VERBOSE
def trace(
    benchmark: str,
    output: Path,
    split: Literal["train", "eval"],
    num_lookups: int,
    sample_rate: float,
    policies: tuple[str, ...],
    tables: Path | None,
    items: int,
    seed: int,
    form: str,
    **given: Any,
) -> None:
    """Record which embedding rows BENCHMARK's samples look up, and find miss ratios of caches of every size.

    The lookups are those that BENCHMARK's model makes. A file may take the place of BENCHMARK: lookups in the form of
    facebookresearch/dlrm_datasets (.pt, .pt.gz), a profile of stack distances as dlrm's --data-trace-file takes it
    (.log, .txt), or tables (.csv, .json) for which lookups are drawn. Miss ratios of LRU are exact, from the stack
    distance of every lookup, for one cache that all tables share and for one cache per table. Caches of policies
    other than LRU are simulated; all policies are compared over the trace's second half. The trace is a folder with
    the arrays of lookups, the results in study.json, and their HTML page.

    A file of tables is CSV with the header 'name,rows,width,pooling' and a line per table, or JSON with a list of
    objects that have these four keys; a table's side (user or item), precision (fp32, fp16, int8, int4) and
    zipf_exponent may be added. A file of lookups does not state how many rows its tables have; the file of --tables
    states the numbers of rows.
    """
    from harness.cli.shared.studies import show_written, with_making, write_study
    from harness.extensions.memory.trace import (
        is_file,
        keep_trace,
        refuse_empty,
        refuse_existing,
        trace_benchmark,
        trace_file,
        trace_tables,
    )
    from harness.extensions.memory.trace_study import trace_study
    from reference_models.data.table_file import FORMS

    refuse_existing(output)
    if is_file(Path(benchmark)):
        if Path(benchmark).suffix not in FORMS:
            kept = trace_file(Path(benchmark), num_lookups, seed, tables, items)
        elif tables is None:
            kept = trace_tables(Path(benchmark), num_lookups, items, seed)
        else:
            raise click.UsageError(f"--tables is for a file of lookups: {benchmark} describes tables itself.")
    elif tables is not None or items > 1:
        raise click.UsageError(
            "--tables and --items are for files: a benchmark's definition has its tables and samples."
        )
    else:
        from harness.config.run_config import resolve

        config = resolve(benchmark, collect_overrides(given), given["name"], derived_suffix="_trace")
        kept = trace_benchmark(config, split, num_lookups, given["data_root"])
    refuse_empty(kept.trace, benchmark)
    inputs = [Path(benchmark), *([] if tables is None else [tables])]
    study = with_making(trace_study(kept, sample_rate, seed, policies, output), inputs)
    keep_trace(kept, output, lambda draft: write_study(study, draft))
    show_written(study, output, form, closes=True)


@verb(
    "dlrmbench tiers --trace t --tier nand,3dxp --cache 5%,20% --rate 200",
    "dlrmbench tiers --trace t --fit-cache 1GB",
    headings={
        "Memories": ("num_devices", "pools", "placement", "local_bytes", "side", "fleet", "watts", "row_bytes")
    },
)
@click.argument("benchmark", required=False, shell_complete=completing(trainable))
@click.option(
    "--trace",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of a trace of embedding lookups, made by 'dlrmbench trace'.",
)
@click.option(
    "--tier",
    "names",
    type=several(str),
    default="nand",
    show_default=True,
    metavar="NAME,…",
    shell_complete=completing_several(_tiers),
    help="Slower memories, below DRAM, in which embedding rows lie: nand, 3dxp, cxl, or your own FILE.toml of the "
    "same form.",
)
@click.option(
    "--cache",
    "caches",
    type=several(share),
    metavar="SHARE,…",
    help="Sizes of the caches of embedding rows in DRAM, as shares of the rows that lie in the slower memory.",
)
@click.option(
    "--policy",
    "policies",
    type=several(click.Choice(["lru", "lfu", "static"])),
    default="lru",
    show_default=True,
    metavar="NAME,…",
    help="Policies of the caches of embedding rows: lru, lfu or static, as in 'trace'; static holds the rows that "
    "the warm-up looks up most.",
)
@click.option(
    "--rate",
    type=amount,
    metavar="NUMBER",
    help="Queries per second at which latency is simulated.  [default: no rate; queries come one after the other, "
    "on an idle system]",
)
@click.option(
    "--fit-cache",
    "fit_bytes",
    type=SizeParam(),
    help="Find how to divide a cache of SIZE in DRAM among the embedding tables.",
)
@click.option(
    "--hit-rate", type=share, metavar="SHARE", help="Find the smallest LRU cache of rows with this hit rate."
)
@click.option(
    "--warm-up",
    type=fraction,
    metavar="SHARE",
    help="Share of the trace, from its start, that fills caches and is not counted.  [default: until an LRU cache is "
    "steady, or half of the trace]",
)
@click.option(
    "--devices",
    "num_devices",
    type=click.IntRange(1, 64),
    default=1,
    help="Number of devices of the slower memory, below DRAM.  [default: 1]",
)
@click.option(
    "--pool",
    "pools",
    type=several(click.Choice(["host", "device", "switch"])),
    default="host",
    show_default=True,
    metavar="WHO,…",
    help="Where a sample's embedding rows are summed (pooled): host, device or switch.",
)
@click.option(
    "--placement",
    type=click.Choice(["interleave", "hot-local"]),
    default="interleave",
    show_default=True,
    help="Rows that the DRAM of --local holds: evenly spaced rows (interleave), or the rows that the trace looks up "
    "most (hot-local, an oracle).",
)
@click.option(
    "--local",
    "local_bytes",
    type=SizeParam(),
    default=0,
    help="Size of DRAM for embedding rows that always stay in DRAM.  [default: none]",
)
@click.option(
    "--side",
    type=click.Choice(["user", "item"]),
    help="Put only the tables of the user's features, or of the items' features, in the slower memory below DRAM.  "
    "[default: all tables]",
)
@click.option(
    "--fleet",
    type=(amount, SizeParam(), amount),
    metavar="RATE DRAM RATE",
    help="Count the hosts that a fleet needs, from the fleet's queries/s, the DRAM for embedding rows in a host, and "
    "the queries/s of a host.",
)
@click.option(
    "--watts",
    type=(amount, amount, amount),
    metavar="HOST GB DEVICE",
    help="Power in watts of one host without the DRAM that holds rows (HOST), of one gigabyte of that DRAM (GB), and "
    "of one device of the slower memory (DEVICE).",
)
@click.option(
    "--row-size",
    "row_bytes",
    type=SizeParam(takes_bytes=True),
    help="Size of an embedding row.  [default: as in the trace]",
)
@_SEED
@output_option("Folder in which a new folder with the results is made.")
@form_option("table", "json", *FORMS)
@VERBOSE
def tiers(benchmark: str | None, folder: Path, names: tuple[str, ...], output: Path, form: str, **given: Any) -> None:
    """Simulate embedding rows in a slower memory below DRAM: cache misses, reads, bytes over links, and added
    latency.

    In the simulation, a query is one sample of the trace. If BENCHMARK is given, a trace of another benchmark
    definition is refused. Miss ratios and bytes are exact; latencies are simulated from the numbers in the file of
    the slower memory (--tier), which --verbose prints with their sources. A rate of queries that a device or a link
    cannot carry is reported as impossible.

    For --fleet, give queries/s of the whole fleet, bytes of DRAM for rows in a host, and queries/s of a host with all
    rows in DRAM; --watts adds the power that the hosts draw.
    """
    from harness.cli.shared.studies import keep_study
    from harness.extensions.memory.fleet import Fleet, Watts
    from harness.extensions.memory.setups import TierQuestion
    from harness.extensions.memory.tier import find_tier
    from harness.extensions.memory.tiers import read_traced, tiers_study
    from rules.benchmarks.loader import load_benchmark

    fleet, watts = given.pop("fleet"), given.pop("watts")
    if watts is not None and fleet is None:
        raise click.UsageError("--watts: power is that of a fleet. Give --fleet RATE DRAM RATE too.")
    if fleet is not None:
        rate, dram_bytes, host_rate = fleet
        parts = None if watts is None else Watts(*watts)
        fleet = Fleet(rate=rate, host_dram_bytes=dram_bytes, host_rate=host_rate, watts=parts)
    found = {name: find_tier(name) for name in names}
    definition = None if benchmark is None else load_benchmark(benchmark)
    row_size = given["row_bytes"]
    trace, given["row_bytes"], place = read_traced(folder, definition, row_size, given["side"])
    question = TierQuestion(tiers=found, fleet=fleet, **{**given, "caches": given["caches"] or (None,)})
    study = tiers_study(trace, question, definition, place, folder, row_size)
    asks_more = question.hit_rate or question.fit_bytes or question.fleet  # the table that answers is the last one
    inputs = [folder, *map(Path, names), *([] if benchmark is None else [Path(benchmark)])]
    keep_study(study, output, f"tiers-{folder.name}", form, inputs=inputs, table=-1 if asks_more else 0, closes=True)
