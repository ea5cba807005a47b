"""extra/run_set.json: what a set was asked to do, with what, and where; and the system checks before it."""

import hashlib
from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rules.records.codec import Amount, Count, Document, PositiveAmount, PositiveCount, Record, Sha256
from rules.records.system import SYSTEM_FIELDS

Kind = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
"""Kind of measurement: what one fresh process does. One of `rules.records.kinds.PLACES`, or of a newer version's."""
Options = Annotated[
    dict[str, Count], Meta(description="What the kind was asked besides: num_steps of a throughput measurement.")
]


class BenchmarkRecord(Record, frozen=True, kw_only=True):
    """The benchmark, by name and by digest."""

    name: str
    version: PositiveCount
    status: Literal["own", "official", "workload"]
    definition_sha256: Sha256


class ConfigValue(Record, frozen=True, kw_only=True):
    """One resolved value and where it came from."""

    value: Any
    source: str


class GivenField(Record, frozen=True, kw_only=True):
    """One field of the submission and where it came from."""

    value: str
    source: str


class ColumnLookRecord(Record, frozen=True, kw_only=True):
    """Counts of one column's cells that data was prepared from; of training, then of evaluation."""

    name: str
    kind: Literal["number", "category"]
    num_cells: tuple[Count, Count]
    num_missing: tuple[Count, Count]
    num_unknown: tuple[Count, Count]
    """Cells of a category whose value is rare in training, or not there."""
    num_distinct: Count | None
    """Values in training, of a category with a dictionary."""
    auc: float | None
    """ROC AUC in evaluation of this column alone, from the first rows."""


class SoftLookRecord(Record, frozen=True, kw_only=True):
    """What was seen of labels that are shares from 0 to 1."""

    best_auc: Annotated[float, Meta(ge=0, le=1)]
    """ROC AUC of the first rows of evaluation, ranked by their labels: there no scores have a higher one."""
    variance: Annotated[float, Meta(ge=0)]
    """Variance of the labels of both splits together."""


class DataLookRecord(Record, frozen=True, kw_only=True):
    """What was seen of the quality of data while it was prepared from files of a user's own."""

    positives: dict[Literal["train", "eval"], Annotated[float, Meta(ge=0, le=1)]]
    """Share of labels that are 1, by split; of soft labels their mean."""
    columns: tuple[ColumnLookRecord, ...]
    """The first of them, numbers before categories."""
    num_columns: Count
    remarks: tuple[str, ...] = ()
    """What may be wrong."""
    soft_labels: SoftLookRecord | None = None
    """None of labels that are 0 or 1."""


class DatasetRecord(Record, frozen=True, kw_only=True):
    """Where the data is, and what it is."""

    dir: str
    dataset_sha256: Sha256 | None
    look: DataLookRecord | None = None
    """None of data that was not prepared from a user's files."""


class DescribedSystem(Record, frozen=True, kw_only=True):
    """The system description as detected and given when the set began."""

    name: str
    fields: Annotated[dict[str, str], Meta(min_length=len(SYSTEM_FIELDS), max_length=len(SYSTEM_FIELDS))]
    provenance: dict[str, str]


class PreflightCheck(Record, frozen=True, kw_only=True):
    """One look at the system before the first run."""

    name: str
    value: str
    status: Literal["ok", "warning", "unknown"]
    why: str
    remedy: str


class UntilRecord(Record, frozen=True, kw_only=True):
    """The precision at which a set stops growing: an interval of the mean time to train that is narrow enough."""

    width: Annotated[float, Meta(gt=0, le=1)]
    """The interval reaches at most this fraction of the mean to either side."""
    min_runs: PositiveCount
    """Made in any case, before the interval is looked at."""
    max_runs: PositiveCount


Word = Annotated[str, Meta(max_length=200)]


class ProductRecord(Record, frozen=True, kw_only=True):
    """A matrix product of a training step: all that may decide by what it is computed fastest."""

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
    """A product, the form that computes it, and the least seconds of every form that was tried."""

    product: ProductRecord
    form: Word
    seconds: dict[Word, Amount] = msgspec.field(default_factory=dict)


MATMUL_FILE = "matmul.json"
"""What a choice of matrix products is called where it is taken from a set: on its page and in its package."""


class MatmulRecord(Record, frozen=True, kw_only=True):
    """The forms in which a step's matrix products are computed, and where and how they were timed."""

    num_threads: PositiveCount
    precision: Word
    torch_version: Word
    cpu: Word
    products: Annotated[tuple[ChosenProductRecord, ...], Meta(max_length=10_000)]

    @property
    def digest(self) -> str:
        """Return the sha256 of what is chosen, in any order: products and forms, not how long they took."""
        pairs = ((chosen.product, chosen.form) for chosen in self.products)
        forms = sorted(msgspec.json.encode(pair, order="deterministic") for pair in pairs)
        return hashlib.sha256(b"\n".join(forms)).hexdigest()

    @property
    def label(self) -> str:
        """Name it by its digest and how many products have which form: "ab12cd34ef56: 9 mm, 5 onednn"."""
        forms = Counter(chosen.form for chosen in self.products)
        return f"{self.digest[:12]}: {', '.join(f'{num} {form}' for form, num in sorted(forms.items())) or 'none'}"


TIE = 1.05
"""Ways to compute a step whose times differ by less than this factor are a tie: no timing of seconds tells more."""


class StepTimeRecord(Record, frozen=True, kw_only=True):
    """A way to compute a training step that was tried before the first run."""

    num_threads: PositiveCount
    spin_count: Count | None
    step_s: PositiveAmount
    """Seconds of one step, the mean of a few in a row, at its least over several rounds in turns with the other ways.
    """


class ServiceWayRecord(Record, frozen=True, kw_only=True):
    """A way to answer queries that was tried before the first run."""

    num_workers: PositiveCount
    num_threads: PositiveCount
    """All workers' together."""
    batch_items: PositiveCount | None
    """Most items of a call; None where every query is a call of its own."""
    split_items: PositiveCount | None
    """Items from which a query is split over all workers; None where only `batch_items` splits."""
    queries_per_s: PositiveAmount
    """Simulated: the most within the limit, on a virtual clock with the calls' times as measured on all workers at
    once; of a scenario without a limit, the most."""

    @property
    def setup(self) -> tuple[int, int, int | None, int | None]:
        """What makes the way, without what it reached."""
        return self.num_workers, self.num_threads, self.batch_items, self.split_items


class ServiceChoice(Record, frozen=True, kw_only=True):
    """How queries are answered on this system."""

    chosen: ServiceWayRecord
    tried: Annotated[tuple[ServiceWayRecord, ...], Meta(max_length=1000)]

    @property
    def settings(self) -> dict[str, int]:
        """Return what was chosen by the keys of the configuration, without threads and without what is left out."""
        chosen = self.chosen
        keys = {"threads": chosen.num_workers, "batch": chosen.batch_items, "split_from": chosen.split_items}
        return {f"serve.{key}": value for key, value in keys.items() if value is not None}


class ChoiceRecord(Record, frozen=True, kw_only=True):
    """How steps are computed on this system, chosen by timing before the first run; every run of the set has it."""

    key: Sha256
    """Digest of what it was chosen for: equal where processor, torch, implementation, shape, batch and precision are.
    """
    num_threads: PositiveCount
    spin_count: Count | None
    """How long OpenMP's threads spin at a barrier before they sleep: GOMP_SPINCOUNT of the runs' processes. None
    where their environment said it."""
    tried: tuple[StepTimeRecord, ...]
    """Empty where there was one way only."""
    matmul: MatmulRecord | None
    """None where the implementation has no choice among libraries."""
    matmul_source: str | None
    """"measured", or the file that was given."""
    chosen_utc: str
    service: ServiceChoice | None = None
    """How a set's processes answer queries; None of one that trains."""
    in_fp32: StepTimeRecord | None = None
    """The way that steps in fp32 are computed best, chosen alike; of a set in bf16 on a CPU alone."""

    @property
    def bf16_is(self) -> Literal["slower than", "about as fast as", "faster than"] | None:
        """Say how a step in bf16 compares with one in fp32, below `TIE` alike; None where either was not timed."""
        if (chosen := self.chosen_way) is None or self.in_fp32 is None:
            return None
        ratio = chosen.step_s / self.in_fp32.step_s
        return "slower than" if ratio > TIE else "faster than" if ratio * TIE < 1 else "about as fast as"

    @property
    def chosen_way(self) -> StepTimeRecord | None:
        """Return what was measured of the way that was chosen; None where there was one way only."""
        ways = (way for way in self.tried if (way.num_threads, way.spin_count) == (self.num_threads, self.spin_count))
        return next(ways, None)

    @property
    def tied(self) -> tuple[StepTimeRecord, ...]:
        """Return the ways on other counts of threads that the chosen one neither beats by `TIE` nor is beaten by."""
        chosen = self.chosen_way
        others = () if chosen is None else (way for way in self.tried if way.num_threads != self.num_threads)
        return tuple(way for way in others if chosen and chosen.step_s / TIE < way.step_s < chosen.step_s * TIE)


HookName = Literal["prepare", "cleanup", "power-command"]


class RunSetRecord(Document, frozen=True, kw_only=True):
    """What a set was asked to do, and where."""

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
    """Digest of the code that began the set; each run's record has that of the code which ran. None before version 3.
    """
    until: UntilRecord | None
    """None where the number of runs was given."""
    keep_weights: bool = False
    """Whether each run leaves its weights in extra/run_<i>/weights."""
    choice: ChoiceRecord | None = None
    """None where there is nothing to choose, and in files of old."""
    id_map_sha256: Sha256 | None = None
    """The digest of the map of ids to rows that all runs read their data through; None where there is none."""
    hooks: dict[HookName, str] = msgspec.field(default_factory=dict)
    """The commands that its user had run around each repetition. Nobody runs them for being named here."""
    is_chained: bool = False
    """Whether each run's record holds the digest of that before; not in sets that an earlier version began."""


class SystemChecks(Record, frozen=True, kw_only=True):
    """What `doctor --format json` prints: every check of the system.

    Within one schema_version members are only added.
    """

    schema_version: Literal[1] = 1
    checks: Annotated[tuple[PreflightCheck, ...], Meta(min_length=1)]
