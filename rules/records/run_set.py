"""extra/run_set.json records the request that made a run set, the software and system it ran on, and the checks of
the system before its first run."""

import hashlib
from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rules.records.codec import Amount, Count, Document, PositiveAmount, PositiveCount, Record, Sha256
from rules.records.system import SYSTEM_FIELDS

Kind = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
"""Name of a kind of measurement made by one fresh process: a key of `rules.records.kinds.PLACES`, or a kind that only
a newer version knows."""
Options = Annotated[
    dict[str, Count],
    Meta(description="Further parameters of the kind, such as num_steps of a throughput measurement."),
]


class BenchmarkRecord(Record, frozen=True, kw_only=True):
    """Benchmark that a run set trains, by name and version, and by the digest of its definition."""

    name: str
    version: PositiveCount
    status: Literal["own", "official", "workload"]
    definition_sha256: Sha256


class ConfigValue(Record, frozen=True, kw_only=True):
    """Value of one setting of the run set's configuration, and where it came from (such as the definition or the
    command line)."""

    value: Any
    source: str


class GivenField(Record, frozen=True, kw_only=True):
    """Field of MLPerf's submission data (such as the submitter), and where its value came from."""

    value: str
    source: str


class ColumnLookRecord(Record, frozen=True, kw_only=True):
    """Counts of cells in one column of the user's file from which a dataset was prepared. Each pair of counts is
    (training split, evaluation split)."""

    name: str
    kind: Literal["number", "category"]
    num_cells: tuple[Count, Count]
    num_missing: tuple[Count, Count]
    num_unknown: tuple[Count, Count]
    """Numbers of cells of a categorical column whose value is rare in the training split or absent from it, as a
    pair: cells in the training split, and cells in the evaluation split."""
    num_distinct: Count | None
    """Number of distinct values that a categorical column has in the training split, if a dictionary numbers its
    values; None for other columns."""
    auc: float | None
    """ROC AUC on the first rows of the evaluation split, if this column's values are the only predictor."""


class SoftLookRecord(Record, frozen=True, kw_only=True):
    """Summary of a dataset's soft labels: probabilities from 0 to 1 instead of the labels 0 and 1."""

    best_auc: Annotated[float, Meta(ge=0, le=1)]
    """ROC AUC of the first rows of the evaluation split, ranked by their own soft labels: no model can reach a higher
    ROC AUC on these rows."""
    variance: Annotated[float, Meta(ge=0)]
    """Variance of the soft labels of the training and evaluation splits together."""


class DataLookRecord(Record, frozen=True, kw_only=True):
    """Statistics of a dataset and its possible defects, collected while it was prepared from a user's own files."""

    positives: dict[Literal["train", "eval"], Annotated[float, Meta(ge=0, le=1)]]
    """Share of labels that are 1, by split; for soft labels (probabilities) their mean."""
    columns: tuple[ColumnLookRecord, ...]
    """Statistics of each of the dataset's columns, up to a fixed number of columns: numerical columns first, then
    categorical ones."""
    num_columns: Count
    remarks: tuple[str, ...] = ()
    """Possible defects of the dataset, one sentence each."""
    soft_labels: SoftLookRecord | None = None
    """Summary of the dataset's soft labels (probabilities); None for labels that are 0 or 1."""


class DatasetRecord(Record, frozen=True, kw_only=True):
    """Folder of the dataset that a run set reads, and the dataset's digest."""

    dir: str
    dataset_sha256: Sha256 | None
    look: DataLookRecord | None = None
    """Statistics of the prepared dataset; None for data that was not prepared from a user's files."""


class DescribedSystem(Record, frozen=True, kw_only=True):
    """MLPerf system description as detected by the harness and completed by the user when the run set began."""

    name: str
    fields: Annotated[dict[str, str], Meta(min_length=len(SYSTEM_FIELDS), max_length=len(SYSTEM_FIELDS))]
    provenance: dict[str, str]


class PreflightCheck(Record, frozen=True, kw_only=True):
    """Check of the system (such as CPU clock, load, memory) before the first run, with the value found and a
    remedy."""

    name: str
    value: str
    status: Literal["ok", "warning", "unknown"]
    why: str
    remedy: str


class UntilRecord(Record, frozen=True, kw_only=True):
    """Precision at which a run set gets no more runs: the confidence interval of the mean time to train is narrow
    enough."""

    width: Annotated[float, Meta(gt=0, le=1)]
    """Half-width of the confidence interval, as a fraction of the mean time to train. A run set gets no more runs
    once its half-width is at most this."""
    min_runs: PositiveCount
    """Number of runs made before the confidence interval of the mean time to train is first computed."""
    max_runs: PositiveCount


Word = Annotated[str, Meta(max_length=200)]


class ProductRecord(Record, frozen=True, kw_only=True):
    """Matrix product of a training step: everything that may decide which library call computes it fastest. These are
    its kind, shape [num_samples, num_in] x [num_in, num_out], precision and fused operations."""

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
    """Matrix product of a training step, the form (library call) chosen to compute it, and the shortest time in
    seconds of each form that was tried."""

    product: ProductRecord
    form: Word
    seconds: dict[Word, Amount] = msgspec.field(default_factory=dict)


MATMUL_FILE = "matmul.json"
"""Name of the file, on a run set's report page and in its submission package, that lists the forms (library calls)
chosen for a training step's matrix products."""


class MatmulRecord(Record, frozen=True, kw_only=True):
    """Forms (library calls) in which a training step's matrix products are computed, and the conditions under which
    they were timed."""

    num_threads: PositiveCount
    precision: Word
    torch_version: Word
    cpu: Word
    products: Annotated[tuple[ChosenProductRecord, ...], Meta(max_length=10_000)]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the matrix products and the form (library call) chosen for each. It depends neither
        on their order nor on their times."""
        pairs = ((chosen.product, chosen.form) for chosen in self.products)
        forms = sorted(msgspec.json.encode(pair, order="deterministic") for pair in pairs)
        return hashlib.sha256(b"\n".join(forms)).hexdigest()

    @property
    def label(self) -> str:
        """Return a label with the digest and the number of matrix products computed in each form (library call):
        "ab12cd34ef56: 9 mm, 5 onednn"."""
        forms = Counter(chosen.form for chosen in self.products)
        return f"{self.digest[:12]}: {', '.join(f'{num} {form}' for form, num in sorted(forms.items())) or 'none'}"


TIE = 1.05
"""Ratio of two step times below which the two count as equal, since timings of a few seconds cannot tell them
apart."""


class StepTimeRecord(Record, frozen=True, kw_only=True):
    """Setting (threads, spin time) for computing a training step that was tried before the first run, with the time
    of a step."""

    num_threads: PositiveCount
    spin_count: Count | None
    step_s: PositiveAmount
    """Seconds of one training step. Several rounds are measured, alternately with the other settings; each round
    gives the mean of a few steps in a row, and the shortest of these means is taken."""


class ServiceWayRecord(Record, frozen=True, kw_only=True):
    """Setting (workers, threads, batching) for answering inference queries that was tried before the first run, with
    its throughput."""

    num_workers: PositiveCount
    num_threads: PositiveCount
    """Number of threads of all workers that answer queries, together."""
    batch_items: PositiveCount | None
    """Maximum number of candidate items in one call of the model, which may combine several queries; None where every
    query is a call of its own."""
    split_items: PositiveCount | None
    """Smallest number of candidate items for which a query is split over all workers. None if a query is split only
    where it exceeds `batch_items`, the limit of one call."""
    queries_per_s: PositiveAmount
    """Simulated queries per second, computed from the times of calls that were measured on all workers at once. It is
    the highest rate within the latency limit; if there is no limit, the highest rate of all."""

    @property
    def setup(self) -> tuple[int, int, int | None, int | None]:
        """Return the parameters that define how queries are answered: workers, threads, batch_items and split_items.
        The measured throughput is left out."""
        return self.num_workers, self.num_threads, self.batch_items, self.split_items


class ServiceChoice(Record, frozen=True, kw_only=True):
    """Chosen setting (workers, threads, batching) for answering inference queries on this system, and all settings
    that were tried."""

    chosen: ServiceWayRecord
    tried: Annotated[tuple[ServiceWayRecord, ...], Meta(max_length=1000)]

    @property
    def settings(self) -> dict[str, int]:
        """Return the chosen setting for answering queries: a dict from keys of the configuration (serve.threads,
        serve.batch, serve.split_from) to values. Parameters that are None are left out."""
        chosen = self.chosen
        keys = {"threads": chosen.num_workers, "batch": chosen.batch_items, "split_from": chosen.split_items}
        return {f"serve.{key}": value for key, value in keys.items() if value is not None}


class ChoiceRecord(Record, frozen=True, kw_only=True):
    """Setting (threads, spin time, library calls) in which training steps are computed on this system, chosen by
    timing before the first run and used by every run of the set."""

    key: Sha256
    """Digest of the conditions under which the setting was chosen. These include processor, cores, torch,
    environment, implementation, shape, optimizer, batch sizes and precision."""
    num_threads: PositiveCount
    spin_count: Count | None
    """Number of times that a waiting OpenMP thread spins at a barrier before it sleeps: GOMP_SPINCOUNT of the runs'
    processes. None if the processes' environment already set it."""
    tried: tuple[StepTimeRecord, ...]
    """Settings for computing a training step that were timed; empty where there was only one."""
    matmul: MatmulRecord | None
    """Library calls chosen for the step's matrix products; None where the implementation has no choice among
    libraries."""
    matmul_source: str | None
    """Source of the library calls chosen for the matrix products: "measured", or the file that the user gave."""
    chosen_utc: str
    service: ServiceChoice | None = None
    """Numbers of workers and threads, and sizes of batches, with which the run set's processes answer inference
    queries; None for a run set that trains."""
    in_fp32: StepTimeRecord | None = None
    """Fastest setting for computing training steps in fp32, timed in the same manner as the chosen one. Present only
    for a run set in bf16 on a CPU, to compare the two precisions."""
    was_busy: bool = False
    """Whether other processes took processor time while the settings were timed. If so, the next run set that begins
    on a quiet system times the settings again."""

    @property
    def bf16_is(self) -> Literal["slower than", "about as fast as", "faster than"] | None:
        """Return whether a training step in bf16 was slower than one in fp32, about as fast (within the factor
        `TIE`), or faster; None if one of the two was not timed."""
        if (chosen := self.chosen_way) is None or self.in_fp32 is None:
            return None
        ratio = chosen.step_s / self.in_fp32.step_s
        return "slower than" if ratio > TIE else "faster than" if ratio * TIE < 1 else "about as fast as"

    @property
    def chosen_way(self) -> StepTimeRecord | None:
        """Return the timing of the chosen setting for training steps; None where there was only one setting."""
        ways = (way for way in self.tried if (way.num_threads, way.spin_count) == (self.num_threads, self.spin_count))
        return next(ways, None)

    @property
    def tied(self) -> tuple[StepTimeRecord, ...]:
        """Return the timed settings that are as fast as the chosen one (step times equal within the factor `TIE`)
        with another number of threads."""
        chosen = self.chosen_way
        others = () if chosen is None else (way for way in self.tried if way.num_threads != self.num_threads)
        return tuple(way for way in others if chosen and chosen.step_s / TIE < way.step_s < chosen.step_s * TIE)


HookName = Literal["prepare", "cleanup", "power-command"]


class RunSetRecord(Document, frozen=True, kw_only=True):
    """Run set: the request (command, benchmark, configuration, seeds) that made it, and the system and software on
    which it ran."""

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
    """Digest of the harness's code that began the run set; the code of each run has its digest in the run's own
    record. None in a file from before the digest was recorded."""
    until: UntilRecord | None
    """Precision of the mean time to train at which no further runs are added to the set; None if the number of runs
    was given."""
    keep_weights: bool = False
    """Whether each run leaves its model's weights in extra/run_<i>/weights."""
    choice: ChoiceRecord | None = None
    """Setting (threads, spin time, library calls) in which training steps are computed; None where there is nothing
    to choose, and in files of earlier versions."""
    id_map_sha256: Sha256 | None = None
    """Digest of the map from categorical ids to rows of smaller embedding tables that all runs apply to their data;
    None if there is no such map."""
    hooks: dict[HookName, str] = msgspec.field(default_factory=dict)
    """Commands that the user gave: a dict from the name of the hook to the command. prepare and cleanup run before
    and after each repetition; power-command measures the power. Reading this file runs none of them."""
    is_chained: bool = False
    """Whether each run's record holds the digest of the previous run's record, which reveals a removed run; False for
    sets that an earlier version began."""


class SystemChecks(Record, frozen=True, kw_only=True):
    """Document that `doctor --format json` prints: every check of the system (such as CPU clock, load, memory).

    Within one schema_version members are only added.
    """

    schema_version: Literal[1] = 1
    checks: Annotated[tuple[PreflightCheck, ...], Meta(min_length=1)]
