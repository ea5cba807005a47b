"""Make the study of a trace of embedding lookups: lookups per row, and miss ratios of row caches of every size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.extensions.memory.advice import advise_trace
from harness.extensions.memory.estimated import LEAST_SAMPLED, NUM_SAMPLES, EstimatedCurve, estimate_curve
from harness.extensions.memory.policies import POLICIES, miss_ratios
from harness.extensions.memory.trace import (
    KeptTrace,
    is_unlike,
    keys_in_order,
    name_units,
    say_cold,
    say_least,
)
from harness.foundation.study import Columns, make_check, make_study, make_table
from reference_models.data.traces.sources import expect_touched
from reference_models.data.traces.stack_distances import LEAST_OF_GROUP
from reference_models.data.traces.trace import NUM_REUSE_BINS, AccessTrace, Ids, reuse_histogram
from reports.text.formatting import percent
from rules.records.study import Origin, Parameter, StudyCheck, StudyRecord, StudyTable

_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Sizes of the LRU row caches in the study's table of miss ratios, as shares of the rows of all tables."""
_SHARE_TOLD = 0.1
"""Size of a row cache, as a share of the rows of all tables, at which the study's title gives the miss ratio and
replacement policies are compared."""
_TABLE_SHARES = (0.01, 0.05, 0.2, 1.0)
_PUBLISHED_SHARE = 0.015
"""Size of a frequency-aware cache, as a share of all embedding rows, with which training keeps "a decent training
speed" (Fang et al., 2022, abstract)."""
_POLICY_SHARES = (0.005, _PUBLISHED_SHARE, 0.05, _SHARE_TOLD, 0.2)
"""Sizes of the row caches that are simulated for each replacement policy, as shares of the rows of all tables."""
_DEVIATIONS = 6.0
_ESTIMATED = ", estimated from samples"
_TOUCHED = "touched rows of all tables"
"""Name of the check that compares the number of rows looked up with its expectation. The glossary has the formula of
the expectation, under 'Touched'."""


class Misses(NamedTuple):
    """Simulated miss ratios of row caches of several sizes, by replacement policy."""

    sizes: tuple[int, ...]
    """Capacities of the simulated row caches, one for each share in _POLICY_SHARES: in rows, or in bytes if tables
    differ in row size."""
    ratios: dict[str, list[float]]
    """Miss ratio of each cache over the second half of the trace's lookups, by replacement policy."""
    published_share: float
    """Share of the second half's lookups that go to the rows looked up most in that half. They are as many rows as
    fit a cache of 1.5 % of all rows, a published size (Fang et al., 2022)."""


def trace_study(
    kept: KeptTrace,
    sample_rate: float,
    seed: int,
    policies: Sequence[str] = tuple(POLICIES),
    folder: Path | None = None,
) -> StudyRecord:
    """Make the study of a trace of embedding lookups: lookups per row, and miss ratios of row caches of every size.

    If `sample_rate` is below 1, the miss ratios of LRU caches are estimated, each with a range, from samples of the
    rows; `seed` decides the samples. Caches of the replacement policies `policies` are simulated. With the trace's
    `folder` the study names the command that simulates memories below DRAM.
    """
    trace, place, tables = kept.trace, kept.about["source"], range(len(kept.trace.num_rows))
    names, rows = ["all", *trace.names], [sum(trace.num_rows), *trace.num_rows]
    lookups = [keys_in_order(trace), *(trace.rows_of(table) for table in tables)]
    curves = [estimate_curve(lookups[0], sample_rate, seed, trace.units_of if is_unlike(trace) else None)]
    curves += [estimate_curve(each, sample_rate, seed) for each in lookups[1:]]
    uses = [reuse_histogram(each) for each in lookups]
    touched, merged = [sum(each) for each in uses], curves[0]
    is_exact = all(curve.is_exact for curve in curves)
    how = "computed" if is_exact else f"computed, estimated from {NUM_SAMPLES} samples of the rows"
    share, ratio, words = _choose_ratio(merged, trace.num_units)
    cold = touched[0] / len(lookups[0])
    least = "at least " if trace.are_rows_least else ""
    cached = f"{percent(share, 0)} of the {name_units(trace)}"
    remarks = [
        f"{place}: {len(lookups[0]):,} lookups touch {touched[0]:,} of {least}{rows[0]:,} rows. An LRU cache of "
        f"{cached} misses {words} of the lookups; {percent(cold)} of the lookups are the first of their row ({how})."
    ]
    if folder is not None:
        remarks.append(advise_trace(kept, folder, (share, ratio)))
    if trace.are_rows_least:
        remarks.append(say_least(trace.num_rows))
    if not is_exact:
        remarks.append(
            f"Miss ratios are means over {NUM_SAMPLES} samples of the rows, in a range at least twice as wide as "
            f"that of the samples. Of each group of rows that are looked up about equally often, a sample has "
            f"{percent(sample_rate)}, at least {LEAST_OF_GROUP:,} rows, chosen by hash (as SHARDS). Caches that hold "
            f"fewer than {LEAST_SAMPLED} sampled rows are left out."
        )
    if cold > ratio / 2:
        is_made = kept.benchmark is not None or kept.about.get("seed") is not None
        remarks.append(say_cold(f"a cache of {cached}", len(lookups[0]), is_drawn=is_made))
    misses = _simulate(trace, lookups[0], policies)
    bins: Columns = (("Table", None, "given"), *((name, None, "measured") for name in _name_bins()))
    of_bins: list[tuple[Any, ...]] = [(name, *each) for name, each in zip(names, uses, strict=True)]
    return make_study(
        "trace",
        f"{place}: an LRU cache of {cached} misses {percent(ratio)} of the lookups, {how}",
        kept.benchmark,
        seed=seed,
        findings=[*remarks, _say_hottest(trace, misses), _say_best(trace, misses)],
        tables=(
            _list_misses(trace, merged, is_exact=is_exact),
            _list_policies(trace, misses),
            _list_tables(trace, curves, touched, is_exact=is_exact),
            make_table("Touched rows, by how often each was looked up", bins, of_bins),
        ),
        parameters=(
            Parameter(name="bags per table", value=trace.num_bags, unit=None, source="measured", note=place),
            Parameter(name="row size", value=kept.about.get("row_bytes"), unit="B", source="definition", note=None),
            Parameter(name="sample rate", value=sample_rate, unit="share", source="given", note="of rows"),
        ),
        checks=_check_touched(kept, touched[0]),
    )


def _size_column(trace: AccessTrace) -> tuple[str, str | None, Origin]:
    return ("Memory", "B", "computed") if is_unlike(trace) else ("Rows", None, "computed")


def _choose_ratio(curve: EstimatedCurve, num_rows: int) -> tuple[float, float, str]:
    """Return three values for the study's title: the size of a row cache, its miss ratio, and this ratio in words
    with its range. The size is 10 % of all rows, or the next larger size whose miss ratio is known."""
    for share in (share for share in _SHARES if share >= _SHARE_TOLD):
        ratio, lowest, highest = curve.ratios(round(share * num_rows))
        if ratio is not None and lowest is not None and highest is not None:
            ends = "" if curve.is_exact else f" ({percent(lowest)} to {percent(highest)})"
            return share, ratio, f"{percent(ratio)}{ends}"
    return 1.0, curve.curves[0].miss_ratio(num_rows), percent(curve.curves[0].miss_ratio(num_rows))


def _list_misses(trace: AccessTrace, curve: EstimatedCurve, *, is_exact: bool) -> StudyTable:
    """List LRU miss ratios by cache size. Estimated ratios have ranges; sizes for which too few rows were sampled are
    left out."""
    ends: Columns = () if is_exact else (("Lowest", "share", "computed"), ("Highest", "share", "computed"))
    columns: Columns = (
        ("Cache", "share", "given"),
        _size_column(trace),
        ("Miss ratio", "share", "computed"),
        *ends,
    )
    sizes = [(share, round(share * trace.num_units)) for share in _SHARES]
    bytes_of = (trace.unit_bytes or 1) if is_unlike(trace) else 1
    cells = [(share, size * bytes_of, *curve.ratios(size)[: 1 + len(ends)]) for share, size in sizes]
    title = f"Miss ratio of one LRU cache for the rows of all tables, by size{'' if is_exact else _ESTIMATED}"
    return make_table(title, columns, [row for row in cells if row[2] is not None])


def _simulate(trace: AccessTrace, keys: Ids, policies: Sequence[str]) -> Misses:
    """Simulate row caches of each replacement policy over the trace, and count which share of the second half's
    lookups goes to the rows looked up most in that half."""
    sizes = [max(1, round(share * trace.num_units)) for share in _POLICY_SHARES]
    rows, counts = np.unique(keys[len(keys) // 2 :], return_counts=True)
    units = trace.units_of(rows)
    order = np.argsort(-counts / units, kind="stable")
    is_kept = np.cumsum(units[order]) <= sizes[_POLICY_SHARES.index(_PUBLISHED_SHARE)]
    bytes_of = (trace.unit_bytes or 1) if is_unlike(trace) else 1
    return Misses(
        sizes=tuple(size * bytes_of for size in sizes),
        ratios=miss_ratios(keys, trace.units_of(keys), sizes, policies),
        published_share=float(counts[order][is_kept].sum() / counts.sum()),
    )


def _list_policies(trace: AccessTrace, misses: Misses) -> StudyTable:
    """List the simulated miss ratios of row caches by replacement policy and cache size."""
    columns: Columns = (
        ("Policy", None, "given"),
        ("Cache", "share", "given"),
        _size_column(trace),
        ("Miss ratio", "share", "simulated"),
    )
    rows = [
        (POLICIES[name].title, share, size, ratio)
        for name, ratios in misses.ratios.items()
        for share, size, ratio in zip(_POLICY_SHARES, misses.sizes, ratios, strict=True)
    ]
    title = "Miss ratio over the trace's second half, by policy and cache size"
    return make_table(title, columns, rows)


def _say_best(trace: AccessTrace, misses: Misses) -> str:
    """Say which replacement policy misses least."""
    told, (best, *others) = _POLICY_SHARES.index(_SHARE_TOLD), _rank_policies(misses)
    others_said = [f"{POLICIES[name].title} {percent(misses.ratios[name][told])}" for name in others]
    num_least = sum(
        misses.ratios[best][at] <= min(each[at] for each in misses.ratios.values())
        for at in range(len(_POLICY_SHARES))
    )
    is_least = bool(others) and misses.ratios[best][told] < misses.ratios[others[0]][told]
    least = f"; {'every other policy misses more' if is_least else 'no other policy misses fewer'}" if others else ""
    figures, name, beside = misses.ratios[best], POLICIES[best].title, f"{', '.join(others_said)}; " if others else ""
    at_sizes = f" {name} has the lowest miss ratio at {num_least} of {len(_POLICY_SHARES)} cache sizes."
    return (
        f"With a cache of {percent(_SHARE_TOLD, 0)} of the {name_units(trace)}, {name} misses "
        f"{percent(figures[told])} of the lookups in the trace's second half{least} ({beside}simulated)."
        f"{at_sizes if others else ''}"
    )


def _rank_policies(misses: Misses) -> list[str]:
    """Return the names of the replacement policies, ordered by their misses with a cache of a share _SHARE_TOLD of
    the rows; the policy with fewest misses is first."""
    told = _POLICY_SHARES.index(_SHARE_TOLD)
    return sorted(misses.ratios, key=lambda name: misses.ratios[name][told])


def _say_hottest(trace: AccessTrace, misses: Misses) -> str:
    """Return a sentence on a cache of the size that Fang et al. (2022) found to be enough. It states which share of
    the lookups in the trace's second half goes to as many of the most-used rows as fit the cache. It also states
    which share misses the cache under the best policy."""
    share, best = percent(misses.published_share), _rank_policies(misses)[0]
    cache = f"a cache of {percent(_PUBLISHED_SHARE)} of the {name_units(trace)}"
    missed = percent(misses.ratios[best][_POLICY_SHARES.index(_PUBLISHED_SHARE)])
    return (
        f"The most-used rows that fit {cache} get {share} of the lookups in the trace's second half (computed). "
        f"With {cache}, a size published as enough for a decent training speed (Fang et al., 2022), "
        f"{POLICIES[best].title} misses {missed} of the lookups in the trace's second half (simulated)."
    )


def _list_tables(
    trace: AccessTrace, curves: Sequence[EstimatedCurve], touched: Sequence[int], *, is_exact: bool
) -> StudyTable:
    """List all embedding tables together, then each table. Columns are the number of rows that are looked up at least
    once, and the miss ratios of LRU caches that hold shares of the table's rows."""
    ends = ("",) if is_exact else ("", ", lowest", ", highest")
    about: Columns = (("Row", "B", "given"), ("Side", None, "given")) if trace.tables else ()
    said = [(None, None), *((table.row_bytes, table.side) for table in trace.tables)]
    names, rows = ["all", *trace.names], [sum(trace.num_rows), *trace.num_rows]
    columns: Columns = (
        ("Table", None, "given"),
        ("Rows, at least", None, "measured") if trace.are_rows_least else ("Rows", None, "given"),
        *about,
        ("Lookups", None, "measured"),
        ("Touched", None, "measured"),
        *((f"Cache {percent(share, 0)}{end}", "share", "computed") for share in _TABLE_SHARES for end in ends),
    )
    cells = [
        (
            name,
            num,
            *(said[number] if about else ()),
            curve.curves[0].num_lookups,
            hot,
            *(ratio for share in _TABLE_SHARES for ratio in curve.ratios(round(share * num))[: len(ends)]),
        )
        for number, (name, num, curve, hot) in enumerate(zip(names, rows, curves, touched, strict=True))
    ]
    title = "Touched rows, and LRU miss ratio by cache size in % of the table's rows"
    return make_table(f"{title}{'' if is_exact else _ESTIMATED}", columns, cells)


def _name_bins() -> list[str]:
    ends = [1 << number for number in range(NUM_REUSE_BINS - 1)]
    return ["1", "2", *(f"{end // 2 + 1}-{end}" for end in ends[2:]), f">{ends[-1]}"]


def _check_touched(kept: KeptTrace, touched: int) -> tuple[StudyCheck, ...]:
    """Check the number of rows looked up at least once against its expectation, within six standard deviations; no
    check where the rows' probabilities are unknown."""
    trace, exponents = kept.trace, kept.zipf_exponents
    if exponents is None:
        return ()
    drawn = enumerate(zip(trace.num_rows, exponents, strict=True))
    expected = np.array([expect_touched(num, each, len(trace.rows_of(table))) for table, (num, each) in drawn])
    mean, deviation = expected[:, 0].sum(), np.sqrt(np.square(expected[:, 1]).sum())
    tolerance = (_DEVIATIONS * deviation + 0.5) / mean
    return (make_check(_TOUCHED, expected=round(float(mean), 1), found=touched, tolerance=float(tolerance)),)
