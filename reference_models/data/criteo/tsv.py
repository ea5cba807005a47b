"""Prepare datasets from Criteo's text files: 13 integers and 26 categories a line, cut into days as
facebookresearch/dlrm does.

`prepared.pipeline` runs the passes of a preparation; this module has the reader of Criteo's format.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from reference_models.config.records import PositiveCount, read_section, refuse
from reference_models.config.sections import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE, DataConfig
from reference_models.data.criteo.parse import parse_block, transform_integers
from reference_models.data.prepared.lines import SourceFile, TextSource
from reference_models.data.prepared.pipeline import NUM_NAMED, Feature, FileRows, PreparedDataset, prepare_files
from reference_models.process.errors import ConfigError, DatasetError


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareParameters:
    """Section [data.parameters] of Criteo's text files: which rows train and which evaluate, and how category values
    become ids. Changing a parameter makes another dataset."""

    split: Literal["days", "last_file", "files"]
    """Split of the rows. With `days`, all rows are cut into `num_days` equal days, the first days with one row more
    if the rows do not divide evenly. The first half of the last day evaluates, its second half is unused, and all
    other days train. `last_file` is the same, but each file is a day. With `files`, the files of --train train and
    the files of --eval evaluate."""
    num_days: Annotated[int, Meta(ge=2)] | None = None
    """Number of days into which the rows are cut; required with the split `days`, refused with any other."""
    min_frequency: PositiveCount = 1
    """Least number of occurrences in the training rows for which a category value gets its own id; rarer values share
    id 0."""
    max_ind_range: PositiveCount | None = None
    """Number N such that category values are taken modulo N before they are counted."""


def parse_parameters(data: DataConfig) -> PrepareParameters:
    """Read [data.parameters] of Criteo's text. Raises ConfigError naming the field, its value and the allowed
    values."""
    if (data.num_dense, data.num_sparse) != (13, 26):
        raise ConfigError(
            f"data has {data.num_dense} dense and {data.num_sparse} sparse features, expected Criteo's 13 and 26."
        )
    parameters = read_section("data.parameters", data.parameters, PrepareParameters)
    if (parameters.split == "days") != (parameters.num_days is not None):
        is_missing = parameters.num_days is None
        expected = Annotated[int, Meta(ge=2)] if is_missing else "nothing, except with split = 'days'"
        raise refuse("data.parameters", data.parameters, "num_days", expected)
    return parameters


def prepare_tsv(
    train_files: Sequence[Path], eval_files: Sequence[Path], data: DataConfig, folder: Path, **options: Any
) -> PreparedDataset:
    """Make the dataset `data` in `folder` from Criteo's text; `options` and errors are those of `prepare_files`.

    Raises ConfigError also for parameters that do not fit the files given.
    """
    parameters = parse_parameters(data)
    _check_options(train_files, eval_files, parameters)
    given = {key: value for key, value in asdict(parameters).items() if value is not None}
    return prepare_files(train_files, eval_files, data, folder, _CriteoReader(parameters), given, **options)


class _CriteoReader:
    """Reader of Criteo's text files, for the preparation of a dataset by `prepared.pipeline`."""

    dense_dtype, category_dtype = "float32", "uint32"
    keeps_dictionaries, moments = False, None

    def __init__(self, parameters: PrepareParameters) -> None:
        self._parameters = parameters
        self._source: TextSource | None = None
        self.has_times = False
        self.numbers = [f"column {2 + number}" for number in range(NUM_CRITEO_DENSE)]
        self.features = [
            Feature(
                name=f"column {2 + NUM_CRITEO_DENSE + number}",
                min_count=parameters.min_frequency,
                modulo=parameters.max_ind_range,
                remedy="cap it with data.parameters.max_ind_range",
            )
            for number in range(NUM_CRITEO_SPARSE)
        ]

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[FileRows]:
        self._source, line, num_named = TextSource(path, on_bytes), 1, 0
        for block in self._source:
            rows = parse_block(block, max_named=NUM_NAMED - num_named)
            if line == 1 and rows.malformed and not len(rows.labels) and b"\t" not in block.partition(b"\n")[0]:
                raise DatasetError(
                    f"{path}:1: {rows.malformed[0].reason}, with a tab between them; so is every line. Files with "
                    "columns of their own are begun by: dlrmbench init ./mine.toml --from-columns "
                    f"{shlex.quote(str(path))}"
                )
            yield FileRows(
                labels=rows.labels,
                dense=transform_integers(rows.integers),
                categories=[*rows.categories.T],
                num_malformed=rows.num_malformed,
                malformed=[f"{line + item.line}: {item.reason}" for item in rows.malformed],
            )
            num_named += len(rows.malformed)
            line += rows.num_lines

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Do nothing: reading a file of Criteo's text does not depend on earlier files."""

    def source(self) -> SourceFile:
        assert self._source is not None, "a file was read before"
        return self._source.source

    def split(self, file_rows: Sequence[int], num_train_files: int, times: object) -> dict[str, range]:
        return split_rows(file_rows, num_train_files, self._parameters)

    def finish_dense(self, pieces: Iterator[NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
        return np.asarray


def split_rows(file_rows: Sequence[int], num_train_files: int, parameters: PrepareParameters) -> dict[str, range]:
    """Return the ranges of rows of the splits `train` and `eval`, counted through all files in order.

    `days` and `last_file` follow facebookresearch/dlrm's data_utils.py. With `days`, all days have equal numbers of
    rows; if the rows do not divide evenly, the first days have one row more. With `last_file`, the last file is the
    last day. The first half of the last day, rounded up, is the "test" split that dlrm evaluates.
    """
    total = sum(file_rows)
    if parameters.split == "files":
        num_train, eval_stop = sum(file_rows[:num_train_files]), total
    else:
        last_day = file_rows[-1] if parameters.num_days is None else total // parameters.num_days
        num_train, eval_stop = total - last_day, total - last_day + (last_day + 1) // 2
    return {"train": range(num_train), "eval": range(num_train, eval_stop)}


def _check_options(train_files: Sequence[Path], eval_files: Sequence[Path], parameters: PrepareParameters) -> None:
    if parameters.split == "files" and not eval_files:
        raise ConfigError("data.parameters.split is 'files': give the evaluation files with --eval.")
    if parameters.split != "files" and eval_files:
        raise ConfigError(
            f"data.parameters.split is {parameters.split!r}: evaluation rows come from the end of the --train files. "
            "Leave --eval out, or say split = 'files' in a definition of your own."
        )
    if parameters.split == "last_file" and len(train_files) < 2:
        raise ConfigError("data.parameters.split is 'last_file': give at least two files after --train, in order.")
