"""Makes the list of past run sets as blocks, newest first."""

from collections.abc import Sequence

from reports.comparison.records import PastSet
from reports.document.blocks import Block, Prose, Shown, TableColumn, numeric, table_of
from reports.parts.measured import in_unit
from reports.text.formatting import duration, epoch_ms, si, utc


def history_blocks(past: Sequence[PastSet]) -> tuple[Block, ...]:
    """Return a table with one row per past run set, or a sentence if there are no past run sets."""
    return (table_of(past, _COLUMNS, id_="history") if past else Prose(text="No run sets here."),)


def _runs(past: PastSet) -> str:
    """Return how many runs of a past run set are finished, out of the planned ones: '5/5', with '-' for an unknown
    number."""
    return "/".join("-" if number is None else str(number) for number in (past.num_done, past.num_runs))


def _made_by(past: PastSet) -> str:
    code = " ".join(word for word in (past.harness_version, past.commit, past.code and f"({past.code})") if word)
    on, by = (f"on {past.system}" if past.system else "", f"by dlrmbench {code}" if code else "")
    return "; ".join(text for text in (_mean(past), on, by, past.problem) if text)


def _mean(past: PastSet) -> str:
    """Return the mean that a past run set measured: 'AUC 0.75550', '100 queries/s'; '' for a throughput in samples/s,
    which has a column of its own."""
    if past.mean is None or past.throughput_samples_per_s is not None:
        return ""
    text = in_unit(past.mean, past.unit)
    return text if text[-1].isalpha() else f"{past.quantity} {text}"


_COLUMNS: tuple[Shown[PastSet], ...] = (
    ("when (UTC)", lambda past: utc(epoch_ms(past.created_utc)).removesuffix(" UTC").rpartition(":")[0] or None),
    ("benchmark", lambda past: past.benchmark or None),
    ("name", lambda past: past.name or None),
    ("config", lambda past: past.config_digest or None),
    ("outcome", lambda past: (past.outcome if past.kind == "training" else past.kind) or None),
    (numeric("runs"), _runs),
    (numeric("score"), "score_s", duration),
    (numeric("samples/s"), "throughput_samples_per_s", si),
    (TableColumn(name="folder", is_below=True), "folder"),
    (TableColumn(name="made by", is_below=True), _made_by),
)
