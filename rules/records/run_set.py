"""extra/run_set.json: the request that made a set, its software and system; and the checks of the system before
it."""

import hashlib
from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rules.records.codec import Amount, Count, Document, PositiveAmount, PositiveCount, Record, Sha256
from rules.records.system import SYSTEM_FIELDS

Kind = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
"""Kind of measurement of one fresh process: a key of `rules.records.kinds.PLACES`, or a kind of a newer version."""
Options = Annotated[
    dict[str, Count],
    Meta(description="Further parameters of the kind, such as num_steps of a throughput measurement."),
]


class BenchmarkRecord(Record, frozen=True, kw_only=True):
    """Benchmark of a set, by name and by digest."""

    name: str
    version: PositiveCount
    status: Literal["own", "official", "workload"]
    definition_sha256: Sha256


class ConfigValue(Record, frozen=True, kw_only=True):
    """A resolved value of the configuration and its source."""

    value: Any
    source: str


class GivenField(Record, frozen=True, kw_only=True):
    """A field of the submission and its source."""

    value: str
    source: str


class ColumnLookRecord(Record, frozen=True, kw_only=True):
    """Counts over one column's cells that data was prepared from: of the training split, then of the evaluation
    split."""

    name: str
    kind: Literal["number", "category"]
    num_cells: tuple[Count, Count]
    num_missing: tuple[Count, Count]
    num_unknown: tuple[Count, Count]
    """Cells of a category whose value is rare in the training split, or absent from it."""
    num_distinct: Count | None
    """Distinct values in the training split, for a category with a dictionary."""
    auc: float | None
    """ROC AUC of this column alone on the first rows of the evaluation split."""


class SoftLookRecord(Record, frozen=True, kw_only=True):
    """Summary of soft labels: shares from 0 to 1."""

    best_auc: Annotated[float, Meta(ge=0, le=1)]
    """ROC AUC of the first evaluation rows when ranked by their own labels: the upper bound for any scores on these
    rows."""
    variance: Annotated[float, Meta(ge=0)]
    """Variance of the labels of both splits together."""


class DataLookRecord(Record, frozen=True, kw_only=True):
    """Summary of the quality of data, made while it was prepared from a user's own files."""

    positives: dict[Literal["train", "eval"], Annotated[float, Meta(ge=0, le=1)]]
    """Share of labels that are 1, by split; for soft labels their mean."""
    columns: tuple[ColumnLookRecord, ...]
    """Statistics of each column, of at most a fixed number of columns; numbers before categories."""
    num_columns: Count
    remarks: tuple[str, ...] = ()
    """Possible defects of the data."""
    soft_labels: SoftLookRecord | None = None
    """Summary of soft labels; None for labels that are 0 or 1."""


class DatasetRecord(Record, frozen=True, kw_only=True):
    """Folder of the dataset, and its identity."""

    dir: str
    dataset_sha256: Sha256 | None
    look: DataLookRecord | None = None
    """Summary of the prepared data; None for data that was not prepared from a user's files."""


class DescribedSystem(Record, frozen=True, kw_only=True):
    """The system description as detected and given when the set began."""

    name: str
    fields: Annotated[dict[str, str], Meta(min_length=len(SYSTEM_FIELDS), max_length=len(SYSTEM_FIELDS))]
    provenance: dict[str, str]


class PreflightCheck(Record, frozen=True, kw_only=True):
    """One check of the system before the first run."""

    name: str
    value: str
    status: Literal["ok", "warning", "unknown"]
    why: str
    remedy: str


class UntilRecord(Record, frozen=True, kw_only=True):
    """Precision at which a set stops growing: a sufficiently narrow confidence interval of the mean time to train."""

    width: Annotated[float, Meta(gt=0, le=1)]
    """Largest half-width of the interval, as a fraction of the mean."""
    min_runs: PositiveCount
    """Number of runs made before the interval is first computed."""
    max_runs: PositiveCount


Word = Annotated[str, Meta(max_length=200)]


class ProductRecord(Record, frozen=True, kw_only=True):
    """A matrix product of a training step: everything that may decide which form computes it fastest."""

    kind: Word
    num_samples: PositiveCount
    num_in: PositiveCount
    num_out: PositiveCount
    precision: Word = "fp32"
    has_bias: bool = False
    has_relu: bool = False
    adds: bool = False
    is_transposed: bool = False


class ChosenProductRecord(Record, frozen=True, kw_only=True):
    """A matrix product, the form chosen to compute it, and the least seconds of every form that was tried."""

    product: ProductRecord
    form: Word
    seconds: dict[Word, Amount] = msgspec.field(default_factory=dict)


MATMUL_FILE = "matmul.json"
"""File name of a choice of matrix products on a set's page and in its package."""


class MatmulRecord(Record, frozen=True, kw_only=True):
    """Forms in which a step's matrix products are computed, and the conditions under which they were timed."""

    num_threads: PositiveCount
    precision: Word
    torch_version: Word
    cpu: Word
    products: Annotated[tuple[ChosenProductRecord, ...], Meta(max_length=10_000)]

    @property
    def digest(self) -> str:
        """Return the sha256 of the chosen products and forms, in any order and without their times."""
        pairs = ((chosen.product, chosen.form) for chosen in self.products)
        forms = sorted(msgspec.json.encode(pair, order="deterministic") for pair in pairs)
        return hashlib.sha256(b"\n".join(forms)).hexdigest()

    @property
    def label(self) -> str:
        """Return a label of the digest and the number of products by form: "ab12cd34ef56: 9 mm, 5 onednn"."""
        forms = Counter(chosen.form for chosen in self.products)
        return f"{self.digest[:12]}: {', '.join(f'{num} {form}' for form, num in sorted(forms.items())) or 'none'}"


TIE = 1.05
"""Factor below which step times are a tie: timings of a few seconds cannot separate them."""


class StepTimeRecord(Record, frozen=True, kw_only=True):
    """A way to compute a training step that was tried before the first run."""

    num_threads: PositiveCount
    spin_count: Count | None
    step_s: PositiveAmount
    """Seconds of one step: the mean of a few in a row, the least of several rounds measured alternately with the
    other ways."""


class ServiceWayRecord(Record, frozen=True, kw_only=True):
    """A way to answer queries that was tried before the first run."""

    num_workers: PositiveCount
    num_threads: PositiveCount
    """Threads of all workers together."""
    batch_items: PositiveCount | None
    """Most items per call; None where every query is a call of its own."""
    split_items: PositiveCount | None
    """Number of items from which a query is split over all workers; None where only `batch_items` splits queries."""
    queries_per_s: PositiveAmount
    """Simulated throughput, from the times of calls measured on all workers at once: the highest within the latency
    limit, or without a limit the highest at all."""

    @property
    def setup(self) -> tuple[int, int, int | None, int | None]:
        """Return the parameters that define the way, without its throughput."""
        return self.num_workers, self.num_threads, self.batch_items, self.split_items


class ServiceChoice(Record, frozen=True, kw_only=True):
    """The way in which queries are answered on this system, chosen among those tried."""

    chosen: ServiceWayRecord
    tried: Annotated[tuple[ServiceWayRecord, ...], Meta(max_length=1000)]

    @property
    def settings(self) -> dict[str, int]:
        """Return the chosen way by keys of the configuration, without threads and without parameters that are
        None."""
        chosen = self.chosen
        keys = {"threads": chosen.num_workers, "batch": chosen.batch_items, "split_from": chosen.split_items}
        return {f"serve.{key}": value for key, value in keys.items() if value is not None}


class ChoiceRecord(Record, frozen=True, kw_only=True):
    """The way in which steps are computed on this system, chosen by timing before the first run and used by every
    run."""

    key: Sha256
    """Digest of the conditions of the choice: processor, torch, implementation, shape, batch and precision."""
    num_threads: PositiveCount
    spin_count: Count | None
    """Spin time of OpenMP's threads at a barrier before they sleep: GOMP_SPINCOUNT of the runs' processes. None where
    their environment already set it."""
    tried: tuple[StepTimeRecord, ...]
    """Ways that were timed; empty where there was only one."""
    matmul: MatmulRecord | None
    """Choice of matrix products; None where the implementation has no choice among libraries."""
    matmul_source: str | None
    """Source of the choice of matrix products: "measured", or the file that was given."""
    chosen_utc: str
    service: ServiceChoice | None = None
    """Way in which the set's processes answer queries; None for a set that trains."""
    in_fp32: StepTimeRecord | None = None
    """Fastest way to compute steps in fp32, timed in the same manner; only for a set in bf16 on a CPU."""
    was_busy: bool = False
    """Whether other processes took processor time while the ways were timed; a set that begins on a quiet system has
    them timed again."""

    @property
    def bf16_is(self) -> Literal["slower than", "about as fast as", "faster than"] | None:
        """Return how a step in bf16 compares with one in fp32, equal within `TIE`; None where either was not
        timed."""
        if (chosen := self.chosen_way) is None or self.in_fp32 is None:
            return None
        ratio = chosen.step_s / self.in_fp32.step_s
        return "slower than" if ratio > TIE else "faster than" if ratio * TIE < 1 else "about as fast as"

    @property
    def chosen_way(self) -> StepTimeRecord | None:
        """Return the timing of the chosen way; None where there was only one way."""
        ways = (way for way in self.tried if (way.num_threads, way.spin_count) == (self.num_threads, self.spin_count))
        return next(ways, None)

    @property
    def tied(self) -> tuple[StepTimeRecord, ...]:
        """Return the ways with other thread counts whose times are within `TIE` of the chosen way's."""
        chosen = self.chosen_way
        others = () if chosen is None else (way for way in self.tried if way.num_threads != self.num_threads)
        return tuple(way for way in others if chosen and chosen.step_s / TIE < way.step_s < chosen.step_s * TIE)


HookName = Literal["prepare", "cleanup", "power-command"]


class RunSetRecord(Document, frozen=True, kw_only=True):
    """The request that made a set, and the system and software on which it ran."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    kind: Kind
    options: Options
    benchmark: BenchmarkRecord
    config: Annotated[dict[str, ConfigValue], Meta(description="Resolved values by section.key.")]
    num_runs: PositiveCount
    base_seed: Annotated[int, Meta(ge=0)]
    seeds: tuple[Count, ...]
    division: Literal["closed", "open"]
    timeout_s: float | None
    num_threads: PositiveCount
    dataset: DatasetRecord
    submission: dict[str, GivenField]
    system: DescribedSystem
    environment: dict[str, Any]
    preflight: tuple[PreflightCheck, ...]
    code_sha256: Sha256 | None
    """Digest of the code that began the set; each run's record has that of the code that ran. None before version
    3."""
    until: UntilRecord | None
    """Precision at which the set stops growing; None where the number of runs was given."""
    keep_weights: bool = False
    """Whether each run leaves its weights in extra/run_<i>/weights."""
    choice: ChoiceRecord | None = None
    """Way in which steps are computed; None where there is nothing to choose, and in files of earlier versions."""
    id_map_sha256: Sha256 | None = None
    """Digest of the map of ids to rows through which all runs read their data; None where there is none."""
    hooks: dict[HookName, str] = msgspec.field(default_factory=dict)
    """Commands that the user had run around each repetition. Reading the file never runs them."""
    is_chained: bool = False
    """Whether each run's record holds the digest of the previous run's; False for sets that an earlier version
    began."""


class SystemChecks(Record, frozen=True, kw_only=True):
    """Document that `doctor --format json` prints: every check of the system.

    Within one schema_version members are only added.
    """

    schema_version: Literal[1] = 1
    checks: Annotated[tuple[PreflightCheck, ...], Meta(min_length=1)]
