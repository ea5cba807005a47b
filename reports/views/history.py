"""Past run sets as blocks, newest first."""

from collections.abc import Sequence

from reports.comparison.records import PastSet
from reports.document.blocks import Block, Column, Prose, numeric, text_table
from reports.parts.measured import in_unit
from reports.text.formatting import MISSING, duration, epoch_ms, si, utc

_COLUMNS = (
    "when (UTC)",
    "benchmark",
    "name",
    "config",
    "outcome",
    numeric("runs"),
    numeric("score"),
    numeric("samples/s"),
    Column(name="folder", is_below=True),
    Column(name="made by", is_below=True),
)


def history_blocks(past: Sequence[PastSet], num_found: int) -> tuple[Block, ...]:
    """One row per set, and how many more there are than are shown."""
    if not past:
        return (Prose(text="No run sets here."),)
    table = text_table(_COLUMNS, [_row(entry) for entry in past], id_="history")
    if len(past) == num_found:
        return (table,)
    return (table, Prose(text=f"{len(past)} of {num_found} shown; --limit shows more."))


def _row(past: PastSet) -> tuple[str, ...]:
    done, total = ("-" if number is None else str(number) for number in (past.num_done, past.num_runs))
    code = " ".join(word for word in (past.harness_version, past.commit, past.code and f"({past.code})") if word)
    made_by = (
        _mean(past),
        f"on {past.system}" if past.system else "",
        f"by dlrmbench {code}" if code else "",
        past.problem,
    )
    return (
        utc(epoch_ms(past.created_utc)).removesuffix(" UTC").rpartition(":")[0] or MISSING,
        past.benchmark or MISSING,
        past.name or MISSING,
        past.config_digest or MISSING,
        (past.outcome if past.kind == "training" else past.kind) or MISSING,
        f"{done}/{total}",
        duration(past.score_s),
        si(past.throughput_samples_per_s),
        past.folder,
        "; ".join(text for text in made_by if text),
    )


def _mean(past: PastSet) -> str:
    """What was measured, unless a column has it: 'AUC 0.75550', '100 queries/s'."""
    if past.mean is None or past.throughput_samples_per_s is not None:
        return ""
    text = in_unit(past.mean, past.unit)
    return text if text[-1].isalpha() else f"{past.quantity} {text}"
