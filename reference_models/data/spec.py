"""What the harness knows of a kind of data: one `DataSpec` per kind; `registry` finds it by name.

Specs import neither torch nor numpy, since listing benchmarks reads them all.
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
    """Make a function of 'module:function', which is imported when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        return find(place)(*arguments, **options)

    return call


def find(place: str) -> Any:
    """Import 'module:name'."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """[data] of a dataset in files. Sizes may come from the files themselves."""

    kind: Literal[
        "click_log",
        "click_sequence",
        "patterns",
        "criteo",
        "mlperf_one_hot",
        "mlperf_multi_hot",
    ]
    """`click_log`, `click_sequence` and `patterns` are generated, `criteo` prepared from text in Criteo's form, the
    others are MLPerf's own files. `columns`, prepared from files with other columns, has a section of its own."""
    name: str
    """The dataset's name, in the name of its folder."""
    train_samples: PositiveCount | None = None
    """Samples of an epoch; needed for generated data, else checked against the files where given."""
    eval_samples: PositiveCount | None = None
    """Samples of an evaluation; likewise."""
    num_dense: PositiveCount = NUM_CRITEO_DENSE
    """Numbers per sample."""
    num_embeddings: Counts | None = None
    """Rows of each table, one per category; `criteo` takes them from the files."""
    multi_hot: Counts | None = None
    """Ids per sample of each table; one where it is left out."""
    seed: Count | None = None
    """Seed of the generator; needed for generated data."""
    sha256: str | None = None
    """Digest that the data must have; leave it out of data that you change."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """What makes the data, by kind: see below."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSpec:
    """One kind of data. Its folder fills it; nothing outside of the folder knows the kind otherwise.

    What is neither generated nor prepared is read where its owner's files lie, or made in memory.
    """

    example: str | None
    """The shipped benchmark that a new definition of this kind begins as; None where `init` begins none."""
    section: type[Any] = DataSection
    """The record of [data], for the schema of definitions."""
    parse: Callable[[Mapping[str, Any]], DataConfig] | None = None
    """Reads [data] where it is another record than `DataSection`. Raises ConfigError naming the field."""
    takes_sizes_from_files: bool = False
    """Whether num_embeddings may be left out of [data], since the files say them."""
    has_one_id_per_table: bool = False
    """Whether multi_hot may only be ones."""
    parameters: str | None = None
    """Place of the record of [data.parameters], as 'module:name', if there are any."""
    check: Callable[[DataConfig], object] = lambda data: None
    """Raises ConfigError for [data.parameters] or sizes that no data of this kind can have."""
    layout: Layout = CLICKS
    """Arrays in files, and the batch that a reader gives. A model takes data by its batch."""
    soft_layout: Layout | None = None
    """Likewise, where labels are shares from 0 to 1; None of a kind that has no such labels."""
    generate: Callable[[DataConfig], "Parts"] | None = None
    """What makes the data; None where it comes from elsewhere. Raises ConfigError as `check` does."""
    oracle: Callable[[DataConfig, str], tuple[Any, Any]] | None = None
    """(data, split): score and label of every sample of generated data, as its metric takes them. No model can do
    better. Of clicks these are float64 [N] and uint8 [N], of classes float64 [N, T, K] and int64 [N, T]."""
    prepare: Callable[..., Any] | None = None
    """What makes it from files of the user's, as `data prepare` calls it: (train_files, eval_files, data, folder)
    and the options of `prepare_files`, whose `PreparedDataset` it returns."""
    is_in_memory: bool = False
    """Whether it has no files at all."""
    open: Callable[[Path, DataConfig], OpenedDataset] | None = None
    """Opens both splits, metadata only, where they lie in no store of this product. Raises DatasetError."""
    published: Callable[[DataConfig], Mapping[str, str]] = lambda data: {}
    """MD5 by file name, of files whose owner publishes it."""

    @property
    def is_prepared(self) -> bool:
        """Return whether `data prepare` makes it from files of the user's."""
        return self.prepare is not None

    @property
    def has_store(self) -> bool:
        """Return whether its files are a folder with a manifest, made here."""
        return self.open is None

    def open_dataset(self, folder: Path, data: DataConfig) -> OpenedDataset:
        """Open both splits; metadata only. Raises DatasetError."""
        if self.open is not None:
            return self.open(folder, data)
        from reference_models.data.store.store import open_store  # which needs numpy

        return open_store(folder, data, self.layout_of(data.has_soft_labels))

    def layout_of(self, has_soft_labels: bool) -> Layout:
        """Return the arrays of data whose labels are soft, or not."""
        return self.soft_layout if has_soft_labels and self.soft_layout is not None else self.layout

    def parse_section(self, table: Mapping[str, Any]) -> DataConfig:
        """Read [data]. Raises ConfigError naming the field."""
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
