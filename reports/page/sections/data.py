"""Makes the section on the data that a user prepared: missing values, rare classes, unseen ids, columns that reveal
the label."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from reports.document.blocks import Block, Bullets, Prose, Shown, Table, numeric, table_of
from reports.document.page import PageSection
from reports.results.result import Result
from reports.text.formatting import count, names, percent, printable
from rules.records.run_set import ColumnLookRecord, DataLookRecord, SoftLookRecord

_METHOD = (
    "Counted while the data was prepared from files. Rare are cells of a category whose value is rarer in training "
    "than the definition asks, unseen those whose value is not in training. AUC alone is the ROC AUC in evaluation "
    "of one column by itself, from the first rows: of its number, or of the share of positives of its value in "
    "training."
)
_SPLITS: tuple[tuple[Literal["train", "eval"], str], ...] = (("train", "training"), ("eval", "evaluation"))


def data_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section on the data that a user prepared; None where no data set has recorded statistics."""
    looks: list[tuple[DataLookRecord, list[str]]] = []
    for result in group:
        if result.asked is None or (look := result.asked.dataset.look) is None:
            continue
        for known, labels in looks:
            if known == look:
                labels.append(result.label)
                break
        else:
            looks.append((look, [result.label]))
    blocks: list[Block] = [Prose(text=_METHOD)]
    for number, (look, labels) in enumerate(looks):
        blocks += _look_blocks(look, names(labels) if len(looks) > 1 else "", f"{id_}-data-{number}")
    return PageSection(id=f"{id_}-data", heading="Data", name="Data", blocks=tuple(blocks)) if looks else None


def _look_blocks(look: DataLookRecord, whose: str, id_: str) -> list[Block]:
    """Return the blocks on one data set: the share of positive labels in each split, possible defects, and a table
    with a row per column of the data. `whose` names the configurations that use this data set; '' where all
    configurations use it."""
    shares = ", ".join(f"{percent(look.positives.get(split))} of {name}" for split, name in _SPLITS)
    text = f"{whose}: labels are 1 in {shares}." if whose else f"Labels are 1 in {shares}."
    if look.soft_labels is not None:
        text = _describe_soft(look, look.soft_labels)
        text = f"{whose}: {text[0].lower()}{text[1:]}" if whose else text
    blocks: list[Block] = [Prose(text=text)]
    if look.remarks:
        blocks.append(Bullets(items=tuple(printable(remark) for remark in look.remarks), kind="warnings"))
    return [*blocks, _columns_table(look, whose, id_)]


def _describe_soft(look: DataLookRecord, soft: SoftLookRecord) -> str:
    means = ", ".join(f"{look.positives.get(split, math.nan):.4g} in {name}" for split, name in _SPLITS)
    return (
        f"Labels are soft, shares from 0 to 1; their mean is {means}. A sample with share y counts as y of a "
        "positive and 1 − y of a negative, in ROC AUC, log loss and normalised entropy. Ranked by their labels, the "
        f"first rows of evaluation have a ROC AUC of {soft.best_auc:.4f}, which no model passes there."
    )


def _columns_table(look: DataLookRecord, whose: str, id_: str) -> Table:
    def share(member: str, split: int) -> Callable[[ColumnLookRecord], float | None]:
        def of(column: ColumnLookRecord) -> float | None:
            if member == "num_unknown" and column.kind == "number":
                return None
            return float(getattr(column, member)[split]) / max(1, column.num_cells[split])

        return of

    columns: tuple[Shown[ColumnLookRecord], ...] = (
        ("Column", lambda column: printable(column.name.removeprefix("column "), 80)),
        ("Kind", "kind"),
        (numeric("Missing", "training"), share("num_missing", 0), percent),
        (numeric("Missing", "evaluation"), share("num_missing", 1), percent),
        (numeric("Rare", "training"), share("num_unknown", 0), percent),
        (numeric("Rare or unseen", "evaluation"), share("num_unknown", 1), percent),
        (numeric("Values", "in training"), "num_distinct", count),
        (numeric("AUC alone", "evaluation"), "auc", "{:.3f}".format),
    )
    hidden = look.num_columns - len(look.columns)
    more = f"; {count(hidden)} more are in the dataset's manifest.json" if hidden > 0 else ""
    caption = f"Columns of {whose or 'the data'}, counted while it was prepared{more}"
    return table_of(look.columns, columns, id_=id_, caption=caption, is_sortable=len(look.columns) > 1)
