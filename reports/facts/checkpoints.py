"""Makes a study (table and findings) of the checkpoints that runs and measurements wrote: bytes, times, and the best
interval between checkpoints."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from reports.results.result import Result
from reports.text.formatting import duration, num_bytes, percent, plural, printable
from rules.records.run import CheckpointsRecord
from rules.records.study import Origin, Parameter, StudyColumn, StudyRecord, StudyTable

Row = Mapping[str, Any]
"""Values of one configuration in the table of the checkpoint study: a dict from the table's columns to values."""
_PUBLISHED = "6 to 17 × fewer bytes written, 2.5 to 8 × less capacity"
_PUBLISHED_OF = "of models of its own, whose tables are more than 99 % of all bytes"
_WRITTEN = 6.0
"""Lower end of the factors, reported in the paper Check-N-Run, by which checkpoints write fewer bytes."""
_LEAST_CAPACITY = 2.5
"""Lower end of the factors, reported in the paper Check-N-Run, by which checkpoints take less storage."""
_MOST_SIZES = 2
"""Maximum number of configurations for which a sentence gives the sizes and times of checkpoints. For more
configurations, only the table gives them."""
_COLUMNS: Mapping[str, tuple[str | None, Origin]] = {
    "Configuration": (None, "given"), "Bits": (None, "given"), "Policy": (None, "given"),
    "Rounding": (None, "given"), "Kept": (None, "given"), "Checkpoints": (None, "measured"),
    "Rows changed": ("share", "measured"), "Embeddings written": ("B", "measured"),
    "Embeddings, × fewer": (None, "computed"), "All written": ("B", "measured"), "All, × fewer": (None, "computed"),
    "To restore": ("B", "measured"), "To restore, × less": (None, "computed"), "On disk": ("B", "measured"),
    "Stall": ("s", "measured"), "Waiting": ("s", "measured"), "Writing": ("s", "measured"),
    "Restoring": ("s", "measured"), "Writing 1,000 rows": ("s", "measured"), "Mean L2": (None, "measured"),
    "Published": (None, "published"),
}  # fmt: skip
_MODELLED: Mapping[str, tuple[str | None, Origin]] = {
    "Best interval": ("s", "modelled"),
    "Time lost at it": ("share", "modelled"),
}


def read_checkpoints(results: Sequence[Result]) -> list[Row]:
    """Return a row of checkpoint values for each result that recorded checkpoints; the results with the most bits per
    embedding value stored come first."""
    rows = []
    for result in results:
        records = (getattr(each.record, "checkpoints", None) for each in result.repetitions)
        processes = [each for each in records if isinstance(each, CheckpointsRecord) and each.taken]
        config = {key: given.value for key, given in result.asked.config.items()} if result.asked else {}
        bits = config.get("checkpoint.bits")
        if processes and isinstance(bits, int):
            policy, rounding = (printable(config.get(f"checkpoint.{key}"), 40) for key in ("policy", "rounding"))
            keep = printable(config.get("checkpoint.keep", "all"), 40)
            given = {
                "Configuration": result.label,
                "Bits": bits,
                "Policy": policy,
                "Rounding": rounding,
                "Kept": keep,
            }
            rows.append({**given, **_describe(processes), "Published": f"{_PUBLISHED}, {_PUBLISHED_OF}"})
    return sorted(rows, key=lambda row: -row["Bits"])


def _describe(processes: Sequence[CheckpointsRecord]) -> Row:
    """Return one configuration's row of the checkpoint study, over all checkpoints of its processes. Bytes written
    are sums; bytes to restore and bytes on disk are maxima. Times are medians, except for the times of waiting
    (mostly zero) and of restoring, which are means."""
    taken = [each for process in processes for each in process.taken]
    embeddings, written = sum(each.embedding_bytes for each in taken), sum(each.num_bytes for each in taken)
    full_embeddings = sum(process.full_embedding_bytes * len(process.taken) for process in processes)
    full = sum(process.full_bytes * len(process.taken) for process in processes)
    restore_bytes = max(each.restore_bytes for each in taken)
    losses = [(each.mean_l2 * each.num_rows, each.num_rows) for each in taken if each.mean_l2 is not None]
    num_rows = sum(rows for _, rows in losses)
    base_rows = max((each.num_rows for each in taken if each.is_base), default=0)
    increments = [each.num_rows / base_rows for each in taken if not each.is_base and base_rows]
    on_disk = [each.disk_bytes for each in taken if each.disk_bytes is not None]
    return {
        "Checkpoints": len(taken),
        "Rows changed": fmean(increments) if increments else None,
        "Embeddings written": embeddings,
        "Embeddings, × fewer": full_embeddings / max(embeddings, 1),
        "All written": written,
        "All, × fewer": full / max(written, 1),
        "To restore": restore_bytes,
        "To restore, × less": processes[0].full_bytes / max(restore_bytes, 1),
        "On disk": max(on_disk) if on_disk else None,
        "Stall": median(each.stall_s for each in taken),
        "Waiting": fmean(each.wait_s for each in taken),
        "Writing": median(each.write_s for each in taken),
        "Writing 1,000 rows": median(each.write_s * 1000 / max(each.num_rows, 1) for each in taken),
        "Restoring": fmean(process.restore_s or 0.0 for process in processes),
        "Mean L2": sum(loss for loss, _ in losses) / num_rows if num_rows else None,
    }


def checkpoint_words(rows: Sequence[Row]) -> str:
    """Return in words how many bytes checkpoints save compared with checkpoints of all rows in 32 bits; '' if there
    are no checkpoints.

    The words state the factors for writing and for restoring, what limits these factors, and the factors published in
    the paper Check-N-Run. Bytes to restore are the largest amount stored at any time for the newest checkpoint. If
    there are few configurations, the words include the number and size of checkpoints, and how long each checkpoint
    holds training up.
    """
    if not rows:
        return ""
    labels = [printable(row["Configuration"], 80) if len(rows) > 1 else f"{row['Bits']} bits" for row in rows]
    parts = [
        f"{label}: {_size_words(row) if len(rows) <= _MOST_SIZES else ''}{_bytes(row['All, × fewer'])} written "
        f"({_alone(row)}), "
        f"{_capacity(row['To restore, × less'])} to restore the newest"
        for label, row in zip(labels, rows, strict=True)
    ]
    last, why = rows[-1], ""
    if last["Embeddings, × fewer"] > 1.2 * last["All, × fewer"]:
        rest = 1 - last["Embeddings written"] / max(last["All written"], 1)
        name = f" with {labels[-1]}" if len(rows) > 1 else ""
        share = f"{percent(rest, 0)} of the bytes written{name}"
        why = f", since optimizer sums and all other state stay in 32 bits: {share}"
    if all(row["All, × fewer"] < 1.05 for row in rows):
        sizes = (f"{label}: {_size_words(row)}" for label, row in zip(labels, rows[:_MOST_SIZES], strict=False))
        return f"{''.join(sizes)}as many bytes are written as by checkpoints of all rows in 32 bits."
    return (
        f"{'. '.join(parts)}{why}. Bytes and capacity are against checkpoints of all rows in 32 bits (Check-N-Run "
        f"published {_PUBLISHED})."
    )


def _size_words(row: Row) -> str:
    """Return in words the number and size of checkpoints, and how long training waits for each: '20 checkpoints of
    1.2 MiB on average, each of which holds training up for 23.7 ms; '."""
    size = num_bytes(row["All written"] / row["Checkpoints"])
    which = "each of which" if row["Checkpoints"] > 1 else "which"
    told = plural(row["Checkpoints"], "checkpoint")
    return f"{told} of {size} on average, {which} holds training up for {duration(row['Stall'] + row['Waiting'])}; "


def _bytes(times_fewer: float) -> str:
    """Format the factor by which checkpoints save bytes: '12.3 × fewer bytes', or '1.2 times as many bytes' for a
    factor below 1."""
    return _times(times_fewer, "fewer bytes", "as many bytes")


def _alone(row: Row) -> str:
    return f"embeddings alone {_times(row['Embeddings, × fewer'], 'fewer', 'as many')}"


def _capacity(times_less: float) -> str:
    """Format the factor by which checkpoints save storage: '4.3 × less capacity'. A factor of 0.5 is '2.0 times as
    much capacity'. Factors below 1 are possible, because a base checkpoint of all rows in 32 bits and an increment
    together take more than a checkpoint of all rows alone."""
    return _times(times_less, "less capacity", "as much capacity")


def _times(ratio: float, less: str, more: str) -> str:
    if ratio >= 1:
        return f"{ratio:.1f} × {less}"
    return f"{1 / max(ratio, 1e-9):.1f} times {more}"  # a damaged file may say that all rows have no bytes


def row_words(row: Row) -> str:
    """Return a sentence on one configuration's checkpoints: bytes written and stored, and times to write and restore
    them."""
    return (
        f"{printable(row['Configuration'], 80)}: {_bytes(row['All, × fewer'])} written, against checkpoints of all "
        f"rows in 32 bits ({_alone(row)}), "
        f"{_capacity(row['To restore, × less'])}; writing one takes {duration(row['Writing'])}, while training "
        f"stands still for {duration(row['Stall'] + row['Waiting'])}, and restoring one {duration(row['Restoring'])}"
        f", of {num_bytes(row['To restore'])} (measured; files just written)."
    )


def hold_against_published(rows: Sequence[Row]) -> str:
    """Return a sentence that compares the bytes saved by the best configuration's checkpoints with the saving that
    the paper Check-N-Run published, and names what limits the saving here."""
    best = max(rows, key=lambda row: row["All, × fewer"])
    is_shown = best["All, × fewer"] >= _WRITTEN and best["To restore, × less"] >= _LEAST_CAPACITY
    rest = 1 - best["Embeddings written"] / max(best["All written"], 1)
    changed = "" if best["Rows changed"] is None else f", rows that change ({percent(best['Rows changed'])} of all)"
    return (
        f"Check-N-Run published {_PUBLISHED}, {_PUBLISHED_OF}; here, at "
        f"{best['Bits']} bits, {_bytes(best['All, × fewer'])}, {_capacity(best['To restore, × less'])} (bytes "
        f"measured), so that is {'' if is_shown else 'not '}reached; limits: bits{changed} and state in 32 bits, "
        f"mostly optimizer sums ({percent(rest)} of bytes written)."
    )


def best_interval(row: Row, mtbf_s: float) -> tuple[float, float]:
    """Return the interval in seconds between checkpoints at which checkpoints and failures cost the least time, and
    the fraction of time that they then cost.

    The interval is Daly's higher-order estimate (Future Generation Computer Systems 22, 2006) of Young's sqrt(2 d M).
    d is the time for which a checkpoint holds training up. M is the mean time between failures, which come at random.
    A failure costs half an interval, the writing of a checkpoint, and restoring.
    """
    lost_s, write_s = row["Stall"] + row["Waiting"], row["Writing"]
    part = lost_s / (2 * mtbf_s)
    best_s = math.sqrt(2 * lost_s * mtbf_s) * (1 + math.sqrt(part) / 3 + part / 9) - lost_s if part < 1 else mtbf_s
    interval_s = max(best_s, write_s, 1e-9)  # no checkpoint begins before the last one is written
    share = lost_s / (interval_s + lost_s) + (interval_s / 2 + write_s + row["Restoring"]) / mtbf_s
    return interval_s, min(1.0, share)


def checkpoint_study(results: Sequence[Result], mtbf_s: float | None = None) -> StudyRecord | None:
    """Make a study (table and findings) of all checkpoints that the results recorded; None if no result recorded any.
    The best interval between checkpoints is computed for a mean time between failures of `mtbf_s` seconds."""
    rows = read_checkpoints(results)
    if not rows:
        return None
    findings, columns = [row_words(row) for row in rows], _COLUMNS
    parameters: tuple[Parameter, ...] = ()
    if mtbf_s is not None:
        columns = {**_COLUMNS, **_MODELLED}
        rows = [{**row, **dict(zip(_MODELLED, best_interval(row, mtbf_s), strict=True))} for row in rows]
        name = "mean time between failures"
        parameters = (Parameter(name=name, value=mtbf_s, unit="s", source="given", note="--mtbf"),)
        findings += [
            f"{row['Configuration']}: with a failure every {duration(mtbf_s)}, a checkpoint every "
            f"{duration(row['Best interval'])} loses least time, {percent(row['Time lost at it'], 2)} (Young/Daly)."
            for row in rows
        ]
    findings.append(hold_against_published(rows))
    benchmarks = {result.benchmark for result in results}
    made = tuple(StudyColumn(name=name, unit=unit, origin=origin) for name, (unit, origin) in columns.items())
    table = StudyTable(
        title="Checkpoints", columns=made, rows=tuple(tuple(row[name] for name in columns) for row in rows)
    )
    return StudyRecord(
        kind="checkpoint",
        title="Checkpoints",
        benchmark=benchmarks.pop() if len(benchmarks) == 1 else None,
        definition_sha256=None,
        seed=None,
        parameters=parameters,
        tables=(table,),
        findings=tuple(findings),
        checks=(),
    )
