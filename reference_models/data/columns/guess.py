"""Guess the roles of a file's columns (label, dense, sparse, time) from its first rows, for `init --from-columns`.

The benchmark definition that `init` writes says the reason of each guess. Rows and cells are read as by `data
prepare`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from reference_models.data.columns.cells import (
    BAD_TEXT,
    EXPECTED_TEXT,
    WORDS,
    hold_unsorted_dates,
    is_number,
    is_text,
    parse_numbers,
    parse_times,
    show_cell,
    strip,
    to_numpy,
    to_text,
)
from reference_models.data.columns.files import ColumnFile, is_list
from reference_models.data.prepared.look import rank_auc
from reference_models.data.prepared.pipeline import MAX_MALFORMED
from reference_models.process.errors import ConfigError, DatasetError, did_you_mean

HEAD_BYTES = 4 << 20
HEAD_ROWS = 1 << 16
_LABELS = ("label", "click", "clicked", "is_click", "target", "y", "conversion", "converted", "purchase", "install")
_EVENTS = (*_LABELS, "buy", "order", "transaction", "like", "positive")
_RATINGS = ("rating", "stars", "score")
_TIMES = ("time", "timestamp", "date", "datetime", "hour", "day", "ts", "event_time")
_IDS = (
    *("id", "user", "item", "movie", "ad", "site", "app", "device", "category", "code", "zip", "type", "class"),
    *(
        "customer",
        "campaign",
        "advertiser",
        "publisher",
        "brand",
        "seller",
        "shop",
        "store",
        "product",
        "sku",
        "video",
    ),
    *("occupation", "country", "city", "region", "browser", "os", "channel", "cat", "cate", "categorical", "genre"),
)
_NUMBERED_CATEGORY = re.compile(r"(C|cat|categorical)_?[0-9]+")
"""Pattern of generic names of category columns, such as C1 or cat_2, as in files of Criteo or Avazu."""
_TYPES = ("token", "float", "token_seq", "float_seq")
"""Types that RecBole's files have after a colon at the end of column names, such as user_id:token."""
_FEW, _MANY = 50, 1000
_ODD_SHARE = 0.1
_LEAST_DATE = 10_000_000
"""Smallest maximum of a numeric column at which the column is taken for times: dates such as 20260131, or seconds
since 1970. It decides only for columns with a usual name of times."""
_LARGEST_NUMBER = 2**53
"""Largest whole number that a column of amounts may hold. Larger numbers, which doubles cannot represent exactly, are
taken for ids."""
_GROUPED = r"^[+-]?[0-9]{{1,3}}(?:{1}[0-9]{{3}})*(?:{0}[0-9]+)?$"
"""Template, for `str.format`, of the pattern of numbers with grouped digits; the arguments are the decimal mark and
the mark between groups."""
_THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})*$"
_IS_COUNTED = "\0"
"""Prefix of the reason why a row is malformed, if the row was counted as read, such as a row whose text is not UTF-8.
Rows that were never counted have reasons without the prefix."""
_PLAIN = (".", "")
"""Default marks in numbers of text: "." before the fraction, none between thousands. Numbers of a label's column must
have these marks."""
_GIVEN = ("names", "positive", "positive_from", "soft_labels")
_SEPARATORS = ("|", ";", "^", " ")


@dataclass(frozen=True, slots=True)
class Look:
    """Properties of a column's cells in a file's first rows."""

    name: str
    type: Literal["empty", "number", "time", "text", "list"]
    cells: pa.Array
    """Cells of the column as in the file; text is without blanks around it; missing cells are null."""
    numbers: NDArray[np.float64]
    """Values [n] of a column of numbers or times, NaN where missing; empty for other types."""
    is_whole: bool = False
    """Whether all numbers of the column are written as whole numbers."""
    marks: tuple[str, str] = _PLAIN
    """Marks in the column's numbers: before the fraction, and between groups of digits."""
    odd: str = ""
    """Description of the cells that are no numbers, in a column of numbers with a few such cells (at most a tenth);
    the column is then taken for text. Empty for other columns."""

    @property
    def values(self) -> pa.Array:
        """Cells of the column that are not missing."""
        return self.cells.drop_null()

    @property
    def num_distinct(self) -> int:
        """Number of distinct values of the column in the first rows."""
        return int(compute.count_distinct(self.values).as_py())

    @property
    def base_name(self) -> str:
        """Name of the column in lower case, without a type after a colon, such as ':token'."""
        name, _, kind = self.name.rpartition(":")
        return (name if name and kind in _TYPES else self.name).lower()


@dataclass(slots=True)
class Guess:
    """Guessed section [data] of a benchmark definition. `reasons` has the reason of each guess; a key is a pair of a
    key of [data.parameters] and a position in its list of columns (None if it is not a list)."""

    data: dict[str, Any]
    num_rows: int
    """Number of rows of the file: exact for Parquet, estimated from the size for text that was read in part."""
    num_read: int
    """Number of the file's first rows that were examined."""
    reasons: dict[tuple[str, int | None], str] = field(default_factory=dict)
    best_auc: float = 1.0
    """Highest ROC AUC that any scores can reach on the first rows: 1, or for soft labels the AUC of the labels
    themselves as scores."""

    @property
    def is_all(self) -> bool:
        """Return whether every row of the file was examined."""
        return self.num_read == self.num_rows


def guess_columns(path: Path, name: str, given: Mapping[str, Any]) -> Guess:
    """Guess section [data] of a definition for a dataset `name` from the first rows of a file.

    `given` has those keys of [data.parameters] that the user set: any of label, positive, positive_from, soft_labels,
    names, delimiter, split and time. Raises DatasetError if the file is empty, cannot be read, or has no label or no
    category column. Raises ConfigError if the file has no column with the user's label or time.
    """
    file = ColumnFile(path, None, given.get("delimiter"), given.get("names", ()))
    head, num_rows = _read_head(file)
    parameters: dict[str, Any] = {key: given[key] for key in _GIVEN if key in given}
    if file.form is not None and file.form.delimiter != ",":
        parameters["delimiter"] = file.form.delimiter
    if not head.num_rows:
        raise DatasetError(f"{path}: has a header and no rows. Give a file with one sample per line.")
    guess = Guess({"kind": "columns", "name": name, "parameters": parameters}, num_rows, head.num_rows)
    looks = [look_at(column, head.column(column).combine_chunks()) for column in head.column_names]
    _guess_label(path, looks, given.get("label"), guess)
    label = next(look for look in looks if look.name == parameters["label"])
    looks = [look for look in looks if look is not label]
    if (time := given.get("time")) is not None and time not in head.column_names:
        raise ConfigError(f"{path}: has no column {time!r:.80}.{did_you_mean(time, head.column_names)}")
    _guess_time(looks, given.get("split"), time, guess)
    dense: list[dict[str, Any]] = []
    sparse: list[dict[str, Any]] = []
    left_out: dict[str, list[str]] = {"holds objects": file.left_out} if file.left_out else {}
    for look in looks:
        if (why := _why_useless(look, head.num_rows, parameters)) is not None:
            left_out.setdefault(why, []).append(look.name)
        elif _is_category(look):
            sparse.append(_guess_category(look, guess, len(sparse)))
        else:
            dense.append(_guess_number(look, guess, len(dense)))
    if not sparse:
        raise DatasetError(f"{path}: no column looks like a category; a model of embedding tables needs one.")
    if left_out:
        guess.reasons["sparse", None] = "left out: " + "; ".join(
            f"{', '.join(map(ascii, names[:20]))}{', …' if len(names) > 20 else ''} ({why})"
            for why, names in left_out.items()
        )
    parameters |= {"dense": dense, "sparse": sparse}
    return guess


def _read_head(file: ColumnFile) -> tuple[pa.Table, int]:
    """Return a file's first rows, without the malformed rows that `data prepare` leaves out, and the number of all
    rows of the file, which is estimated for text that is read in part."""
    batches: list[pa.RecordBatch] = []
    wrong: list[str] = []
    num_rows, num_bytes, is_whole = 0, 0, True
    for batch in file.batches():
        if num_rows >= HEAD_ROWS or num_bytes >= HEAD_BYTES:
            is_whole = False
            break
        batches.append(_decode(batch))
        wrong += file.take_wrong_rows()
        num_rows, num_bytes = num_rows + batch.num_rows, num_bytes + batches[-1].nbytes
    wrong += file.take_wrong_rows()
    head = pa.Table.from_batches(batches) if batches else pa.table({})
    share = 1.0 if is_whole or file.num_rows is not None else file.share_read
    if file.has_bad_text:
        head = _drop_bad_text(file, head, wrong)
    num_others = sum(not line.startswith(_IS_COUNTED) for line in wrong)
    num_wrong, num_read = num_rows - head.num_rows + num_others, num_rows + num_others
    if wrong and num_wrong > MAX_MALFORMED * num_read:
        raise DatasetError(
            f"{file.path}:{wrong[0].removeprefix(_IS_COUNTED)}; {num_wrong:,} of the first {num_read:,} rows are "
            f"malformed, more than {100 * MAX_MALFORMED:g} %. Repair the file."
        )
    return head, file.num_rows if file.num_rows is not None else round(num_rows / max(share, 1e-9))


def _drop_bad_text(file: ColumnFile, head: pa.Table, wrong: list[str]) -> pa.Table:
    """Return a file's first rows `head` without rows whose text is not UTF-8. The reason of the first such row is put
    before the reasons in `wrong`."""
    is_bad = np.zeros(head.num_rows, np.bool_)
    for name in head.column_names:
        column = head.column(name).combine_chunks()
        if pa.types.is_string(column.type):
            found = to_numpy(compute.match_substring(column, BAD_TEXT).fill_null(False))
            if found.any() and not is_bad.any():
                row = int(np.flatnonzero(found)[0])
                wrong.insert(
                    0,
                    f"{_IS_COUNTED}row {row + 1}: column {name!r} is {show_cell(column[row].as_py())}, expected "
                    f"{EXPECTED_TEXT} {file.path.name} > utf8.csv",
                )
            is_bad |= found
    return head.filter(pa.array(~is_bad))


def _decode(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of rows with dictionary-encoded columns decoded, and with bytes decoded to text."""
    columns = []
    for column in batch.columns:
        cells = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        columns.append(to_text(cells) if is_text(cells.type) else cells)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def look_at(name: str, column: pa.Array) -> Look:
    """Return the properties of a column's cells. A column of numbers or times may have malformed cells, up to the
    share MAX_MALFORMED."""
    nothing = np.empty(0)
    if is_list(column.type):
        return Look(name, "list" if column.null_count < len(column) else "empty", column, nothing)
    if pa.types.is_temporal(column.type):
        instants = column.cast(pa.int64()) if not pa.types.is_date32(column.type) else column.cast(pa.int32())
        numbers = to_numpy(instants.cast(pa.float64(), safe=False))
        return Look(name, "time" if column.null_count < len(column) else "empty", column, numbers)
    if is_number(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        numeric = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
        numbers = to_numpy(numeric.cast(pa.float64(), safe=False))
        there = numbers[np.isfinite(numbers)]
        return Look(name, "number" if len(there) else "empty", numeric, numbers, bool((there % 1 == 0).all()))
    column = strip(to_text(column))
    return _look_at_text(name, column) if column.null_count < len(column) else Look(name, "empty", column, nothing)


def _look_at_text(name: str, column: pa.Array) -> Look:
    num_there = len(column) - column.null_count
    allowed = MAX_MALFORMED * num_there
    odd = ""
    for marks in ((".", ""), (",", ""), (".", ","), (",", "."), (".", " ")):
        if marks != _PLAIN:
            pattern = _GROUPED.format(*map(re.escape, marks)) if marks[1] else r"^[+-]?[0-9]+,[0-9]+$|^[0-9]+$"
            if compute.any(compute.invert(compute.match_substring_regex(column, pattern))).as_py():
                continue
            if marks == (",", "") and compute.all(compute.match_substring_regex(column, _THOUSANDS)).as_py():
                continue
        numbers, is_wrong = parse_numbers(column, *marks)
        if is_wrong.sum() <= allowed:
            is_whole = compute.all(compute.match_substring_regex(column, r"^[+-]?[0-9]+$")).as_py() is True
            return Look(name, "number", column, numbers, is_whole, marks)
        if marks == _PLAIN and is_wrong.sum() <= _ODD_SHARE * num_there:
            first = show_cell(column[int(np.flatnonzero(is_wrong)[0])].as_py())
            odd = f"numbers but for {first} and the like in {is_wrong.sum():,} of {num_there:,} cells"
    instants, is_none, _ = parse_times(column, None)
    if (is_none & to_numpy(column.is_valid())).sum() <= allowed:
        return Look(name, "time", column, np.where(is_none, np.nan, instants))
    return Look(name, "text", column, np.empty(0), odd=odd)


def _guess_label(path: Path, looks: Sequence[Look], given: str | None, guess: Guess) -> None:
    by_name = {look.base_name: look for look in reversed(looks)} | {look.name: look for look in looks}
    names = [look.name for look in looks]
    if given is not None and given not in names:
        raise ConfigError(f"{path}: has no column {given!r:.80}.{did_you_mean(given, names)}")
    parameters = guess.data["parameters"]
    named = [by_name[name] for name in _LABELS if name in by_name]
    if given is not None:
        if not _take_label(by_name[given], guess):
            raise _no_label(path, by_name[given], guess)
        return
    pairs = [look for look in looks if look.type == "number" and {*np.unique(_there(look))} == {0.0, 1.0}]
    words = [look for look in looks if look.type == "text" and {*_small(look)} <= {*WORDS} and look.num_distinct == 2]
    ratings = [by_name[name] for name in _RATINGS if name in by_name]
    first = [
        look
        for look in named
        if look in pairs or look in words or _holds_two(look) or _may_be_rare(look, guess) or _is_soft(look)
    ]
    others = [look for look in (*pairs, *words) if _is_full(look)]
    for look in [*first, *others, *ratings, *named]:
        if _take_label(look, guess):
            return
        if look.marks != _PLAIN and look in first:
            raise _no_label(path, look, guess)  # otherwise another column would be taken silently
    parameters.pop("label", None)
    if named:
        raise _no_label(path, named[0], guess)
    raise DatasetError(
        f"{path}: no column holds 0 and 1 alone. Name the label's with --set data.parameters.label=COLUMN, "
        "and the cells that are 1, where they are words, with --set 'data.parameters.positive=[\"WORD\"]'."
    )


def _no_label(path: Path, look: Look, guess: Guess) -> DatasetError:
    """Return the error for a label's column that does not distinguish two values. The column was named by the user,
    or taken for the label because of its name."""
    if is_list(look.cells.type):
        return DatasetError(
            f"{path}: column {look.name!r} holds lists, expected one label a row. Name another column with --set "
            "data.parameters.label=COLUMN."
        )
    values = [str(value) for value in look.values.unique().to_pylist() if value is not None]
    if len(values) < 2:
        held = f"{values[0]!a} alone" if values else "nothing"
        return DatasetError(
            f"{path}: column {look.name!r} holds {held}, expected two values of a label. Give a file with both, or "
            "name another column with --set data.parameters.label=COLUMN."
        )
    if look.type == "number" and look.marks != _PLAIN:
        marked = next((value for value in values if not value.strip("+-").isdigit()), values[0])
        return DatasetError(
            f"{path}: column {look.name!r} holds {marked!a}, expected a label, whose number has '.' before its "
            "fraction and nothing else between digits. Write the column so, or name another with --set "
            "data.parameters.label=COLUMN."
        )
    if guess.data["parameters"].get("soft_labels") is True:
        return DatasetError(
            f"{path}: column {look.name!r} holds {', '.join(map(ascii, values[:4]))}, expected numbers from 0 to 1 "
            "with data.parameters.soft_labels. Leave it out, or name another column with --set "
            "data.parameters.label=COLUMN."
        )
    if look.odd:
        return DatasetError(
            f"{path}: column {look.name!r} holds {look.odd}, expected a label. Empty those cells, which leaves their "
            "rows out, or say which are 1 with --set 'data.parameters.positive=[\"1\"]'."
        )
    likely = [value for value in values if value.lower() in _EVENTS] + [value for value in values if value.isalnum()]
    example = ascii(likely[0])[1:-1] if likely else "purchase"
    return DatasetError(
        f"{path}: column {look.name!r} holds {', '.join(map(ascii, values[:4]))}: neither 0 and 1 nor numbers. Say "
        f"which cells are 1, as with --set 'data.parameters.positive=[\"{example}\"]'."
    )


def _take_label(look: Look, guess: Guess) -> bool:
    """Take a column as the guessed label if it has two different values; return whether it has."""
    parameters, reasons = guess.data["parameters"], guess.reasons
    is_soft = parameters.get("soft_labels") is True
    if is_list(look.cells.type) or look.type == "empty":
        return False
    if "positive" in parameters or (look.type == "text" and {*_small(look)} <= {*WORDS} and not is_soft):
        parameters["label"] = look.name
        reasons["label", None] = f"holds {look.num_distinct} values, such as {look.values[0].as_py()!a:.30}"
        return True
    if look.type != "number" or look.marks != _PLAIN:
        return False
    numbers = _there(look)
    found = np.unique(numbers)
    if parameters.get("soft_labels", not {"positive", "positive_from"} & {*parameters}) and _is_soft(look):
        parameters |= {"label": look.name, "soft_labels": True}
        guess.best_auc = rank_auc(numbers, numbers) or 1.0
        mean = f"{numbers.mean():.3g}"
        reasons["label", None] = f"holds numbers from {found[0]:g} to {found[-1]:g}; their mean is {mean}"
        reasons["soft_labels", None] = (
            f"so that these are kept as they are; positive_from = {mean} instead would make them 0 and 1"
        )
        return True
    is_pair = {*found} == {0.0, 1.0} or _may_be_rare(look, guess)
    if is_pair and "positive_from" not in parameters:
        parameters["label"] = look.name
        held = "0 and 1" if len(found) == 2 else f"{found[0]:g}"
        reasons["label", None] = f"holds {held} alone; {numbers.mean():.1%} of the first rows are 1"
        return True
    if len(found) < 2 or is_soft:
        return False
    start = parameters.get("positive_from")
    if start is None:
        if len(found) == 2:
            start = float(found[1])
        elif found[-1] == 5 and (found[0] > 0 or look.base_name in _RATINGS):
            start = 4.0
        else:
            is_count = found[0] == 0 and look.is_whole
            start = float(found[1]) if is_count else float(np.median(numbers))
        if (numbers >= start).mean() in (0, 1):
            start = float(found[1])
    parameters |= {"label": look.name, "positive_from": start}
    reasons["label", None] = f"{found[0]:g} to {found[-1]:g}"
    reasons["positive_from", None] = f"so that {(numbers >= start).mean():.1%} are 1"
    return True


def _is_soft(look: Look) -> bool:
    """Return whether a column holds shares: numbers from 0 to 1, some of them neither 0 nor 1."""
    if look.type != "number":
        return False
    numbers = _there(look)
    return bool(((numbers >= 0) & (numbers <= 1)).all() and ((numbers > 0) & (numbers < 1)).any())


def _may_be_rare(look: Look, guess: Guess) -> bool:
    """Return whether a column holds only 0, or only 1, in the first rows, while the file has more rows than these."""
    return look.type == "number" and not guess.is_all and {*np.unique(_there(look))} in ({0.0}, {1.0})


def _holds_two(look: Look) -> bool:
    return look.type == "number" and len(np.unique(_there(look))) == 2


def _is_full(look: Look) -> bool:
    """Return whether so few cells of a column are missing that their rows may be left out."""
    there = len(_there(look)) if look.type in ("number", "time") else len(look.values)
    return len(look.cells) - there <= MAX_MALFORMED * len(look.cells)


def _small(look: Look) -> list[str]:
    return [str(value).lower() for value in look.values.unique().to_pylist()[: len(WORDS) + 1]]


def _there(look: Look) -> NDArray[np.float64]:
    """Return the numbers of a column that are not missing."""
    return look.numbers[np.isfinite(look.numbers)]


def _is_time(look: Look) -> bool:
    """Return whether a column holds times: dates; or, in a column with a usual name of times, numbers that rise or
    are large."""
    if look.type != "number" or look.base_name not in _TIMES:
        return look.type == "time"
    numbers = _there(look)
    return bool((np.diff(numbers) >= 0).all() or numbers.max() >= _LEAST_DATE)


def _guess_time(looks: Sequence[Look], split: str | None, time: str | None, guess: Guess) -> None:
    """Guess how rows are split for evaluation, by time or by order; `split` and `time` are the user's, None if not
    set."""
    parameters = guess.data["parameters"]
    parameters["split"] = split or "fraction"
    if split not in (None, "time"):
        return
    guess.reasons["split", None] = "the last tenth of the rows, in the order of the file"
    times = [look for look in looks if _is_time(look) and _is_full(look) and len(np.unique(_there(look))) > 1]
    if time is not None:
        times = [look for look in looks if look.name == time]
    sorted_times = [look for look in times if (np.diff(_there(look)) >= 0).all()]
    for look in sorted_times or times:
        parameters |= {"split": "time", "time": look.name}
        order = "are in the order of" if sorted_times else "are not in the order of"
        more = "" if sorted_times else ", and will be sorted"
        guess.reasons["split", None] = f"the first rows {order} {look.name!r}{more}; the last tenth evaluate"
        return


def _why_useless(look: Look, num_rows: int, parameters: Mapping[str, Any]) -> str | None:
    """Return the reason to leave a column out of the features, such as one value in all rows, or a different value in
    every row; None for a useful column."""
    if look.name == parameters.get("time"):
        return "the time"
    if look.type == "empty":
        return "empty"
    if _is_time(look):
        return "a time"
    if look.type == "list":
        return None
    distinct = look.num_distinct
    if distinct < 2:
        return "one value in all rows"
    if look.type == "text" and hold_unsorted_dates(look.values):
        return "dates with the year behind, which do not sort: written as 2026-01-31 they may split by time"
    if look.base_name in _LABELS:
        return "named as a label, which it may tell"
    is_key = num_rows > _FEW and (look.type == "text" or look.is_whole) and distinct == num_rows and not look.odd
    return "another value in every row" if is_key else None


def _is_category(look: Look) -> bool:
    if look.type != "number":
        return True
    numbers = _there(look)
    if (numbers % 1 != 0).any() or look.marks != _PLAIN:
        return False
    if np.abs(numbers).max() >= _LARGEST_NUMBER:
        return True
    words = look.base_name.replace("-", "_").split("_")
    name = look.name.rpartition(":")[0] or look.name
    looks_so = any(word in _IDS for word in words) or name.endswith(("Id", "ID")) or words[-1].endswith("id")
    if looks_so or _NUMBERED_CATEGORY.fullmatch(name):
        return True  # also 7.0, as pandas writes a column of ids with missing ones
    return look.is_whole and look.num_distinct <= min(_FEW, len(look.values) // 20)


def _guess_category(look: Look, guess: Guess, position: int) -> dict[str, Any]:
    found: dict[str, Any] = {"column": look.name}
    reason, texts = "", look.values
    if look.type == "list":
        most = int(compute.max(compute.list_value_length(texts)).as_py() or 1)
        found["max_ids"] = max(2, most if guess.is_all else 2 * most)
        reason, texts = f"at most {most} ids in a cell of the first rows; ", texts.flatten()
    for separator in _SEPARATORS if look.type == "text" else ():
        counts = to_numpy(compute.count_substring(texts, separator))
        if (counts > 0).mean() > 0.1 and compute.count_distinct(texts).as_py() > 2:
            if separator == " " and not _are_lists(look):
                continue
            most = int(counts.max() + 1)
            found |= {"separator": separator, "max_ids": max(2, most if guess.is_all else 2 * most)}
            texts = compute.list_flatten(compute.split_pattern(texts, separator))
            reason = f"at most {most} ids in a cell of the first rows; "
            break
    distinct = compute.count_distinct(texts).as_py()
    if distinct > _MANY:
        found["min_count"] = 2
    odd = f"; {look.odd}: empty these, to have numbers" if look.odd else ""
    guess.reasons["sparse", position] = f"{reason}{distinct:,} values in the first {len(look.values):,} rows{odd}"
    return found


def _are_lists(look: Look) -> bool:
    """Return whether the cells with spaces of a column are lists of ids, and not names such as "New York".

    They are lists in three cases: if all parts between spaces are whole numbers; if there are fewer distinct parts
    than distinct cells; or if the column's name ends in "_seq".
    """
    if look.name.endswith("_seq"):
        return True
    parts = compute.list_flatten(compute.split_pattern(look.values.unique(), " ")).unique()
    if compute.all(compute.match_substring_regex(parts, r"^[0-9]*$")).as_py():
        return True
    return len(parts) < look.num_distinct


def _guess_number(look: Look, guess: Guess, position: int) -> dict[str, Any]:
    numbers = _there(look)
    low, middle, high = numbers.min(), float(np.median(numbers)), numbers.max()
    if low >= 0 and high > 20 * max(middle, 0.05):
        transform = "log1p"
    else:
        transform = "as_is" if low >= -3 and high <= 3 else "standardised"
    more = "; whole numbers: if they are codes, move it to sparse" if look.is_whole and low > 1 else ""
    guess.reasons["dense", position] = f"{low:g} to {high:g}, median {middle:g}{more}"
    decimal, thousands = look.marks
    marks = {"decimal": decimal} if decimal != "." else {}
    return {"column": look.name, "transform": transform, **marks, **({"thousands": thousands} if thousands else {})}
