"""`trace` and `tiers`: which embedding rows are looked up, and what memories slower than DRAM make of it."""

from pathlib import Path
from typing import Any, Literal

import click

from harness.cli.shared.options import BENCHMARK, collect_overrides, configuration
from harness.cli.shared.output import form_option
from reports.render.forms import FORMS


class ShareParam(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A share above 0 and up to 1, such as 5% or 0.05."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            self.fail(f"{text!r}: expected a share above 0 and up to 1, such as 5% or 0.05.", param, ctx)
        return share


_SEED = click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of all draws.")


@click.command()
@BENCHMARK
@configuration
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder of the trace: a new one."
)
@click.option(
    "--split", type=click.Choice(["train", "eval"]), default="train", show_default=True, help="Of its data."
)
@click.option(
    "--lookups", "num_lookups", type=click.IntRange(min=1), default=1_000_000, show_default=True,
    help="Trace samples from the start of the split until they have so many.",
)  # fmt: skip
@click.option(
    "--sample-rate", type=ShareParam(), default=1.0, show_default=True,
    help="Estimate miss ratios from so many of the rows, chosen by hash: for long traces.",
)  # fmt: skip
@_SEED
@form_option("table", "json", *FORMS)
def trace(
    benchmark: str, output: Path, split: Literal["train", "eval"], num_lookups: int, sample_rate: float, seed: int,
    form: str, **given: Any,
) -> None:  # fmt: skip
    """Keep which embedding rows BENCHMARK's samples look up, and say what LRU caches of every size miss of them.

    The lookups are those that models see. In place of BENCHMARK may be a file: lookups in the form of
    facebookresearch/dlrm_datasets (.pt, .pt.gz), or a profile of stack distances as dlrm's --data-trace-file takes it
    (.log, .txt), after which lookups are drawn. Miss ratios are exact, from the stack distance of every access, for
    one cache of all tables and for one of each. The folder has the arrays, study.json and its page.
    """
    from harness.cli.shared.studies import write_study
    from harness.planning.trace import (
        LOOKUP_FILES,
        PROFILE_FILES,
        keep_trace,
        trace_benchmark,
        trace_file,
        trace_study,
    )

    if Path(benchmark).suffix in (*LOOKUP_FILES, *PROFILE_FILES):
        kept = trace_file(Path(benchmark), num_lookups, seed)
    else:
        from harness.config.run_config import resolve

        config = resolve(benchmark, collect_overrides(given), given["name"], derived_suffix="_trace")
        kept = trace_benchmark(config, split, num_lookups, given["data_root"])
    keep_trace(kept, output)
    write_study(trace_study(kept, sample_rate, seed), output, form)
