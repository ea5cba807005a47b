"""run.json: one attempt at one run, with the parts that other measurements record too. SI units in names."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from rules.records.codec import Amount, Count, Index, Int64, PositiveAmount, PositiveCount, Record, Sha256
from rules.records.measure import Column, Measure, Measurement


class CacheClear(Record, frozen=True, kw_only=True):
    """What was done before the run so that the dataset is read from its disk."""

    cleared: bool
    method: str
    resident_bytes_before: Int64 | None
    resident_bytes_after: Int64 | None


class BlockRecord(Record, frozen=True, kw_only=True):
    """Training between two evaluations."""

    first_sample: Index
    num_samples: Count
    duration_s: Amount


class EvaluationRecord(Record, frozen=True, kw_only=True):
    """One evaluation."""

    samples_count: Count
    duration_s: Amount
    quality: float


class EnergyPart(Record, frozen=True, kw_only=True):
    """What one counter measured."""

    name: str
    source: str
    energy_j: Amount
    device: str | None = None
    """UUID of an accelerator; None of CPU packages."""
    rank: Index | None = None
    """The rank that read it, where there are several."""


class EnergyGap(Record, frozen=True, kw_only=True):
    """What no counter measured, and why."""

    what: str
    reason: str


class ClockRecord(Record, frozen=True, kw_only=True):
    """A clock over the timed part, in MHz."""

    lowest: Amount
    median: Amount
    highest: Amount


class GpuRecord(Record, frozen=True, kw_only=True):
    """What NVML said of one GPU during the timed part, and how it was set up; null is not known."""

    device: str
    """Its UUID."""
    num_samples: Count
    sm_clock_mhz: ClockRecord | None
    max_sm_clock_mhz: Count | None
    memory_clock_mhz: ClockRecord | None
    max_memory_clock_mhz: Count | None
    max_temperature_c: Count | None
    power_limit_w: Amount | None
    is_mig: bool | None
    is_ecc: bool | None
    nccl_version: str | None
    cublas_version: str | None


class EnergyRecord(Record, frozen=True, kw_only=True):
    """Energy of the timed part. RAPL counts whole CPU packages, NVML whole accelerators, with other processes' work.

    What a power command's meter sees may have all of these in it, and is then the only part. Of several ranks each
    package and each accelerator counts once.
    """

    energy_j: Annotated[float, Meta(ge=0, description="Sum of the parts; null where none was measured.")] | None
    duration_s: Amount
    sampling_interval_s: PositiveAmount | None
    parts: tuple[EnergyPart, ...]
    not_measured: tuple[EnergyGap, ...]
    num_ranks: PositiveCount | None = None
    """The ranks whose counters are in it. None in files of earlier versions, which read those of rank 0 alone."""
    gpus: tuple[GpuRecord, ...] = ()
    """Clocks of each GPU whose energy was read, during the run. Empty in files of earlier versions."""


class RankRecord(Record, frozen=True, kw_only=True):
    """Where one process of several ranks was, and the most memory that it took."""

    rank: Index
    host: str
    peak_rss_bytes: PositiveCount
    peak_device_bytes: PositiveCount | None
    peak_reserved_bytes: Count | None = None


class TrafficBytes(Record, frozen=True, kw_only=True):
    """What all ranks together send to others, by kind, without what the transport adds."""

    input_redistribution: Count
    embedding_forward: Count
    embedding_backward: Count
    dense_reduce: Count
    evaluation_gather: Count


class ShardRecord(Record, frozen=True, kw_only=True):
    """The part of a table that one rank holds."""

    rank: Index
    first_row: Count
    num_rows: Count
    first_column: Count
    num_columns: Count


class PlacementRecord(Record, frozen=True, kw_only=True):
    """How one table is laid over ranks, read from the built model."""

    table: Index
    sharding: str
    kernel: str | None = None
    """Which of TorchRec's kernels looks it up, and so in which memory it is; None in older records."""
    shards: Annotated[tuple[ShardRecord, ...], Meta(min_length=1)]


_Measured = Annotated[
    float,
    Meta(
        ge=0,
        description="Median over steps after the timed part, mean over ranks, every call waited for at once: waiting"
        " for slower ranks is in it, overlap is not.",
    ),
]


class TrafficRecord(Record, frozen=True, kw_only=True):
    """What ranks send to each other: counted bytes, measured seconds, a measured bandwidth."""

    num_ranks: Annotated[int, Meta(ge=2, le=2**63 - 1)]
    bytes_per_step: TrafficBytes
    bytes_per_evaluation: TrafficBytes | None
    """None where nothing is evaluated."""
    sent_bytes_per_step_by_rank: Annotated[tuple[Count, ...], Meta(min_length=2)]
    formulas: Annotated[
        dict[str, tuple[str, ...]],
        Meta(description="By kind, the operators seen on rank 0 and how bytes follow from tensors; N is num_ranks."),
    ]
    step_s: Annotated[float, Meta(ge=0, description="An undisturbed step, measured as all_to_all_s.")]
    all_to_all_s: _Measured
    all_reduce_s: _Measured
    compute_s: Amount | None
    """step_s - all_to_all_s - all_reduce_s; None where they exceed step_s."""
    bandwidth_sent_bytes: Count | None = field(name="link_sent_bytes", default=None)
    """What each of two ranks sent to measure the bandwidth."""
    bandwidth_bytes_per_s: PositiveAmount | None = field(name="link_bytes_per_s", default=None)
    """One way, of messages of 1 MiB, 64 MiB from GPU to GPU, between rank 0 and the last rank, from a round trip."""
    placement: tuple[PlacementRecord, ...] = ()


class FileStateRecord(Record, frozen=True, kw_only=True):
    """Which file it is, and when it was last written. No call sets ctime back, as utime does mtime."""

    device: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    inode: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    num_bytes: Count
    mtime_ns: Int64
    ctime_ns: Int64


class ReadFileRecord(Record, frozen=True, kw_only=True):
    """One file that the run had open."""

    name: str
    opened: FileStateRecord
    """When the run opened it."""
    hashed: FileStateRecord
    """After the run, when its bytes had been hashed."""
    sha256: Sha256
    """Digest of the whole file, or of its blocks."""


class ReadDatasetRecord(Record, frozen=True, kw_only=True):
    """The bytes that a run was given, hashed after run_stop through the files that it had open."""

    host: str
    ranks: Annotated[tuple[Index, ...], Meta(min_length=1)]
    """Those that had these files open; the first of them hashed them."""
    scope: Literal["whole", "blocks"]
    """Blocks at even distances, where the dataset is too large to be hashed whole."""
    hashed_bytes: Count
    duration_s: Amount
    """Seconds of the hashing, which is not timed as part of the run."""
    sha256: Sha256
    """Over names and digests of the files: of a whole dataset of this harness its dataset_sha256."""
    files: Annotated[tuple[ReadFileRecord, ...], Meta(min_length=1)]


class KeptWeights(Record, frozen=True, kw_only=True):
    """What run.json says of `run --keep-weights`."""

    num_bytes: Count
    """Written, without the manifest; 0 where they could not be."""
    duration_s: Amount
    """After run_stop; no part of the run."""
    error: str | None
    """Why they could not be written; the run is complete without them."""
    exit_code: Int64
    """0, or what that error is worth."""

    @classmethod
    def failed(cls, error: str, exit_code: int) -> "KeptWeights":
        """Return the record of weights that are not there."""
        return cls(num_bytes=0, duration_s=0.0, error=error, exit_code=exit_code)


Seconds = Annotated[float, Meta(ge=0, le=1e12)]
"""A time that can be added up."""


class CheckpointRecord(Record, frozen=True, kw_only=True):
    """One checkpoint as it was written; bytes are of files, its manifest among them."""

    index: Index
    samples_count: Count
    is_base: bool
    """Whether it holds all rows of all tables."""
    num_rows: Count
    """Rows of tables that it holds."""
    embedding_bytes: Count
    """Bytes of rows of tables, and of what says which rows they are."""
    num_bytes: Count
    """Bytes of all of it: rows of tables, optimizer state of the same rows, and all else of the state."""
    restore_bytes: Count
    """Bytes of all checkpoints that restore it: `num_bytes` of its own and of those that it rests on."""
    stall_s: Seconds
    """How long training stood still for the copy."""
    wait_s: Seconds
    """How long it stood still before that, until the checkpoint before was written."""
    write_s: Seconds
    """How long a thread beside training took for quantising, writing, syncing to disk, and removing."""
    mean_l2: Annotated[float, Meta(ge=0, le=1e40)] | None
    """Mean over its rows of the distance to what their codes stand for; None in 32 bits, which lose nothing."""
    disk_bytes: Count | None = None
    """Bytes of all checkpoints on disk when it was whole, before those that it supersedes were removed; None where
    that was not recorded."""
    kept_bytes: Count | None = None
    """Bytes of all that stayed, by `checkpoint.keep`; None likewise."""


class CheckpointsRecord(Record, frozen=True, kw_only=True):
    """All checkpoints of a process."""

    full_embedding_bytes: Count
    """Computed: bytes of the tables in 32 bits, which a checkpoint of all rows takes for them."""
    full_bytes: Count
    """Computed: bytes of a checkpoint of all rows in 32 bits, with optimizer state, all else and a manifest."""
    taken: tuple[CheckpointRecord, ...]
    restore_s: Seconds | None
    """After the run: how long reading the last one and what it rests on takes, files just written; None without one.
    """
    num_restores: Count
    """How often training went on from what a checkpoint restored."""
    error: str | None
    """Why no more were made; training went on."""
    exit_code: Int64
    """0, or what that error is worth."""


class ObservedRecord(Record, frozen=True, kw_only=True):
    """What a run's timekeeper saw: a process of its own that starts the run's, and runs none of the user's code.

    An event comes between two moments; what is said here is what makes the run shorter.
    """

    uncertain_s: Amount
    """How far apart those moments were, of run_start and run_stop together: mostly how long the timekeeper was held
    up."""
    run_start_ms: Int64 | None
    """Milliseconds since 1970, before which run_start had not come; None where it never did."""
    run_stop_ms: Int64 | None
    process_s: Amount | None
    """Seconds from the start of the run's process to its end; None where the timekeeper did not live so long."""
    processor_s: Amount | None
    """Processor time of the run's processes, in seconds."""
    processor_before_s: Amount | None
    """Processor time from when data and model are opened until run_start: building, warm-up. None where /proc does
    not say."""
    processor_run_s: Amount | None
    """Processor time from run_start to run_stop."""


class StartupRecord(Record, frozen=True, kw_only=True):
    """A file that Python ran in the run's process before anything of the harness."""

    kind: Annotated[str, Meta(max_length=40)]
    """sitecustomize, usercustomize, or pth, of which lines that begin with "import" are run."""
    path: str
    sha256: Sha256 | None
    """None where it could not be read."""


class RunRecord(Measurement, frozen=True, kw_only=True):
    """One attempt at one run; null means not measured."""

    IS_LOGGED: ClassVar[bool] = True
    MEASURE: ClassVar[Measure] = Measure(
        title="Time to train",
        value="duration_s",
        unit="s",
        scale="ratio",
        direction="lower",
        columns=(
            Column(member="run_index", title="Run", unit=None),
            Column(member="seed", title="Seed", unit=None),
            Column(member="status", title="Status", unit=None),
            Column(member="peak_rss_bytes", title="Peak memory", unit="B"),
        ),
    )

    run_index: Index
    attempt: Index
    seed: Int64 | None
    status: Literal["success", "not_converged", "interrupted"]
    reason: (
        Annotated[
            str, Meta(description="max_epochs, timeout, not_learning, not_finite, or the interruption in words.")
        ]
        | None
    )
    exit_code: Int64 | None
    started_utc: str | None
    ended_utc: str | None
    peak_rss_bytes: Count | None
    """Peak resident memory of all processes together: Python, torch, weights, optimizer and data."""
    peak_device_bytes: Count | None
    peak_reserved_bytes: Count | None = None
    """Most that torch held on the accelerator, of which peak_device_bytes was in use: what a device has to
    have, beside CUDA's own. None in files of earlier versions."""
    energy: EnergyRecord | None
    cache_clear: CacheClear | None
    blocks: tuple[BlockRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]
    log_sha256: Sha256 | None
    """Digest of the log as it was closed; None for an attempt that closed none."""
    ranks: tuple[RankRecord, ...]
    """The ranks of a run of several processes; empty for one."""
    traffic: TrafficRecord | None = field(name="exchange")
    """None for one process, and where the implementation does not report it."""
    read_data: tuple[ReadDatasetRecord, ...] = ()
    """What was hashed after the run, one for each copy that ranks read. Empty in files of earlier versions, for an
    attempt that was cut off, and for synthetic data."""
    observed_s: Amount | None = None
    """Seconds from run_start to run_stop by another clock than the log's, at least. None in files of earlier
    versions, and where the two were not seen."""
    observed_by: Literal["timekeeper", "itself"] | None = None
    """The clock that told it: the run's timekeeper's, or that of the run's own process where torchrun or srun started
    it. None in files of earlier versions, whose parent or own process kept it."""
    observed: ObservedRecord | None = None
    """What else the timekeeper saw; None where there was none, or it saw nothing of a run."""
    closed_utc: str | None = None
    """When the log had been closed, by the system's clock. None in files of earlier versions."""
    samples_before_start: Count | None = None
    """Samples that were read of the dataset before run_start, by all ranks. None in files of earlier versions, and
    where the workload does not name its dataset."""
    startup: tuple[StartupRecord, ...] = ()
    """Files that Python ran in the process before the harness. Empty in files of earlier versions."""
    previous_sha256: Sha256 | None = None
    """Digest of the run.json of the run that was finished before this one in its set; of the first, what
    `rules.records.chain.first_link` says. None for an attempt that became no run, and in sets without a chain."""
    weights: KeptWeights | None = None
    """None where nobody asked that they be kept, and for an attempt that was cut off before."""
    checkpoints: CheckpointsRecord | None = None
    """None where none was asked for."""

    @property
    def duration_s(self) -> float:
        """Add up blocks and evaluations; the log's stamps, which decide the score, hold a little more."""
        return sum(block.duration_s for block in self.blocks) + sum(part.duration_s for part in self.evaluations)

    def repetitions(self) -> tuple["RunRecord", ...]:
        """Return what a comparison takes as its sample."""
        return (self,) if self.status == "success" else ()

    @property
    def is_finished(self) -> bool:
        """Return whether the attempt became a run: met the target, or ended without."""
        return self.status != "interrupted"
