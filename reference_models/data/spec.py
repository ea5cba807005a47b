"""Define `DataSpec`: the functions and properties of one kind of data, with which the harness generates, prepares and
opens data of this kind.

Modules with a DataSpec import neither torch nor numpy, since listing benchmarks reads them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reference_models.config.records import Count, Counts, PositiveCount, read_section, refuse
from reference_models.config.sections import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE, DataConfig
from reference_models.data.store.dataset import OpenedDataset
from reference_models.data.store.layout import CLICKS, Layout

if TYPE_CHECKING:
    from reference_models.data.store.generate import Parts


def load(place: str) -> Callable[..., Any]:
    """Return a function that passes its arguments to the function at `place` ('module:function'), whose module is
    imported only at the first call."""

    def call(*arguments: Any, **options: Any) -> Any:
        return find(place)(*arguments, **options)

    return call


def find(place: str) -> Any:
    """Return the object named in `place` ('module:name'), importing its module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """Section [data] of a dataset in files. The dataset's sizes may be left out where the files have them."""

    kind: Literal[
        "click_log",
        "click_sequence",
        "patterns",
        "criteo",
        "mlperf_one_hot",
        "mlperf_multi_hot",
    ]
    """Kind of data. `click_log`, `click_sequence` and `patterns` are generated, `criteo` is prepared from text in
    Criteo's format, and `mlperf_one_hot` and `mlperf_multi_hot` are MLPerf's own files. Files with other columns have
    the kind `columns`; its section [data] has other keys."""
    name: str
    """Name of the dataset, part of its folder's name."""
    train_samples: PositiveCount | None = None
    """Number of training samples, which are one epoch; required for generated data, else checked against the files if
    given."""
    eval_samples: PositiveCount | None = None
    """Number of samples of an evaluation; required for generated data, else checked against the files if given."""
    num_dense: PositiveCount = NUM_CRITEO_DENSE
    """Number of dense features per sample."""
    num_embeddings: Counts | None = None
    """Number of rows of each embedding table, one table per sparse feature; `criteo` takes them from the files."""
    multi_hot: Counts | None = None
    """Number of ids per sample of each embedding table; one if left out."""
    seed: Count | None = None
    """Seed of the generator; required for generated data."""
    sha256: str | None = None
    """sha256 that the dataset must have; leave it out for data that you change."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Parameters of the data's generation or preparation: the keys of [data.parameters], by kind of data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSpec:
    """Specification of a kind of data (such as `criteo`): its layout, and functions that generate or open it.

    Data that is neither generated nor prepared is read from its owner's files in place, or made in memory.
    """

    example: str | None
    """Shipped benchmark from which the command `init` starts a definition with this kind of data; None if `init`
    makes none."""
    section: type[Any] = DataSection
    """Class whose members are the keys of section [data] of a definition; the JSON schema of definitions is made from
    it."""
    parse: Callable[[Mapping[str, Any]], DataConfig] | None = None
    """Function that reads section [data] of a definition, and raises ConfigError naming the wrong field; None if the
    section is read as the class `section` alone."""
    takes_sizes_from_files: bool = False
    """Whether num_embeddings (number of rows of each table) may be left out of [data], since the data's files
    determine it."""
    has_one_id_per_table: bool = False
    """Whether every sparse feature must have exactly one id per sample (multi_hot of ones)."""
    parameters: str | None = None
    """Place, as 'module:name', of the class whose members are the keys of [data.parameters]; None if the kind of data
    has no such section."""
    check: Callable[[DataConfig], object] = lambda data: None
    """Function that raises ConfigError if data of this kind cannot have the given [data.parameters] or sizes."""
    layout: Layout = CLICKS
    """Layout of the data: the arrays of a split in files, and the class of the batches that are read and that a model
    accepts."""
    soft_layout: Layout | None = None
    """Layout (arrays, class of batches) of data whose labels are shares from 0 to 1; None if this kind of data cannot
    have soft labels."""
    generate: Callable[[DataConfig], "Parts"] | None = None
    """Function that returns a dataset's `Parts`: the tasks that generate the dataset, and a function that executes
    one task. It raises ConfigError for parameters or sizes that this kind of data cannot have. None for data that is
    not generated."""
    oracle: Callable[[DataConfig, str], tuple[Any, Any]] | None = None
    """Function that takes a generated dataset's definition and a split, and returns the best possible scores of the
    split's samples and their labels. For clicks these are float64 [N] and uint8 [N], for classes float64 [N, T, K]
    and int64 [N, T]. None for data that is not generated."""
    prepare: Callable[..., Any] | None = None
    """Function that makes a dataset from a user's files for `data prepare`: takes (train_files, eval_files, data,
    folder) and the options of `prepare_files`, whose `PreparedDataset` it returns; None if data is not prepared."""
    is_in_memory: bool = False
    """Whether samples are made in memory, so that the dataset has no files."""
    open: Callable[[Path, DataConfig], OpenedDataset] | None = None
    """Function that opens both splits of data in its owner's files or in memory, reading metadata only; it raises
    DatasetError if they cannot be opened. None for data in the store (a folder with a manifest)."""
    published: Callable[[DataConfig], Mapping[str, str]] = lambda data: {}
    """Function that returns the MD5 that the owner of the data `data` publishes for each file, by file name; empty if
    none are published."""

    @property
    def is_prepared(self) -> bool:
        """Return whether the command `data prepare` makes data of this kind from a user's files."""
        return self.prepare is not None

    @property
    def has_store(self) -> bool:
        """Return whether data of this kind is in the store: a folder with a manifest."""
        return self.open is None

    def open_dataset(self, folder: Path, data: DataConfig) -> OpenedDataset:
        """Open a dataset's training and evaluation splits, reading metadata only. Raises DatasetError."""
        if self.open is not None:
            return self.open(folder, data)
        from reference_models.data.store.store import open_store  # which needs numpy

        return open_store(folder, data, self.layout_of(data.has_soft_labels))

    def layout_of(self, has_soft_labels: bool) -> Layout:
        """Return the layout (arrays, class of batches) of data whose labels are soft (shares from 0 to 1) if
        `is_soft`, else 0 and 1."""
        return self.soft_layout if has_soft_labels and self.soft_layout is not None else self.layout

    def parse_section(self, table: Mapping[str, Any]) -> DataConfig:
        """Read section [data] of a benchmark definition. Raises ConfigError naming the wrong field."""
        if self.parse is not None:
            return self.parse(table)
        section: DataSection = read_section("data", table, self.section)
        if section.num_embeddings is None and not self.takes_sizes_from_files:
            raise refuse("data", table, "num_embeddings", "a list of whole numbers, one per sparse feature")
        num_sparse = len(section.num_embeddings) if section.num_embeddings is not None else NUM_CRITEO_SPARSE
        multi_hot = section.multi_hot or (1,) * num_sparse
        if len(multi_hot) != num_sparse:
            raise refuse("data", table, "multi_hot", f"{num_sparse} numbers, one per sparse feature")
        if self.has_one_id_per_table and set(multi_hot) != {1}:
            raise refuse("data", table, "multi_hot", f"ones only: {section.kind} data has one id per feature")
        for key in ("train_samples", "eval_samples", "seed") if self.generate else ():
            if key not in table:
                raise refuse("data", table, key, Count if key == "seed" else PositiveCount)
        return DataConfig(**{**asdict(section), "multi_hot": multi_hot})
