"""Read section [data] of a definition for clicks in files with a user's own columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta

from reference_models.config.records import Amount, PositiveCount, read_section, refuse
from reference_models.config.sections import DataConfig
from reference_models.process.errors import ConfigError

MAX_IDS = 1 << 16
"""Maximum number of ids of a sample, over all category columns. Every row takes memory for the `max_ids` of each
column, even if its cells have fewer ids."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DenseColumn:
    """Column of a dense feature: a number per sample."""

    column: str
    """Name of the dense feature's column in the files."""
    transform: Literal["as_is", "log1p", "standardised"] = "as_is"
    """Transform of the numbers. `log1p`: log(1 + x), negative numbers as 0. `standardised`: the number less the mean
    of the training rows, divided by their standard deviation."""
    decimal: Literal[".", ","] = "."
    """Decimal mark of the column's numbers, where these are text."""
    thousands: Literal["", ",", ".", " ", "'"] = ""
    """Mark between groups of three digits in the column's numbers, where these are text."""


@dataclass(frozen=True, kw_only=True)
class SparseColumn:
    """Column of a sparse feature: one category per sample, or several, with an embedding table of its own."""

    column: str
    """Name of the sparse feature's column in the files."""
    min_count: PositiveCount = 1
    """Least number of occurrences in the training rows for which a category value gets its own id; rarer values share
    id 0."""
    rows: Annotated[int, Meta(ge=2)] | None = None
    """Number of rows of the embedding table, if ids are hashes of the values instead of their numbers in a
    dictionary."""
    separator: Annotated[str, Meta(min_length=1)] | None = None
    """Separator of the ids in a cell of text that has several ids."""
    max_ids: PositiveCount = 1
    """Maximum number of ids in a cell of the column; id 0 pads cells with fewer. Lists of Parquet and JSON need no
    separator."""


@dataclass(frozen=True, kw_only=True)
class ColumnsParameters:
    """Roles of the files' columns, and the split of rows. Any change of these parameters makes another dataset.

    A missing number is 0, or the mean if its column is standardised; a missing category is id 0. Rows without a label
    are left out.
    """

    label: str
    """Name of the label's column: 0 or 1, false or true, no or yes; with `soft_labels` a number from 0 to 1."""
    soft_labels: bool = False
    """Whether labels are shares from 0 to 1 that are trained on as they are: a sample counts as a 1 by its share, and
    as a 0 by the rest."""
    positive_from: float | None = None
    """Least number in the label's column that means label 1; smaller numbers mean 0. It is 4 for ratings, for
    example, and 1 for counts and for labels -1 and 1."""
    positive: tuple[str, ...] = ()
    """Cells of the label's column, as text, with label 1, such as `["purchase"]` of events; all others are 0."""
    dense: tuple[DenseColumn, ...] = ()
    """Dense features: a list of `{ column = "price", transform = "as_is" }`. Other transforms are `log1p`, log(1 + x)
    with negative x as 0, and `standardised`, x less the mean, divided by the standard deviation, both over training
    rows. If there is no dense feature, samples have one number, which is 0."""
    sparse: Annotated[tuple[SparseColumn, ...], Meta(min_length=1)]
    """Sparse features: a list of `{ column = "user", min_count = 1 }`, an embedding table for each. Values that occur
    fewer than `min_count` times in training share id 0 with values that occur only in evaluation; all other values
    are numbered. With `rows = 1000` instead of `min_count`, values are hashed to 1000 rows. With `separator = "/",
    max_ids = 4`, a cell may have up to 4 ids between slashes."""
    split: Literal["fraction", "time", "files"] = "fraction"
    """Choice of the evaluation rows: the last rows (`fraction`), the latest rows after sorting by time (`time`), or
    the rows of the files after --eval (`files`)."""
    eval_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Share of the files' rows for evaluation, except with split = `files`. Rows of equal times stay together."""
    time: str | None = None
    """Name of the time's column: numbers, or dates and times such as 2026-01-31 23:59:59, with or without a zone;
    only with, and required by, split `time`."""
    eval_from: str | Amount | None = None
    """First time of an evaluation row, instead of a fraction: a number, or a date or time as in the column `time`."""
    rows: PositiveCount | None = None
    """Number of rows to use, from the start of the files, malformed rows included; counted through all files. Not
    with split `files`."""
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """Approximate share of the rows to use. A row is used if a hash is below `share` times 2^64. The hash is BLAKE2b
    to 64 bits, little-endian, of the row's cell in the column `share_by`. Without `share_by` it is of the row's
    number, counted through all files from 1."""
    share_by: str | None = None
    """Name of a column, such as the user, whose value decides whether a row is in the `share`: of the rows with the
    same value, either all or none are used."""
    delimiter: Annotated[str, Meta(min_length=1, max_length=8)] = ","
    """Delimiter of the columns of a text file, such as `"::"`."""
    names: tuple[str, ...] = ()
    """Names of the columns, in order, of a text file without a header."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the files' columns that the definition uses, each once."""
        named = [name for name in (self.time, self.share_by) if name is not None]
        columns = (*(column.column for column in self.dense), *(column.column for column in self.sparse))
        return tuple(dict.fromkeys((self.label, *named, *columns)))


@dataclass(frozen=True, kw_only=True)
class ColumnsSection:
    """Section [data] for files with your own columns, which determine the number of dense features and of embedding
    tables."""

    kind: Literal["columns"]
    """Kind of data: prepared from CSV, JSON lines or Parquet."""
    name: str
    """Name of the dataset, part of its folder's name."""
    train_samples: PositiveCount | None = None
    """Number of training samples, which are one epoch; checked against the files if given."""
    eval_samples: PositiveCount | None = None
    """Number of samples of an evaluation; checked against the files if given."""
    sha256: str | None = None
    """sha256 that the dataset must have."""
    parameters: dict[str, Any]
    """Roles of the columns and split of the rows: the keys of [data.parameters]."""


def parse_columns(table: Mapping[str, Any]) -> DataConfig:
    """Read section [data] of a definition with a user's own columns. Raises ConfigError naming the wrong field."""
    section: ColumnsSection = read_section("data", _write_dates(table), ColumnsSection)
    parameters = _read(section.parameters)
    sizes = tuple(column.rows for column in parameters.sparse)
    return DataConfig(
        kind=section.kind,
        name=section.name,
        train_samples=section.train_samples,
        eval_samples=section.eval_samples,
        num_dense=max(1, len(parameters.dense)),
        num_embeddings=None if None in sizes else tuple(rows for rows in sizes if rows is not None),
        multi_hot=tuple(column.max_ids for column in parameters.sparse),
        seed=None,
        sha256=section.sha256,
        parameters=section.parameters,
    )


def _write_dates(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return section [data] with a TOML date or time in its `eval_from` written as text."""
    parameters = table.get("parameters")
    if not isinstance(parameters, Mapping) or not isinstance(found := parameters.get("eval_from"), date):
        return table
    return {**table, "parameters": {**parameters, "eval_from": found.isoformat()}}


def read_parameters(data: DataConfig) -> ColumnsParameters:
    """Read the columns' roles in [data.parameters]. Raises ConfigError naming the field, its value and the allowed
    values."""
    return _read(data.parameters)


def _read(table: Mapping[str, Any]) -> ColumnsParameters:
    read = {
        **table,
        **{
            key: _read_columns(key, table[key], kind)
            for key, kind in (("dense", DenseColumn), ("sparse", SparseColumn))
            if key in table
        },
    }
    parameters = read_section("data.parameters", read, ColumnsParameters)
    used: dict[str, str] = {parameters.label: "label"}
    for key, columns in (("dense", parameters.dense), ("sparse", parameters.sparse)):
        names = [column.column for column in columns]
        for name in names:
            if used.get(name) == "label" or names.count(name) > 1:
                other = "the label" if used.get(name) == "label" else f"twice in data.parameters.{key}"
                raise ConfigError(f"data.parameters.{key}: column {name!r} is {other}. Leave one out.")
    if (num_ids := sum(column.max_ids for column in parameters.sparse)) > MAX_IDS:
        raise ConfigError(
            f"data.parameters.sparse: a sample has {num_ids:,} ids (max_ids of all columns), expected at most "
            f"{MAX_IDS:,}. Give smaller ones."
        )
    for column in parameters.sparse:
        if column.separator is not None and column.max_ids == 1:
            raise ConfigError(
                f"data.parameters.sparse: column {column.column!r} has a separator, and needs max_ids of at least 2."
            )
        if column.rows is not None and column.min_count > 1:
            raise ConfigError(
                f"data.parameters.sparse: column {column.column!r} has rows, which hash its values, and min_count, "
                "which needs a dictionary. Leave one out."
            )
    _refuse_together(parameters, table)
    return parameters


def _refuse_together(parameters: ColumnsParameters, table: Mapping[str, Any]) -> None:
    """Raise ConfigError for keys of [data.parameters] that have no effect, or contradict each other."""
    if parameters.positive and parameters.positive_from is not None:
        raise refuse("data.parameters", table, "positive", "nothing, except without positive_from")
    for key in ("positive", "positive_from"):
        if parameters.soft_labels and getattr(parameters, key) not in ((), None):
            raise refuse("data.parameters", table, key, "nothing, except without soft_labels")
    for dense in parameters.dense:
        if dense.decimal == dense.thousands:
            raise ConfigError(
                f"data.parameters.dense: column {dense.column!r} has the same decimal and thousands. Leave one out."
            )
    if (parameters.split == "time") != (parameters.time is not None):
        what = "a column's name, with split = 'time'" if parameters.time is None else "nothing, except with 'time'"
        raise refuse("data.parameters", table, "time", what)
    if parameters.eval_from is not None and (parameters.split != "time" or "eval_fraction" in table):
        raise refuse(
            "data.parameters", table, "eval_from", "nothing, except with split = 'time' and no eval_fraction"
        )
    if parameters.rows is not None and parameters.split == "files":
        raise refuse("data.parameters", table, "rows", "nothing, with split = 'files'")
    if parameters.share_by is not None and parameters.share is None:
        raise refuse("data.parameters", table, "share_by", "nothing, except with share")


def _read_columns(key: str, given: Any, kind: type[T]) -> tuple[T, ...]:
    expected = 'a list of tables such as { column = "NAME" }'
    if not isinstance(given, list | tuple) or not all(isinstance(item, Mapping) for item in given):
        raise refuse("data.parameters", {key: given}, key, expected)
    return tuple(read_section(f"data.parameters.{key}[{number}]", item, kind) for number, item in enumerate(given))
