"""run.json: one attempt at one run, with the parts that other measurements record as well. SI units in names."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from rules.records.codec import Amount, Count, Index, Int64, PositiveAmount, PositiveCount, Record, Sha256
from rules.records.measure import Column, Measure, Measurement


class CacheClear(Record, frozen=True, kw_only=True):
    """Steps taken before the run so that the dataset is read from disk."""

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
    """Energy measured by one counter."""

    name: str
    source: str
    energy_j: Amount
    device: str | None = None
    """UUID of the accelerator; None for CPU packages."""
    rank: Index | None = None
    """Rank that read the counter, where there are several."""


class EnergyGap(Record, frozen=True, kw_only=True):
    """A part of the system whose energy no counter measured, with the reason."""

    what: str
    reason: str


class ClockRecord(Record, frozen=True, kw_only=True):
    """Clock frequency over the timed part, in MHz."""

    lowest: Amount
    median: Amount
    highest: Amount


class GpuRecord(Record, frozen=True, kw_only=True):
    """State of one GPU during the timed part as NVML reports it, and its settings; null means not known."""

    device: str
    """UUID of the GPU."""
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
    """Energy of the timed part. RAPL counts whole CPU packages, NVML whole accelerators, other processes' work
    included.

    The meter of a power command may cover all of these, and is then the only part. With several ranks, each package
    and each accelerator counts once.
    """

    energy_j: Annotated[float, Meta(ge=0, description="Sum of the parts; null where no part was measured.")] | None
    duration_s: Amount
    sampling_interval_s: PositiveAmount | None
    parts: tuple[EnergyPart, ...]
    not_measured: tuple[EnergyGap, ...]
    num_ranks: PositiveCount | None = None
    """Number of ranks whose counters are included. None in files of earlier versions, which read those of rank 0
    alone."""
    gpus: tuple[GpuRecord, ...] = ()
    """State of each GPU whose energy was read, during the run. Empty in files of earlier versions."""


class RankRecord(Record, frozen=True, kw_only=True):
    """Host and peak memory of one process of several ranks."""

    rank: Index
    host: str
    peak_rss_bytes: PositiveCount
    peak_device_bytes: PositiveCount | None
    peak_reserved_bytes: Count | None = None


class TrafficBytes(Record, frozen=True, kw_only=True):
    """Bytes that all ranks together send to other ranks, by kind, without the transport's overhead."""

    input_redistribution: Count
    embedding_forward: Count
    embedding_backward: Count
    dense_reduce: Count
    evaluation_gather: Count


class ShardRecord(Record, frozen=True, kw_only=True):
    """Part of a table that one rank holds."""

    rank: Index
    first_row: Count
    num_rows: Count
    first_column: Count
    num_columns: Count


class PlacementRecord(Record, frozen=True, kw_only=True):
    """Distribution of one embedding table over ranks, read from the built model."""

    table: Index
    sharding: str
    kernel: str | None = None
    """TorchRec kernel that looks the table up, which determines the memory that holds it; None in older records."""
    shards: Annotated[tuple[ShardRecord, ...], Meta(min_length=1)]


_Measured = Annotated[
    float,
    Meta(
        ge=0,
        description="Median over steps after the timed part, mean over ranks; each call is waited for, so waiting"
        " for slower ranks is included and overlap is not.",
    ),
]


class TrafficRecord(Record, frozen=True, kw_only=True):
    """Communication between ranks: counted bytes, measured seconds, a measured bandwidth."""

    num_ranks: Annotated[int, Meta(ge=2, le=2**63 - 1)]
    bytes_per_step: TrafficBytes
    bytes_per_evaluation: TrafficBytes | None
    """Bytes of one evaluation; None where nothing is evaluated."""
    sent_bytes_per_step_by_rank: Annotated[tuple[Count, ...], Meta(min_length=2)]
    formulas: Annotated[
        dict[str, tuple[str, ...]],
        Meta(description="By kind, the operators seen on rank 0 and the formula of bytes; N is num_ranks."),
    ]
    step_s: Annotated[
        float, Meta(ge=0, description="A step without instrumentation; median and mean as all_to_all_s.")
    ]
    all_to_all_s: _Measured
    all_reduce_s: _Measured
    compute_s: Amount | None
    """step_s - all_to_all_s - all_reduce_s; None where the sum of these two exceeds step_s."""
    bandwidth_sent_bytes: Count | None = field(name="link_sent_bytes", default=None)
    """Bytes that each of two ranks sent to measure the bandwidth."""
    bandwidth_bytes_per_s: PositiveAmount | None = field(name="link_bytes_per_s", default=None)
    """One-way bandwidth between rank 0 and the last rank, from the round trip of messages of 1 MiB (64 MiB between
    GPUs)."""
    placement: tuple[PlacementRecord, ...] = ()


class FileStateRecord(Record, frozen=True, kw_only=True):
    """Identity of a file and the time of its last write. No call sets ctime back, as utime does mtime."""

    device: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    inode: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    num_bytes: Count
    mtime_ns: Int64
    ctime_ns: Int64


class ReadFileRecord(Record, frozen=True, kw_only=True):
    """A file that the run had open."""

    name: str
    opened: FileStateRecord
    """State of the file when the run opened it."""
    hashed: FileStateRecord
    """State of the file after the run, when its bytes had been hashed."""
    sha256: Sha256
    """Digest of the whole file, or of the blocks that were hashed."""


class ReadDatasetRecord(Record, frozen=True, kw_only=True):
    """Data that a run read, hashed after run_stop through the files that the run had open."""

    host: str
    ranks: Annotated[tuple[Index, ...], Meta(min_length=1)]
    """Ranks that had these files open; the first of them hashed the files."""
    scope: Literal["whole", "blocks"]
    """Part that was hashed: the whole dataset, or evenly spaced blocks where it is too large."""
    hashed_bytes: Count
    duration_s: Amount
    """Seconds that hashing took, which are not timed as part of the run."""
    sha256: Sha256
    """Digest of the files' names and digests; for a whole dataset of this harness its dataset_sha256."""
    files: Annotated[tuple[ReadFileRecord, ...], Meta(min_length=1)]


class KeptWeights(Record, frozen=True, kw_only=True):
    """Result of `run --keep-weights` for one run."""

    num_bytes: Count
    """Bytes written, without the manifest; 0 where the weights could not be written."""
    duration_s: Amount
    """Seconds that writing took after run_stop, which are not part of the run."""
    error: str | None
    """Reason why the weights could not be written; the run is complete without them."""
    exit_code: Int64
    """Exit code of the error; 0 without one."""

    @classmethod
    def failed(cls, error: str, exit_code: int) -> "KeptWeights":
        """Return the record of weights that could not be written."""
        return cls(num_bytes=0, duration_s=0.0, error=error, exit_code=exit_code)


Seconds = Annotated[float, Meta(ge=0, le=1e12)]
"""A time that can be added up."""


class CheckpointRecord(Record, frozen=True, kw_only=True):
    """One checkpoint as it was written; bytes are sizes of files, the manifest included."""

    index: Index
    samples_count: Count
    is_base: bool
    """Whether the checkpoint holds all rows of all tables."""
    num_rows: Count
    """Rows of embedding tables in the checkpoint."""
    embedding_bytes: Count
    """Bytes of embedding rows and of their row numbers."""
    num_bytes: Count
    """Bytes of the whole checkpoint: embedding rows, their optimizer state, and all other state."""
    restore_bytes: Count
    """Bytes of all checkpoints needed to restore this one: its own `num_bytes` and those of the checkpoints it builds
    on."""
    stall_s: Seconds
    """Seconds that training stood still for the copy."""
    wait_s: Seconds
    """Seconds that training stood still before the copy, until the previous checkpoint was written."""
    write_s: Seconds
    """Seconds that a background thread took to quantise, write, sync to disk and remove files."""
    mean_l2: Annotated[float, Meta(ge=0, le=1e40)] | None
    """Mean over rows of the L2 distance between a row and its quantised form; None for 32 bits, which are
    lossless."""
    disk_bytes: Count | None = None
    """Bytes of all checkpoints on disk when this one was complete, before superseded ones were removed; None where
    that was not recorded."""
    kept_bytes: Count | None = None
    """Bytes of all checkpoints kept afterwards, by `checkpoint.keep`; None where that was not recorded."""


class CheckpointsRecord(Record, frozen=True, kw_only=True):
    """All checkpoints of a process."""

    full_embedding_bytes: Count
    """Computed bytes of the tables in 32 bits, which a checkpoint of all rows takes for them."""
    full_bytes: Count
    """Computed bytes of a checkpoint of all rows in 32 bits, with optimizer state, all other state and a manifest."""
    taken: tuple[CheckpointRecord, ...]
    restore_s: Seconds | None
    """Seconds that reading the last checkpoint, and those it builds on, took after the run, from files just written;
    None where there is no checkpoint."""
    num_restores: Count
    """Number of times that training continued from a restored checkpoint."""
    error: str | None
    """Reason why checkpoints stopped being written; training continued."""
    exit_code: Int64
    """Exit code of the error; 0 without one."""


class ObservedRecord(Record, frozen=True, kw_only=True):
    """Events of a run as its timekeeper saw them: a separate process that starts the run's and runs none of the
    user's code.

    An event arrives between two moments; recorded is the one that makes the run shorter.
    """

    uncertain_s: Amount
    """Uncertainty, in seconds, of when run_start and run_stop arrived, added up: mostly delays of the timekeeper
    itself."""
    run_start_ms: Int64 | None
    """Milliseconds since 1970 before which run_start had not arrived; None where it never did."""
    run_stop_ms: Int64 | None
    process_s: Amount | None
    """Seconds from the start of the run's process to its end; None where the timekeeper ended earlier."""
    processor_s: Amount | None
    """Processor time of the run's processes, in seconds."""
    processor_before_s: Amount | None
    """Processor time, in seconds, from opening data and model until run_start: building, warm-up. None where /proc
    does not report it."""
    processor_run_s: Amount | None
    """Processor time from run_start to run_stop, in seconds."""


class StartupRecord(Record, frozen=True, kw_only=True):
    """A file that Python ran in the run's process before any code of the harness."""

    kind: Annotated[str, Meta(max_length=40)]
    """Kind of file: sitecustomize, usercustomize, or pth (lines of a .pth file that begin with "import" are
    executed)."""
    path: str
    sha256: Sha256 | None
    """Digest of the file; None where it could not be read."""


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
    """Peak memory that torch reserved on the accelerator, of which peak_device_bytes was in use: a device needs this
    much, and CUDA's own memory on top. None in files of earlier versions."""
    energy: EnergyRecord | None
    cache_clear: CacheClear | None
    blocks: tuple[BlockRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]
    log_sha256: Sha256 | None
    """Digest of the log when it was closed; None for an attempt that closed no log."""
    ranks: tuple[RankRecord, ...]
    """Ranks of a run of several processes; empty for one process."""
    traffic: TrafficRecord | None = field(name="exchange")
    """Communication between ranks; None for one process, and where the implementation does not report it."""
    read_data: tuple[ReadDatasetRecord, ...] = ()
    """Data hashed after the run, one entry for each copy that ranks read. Empty in files of earlier versions, for an
    attempt that was cut off, and for synthetic data."""
    observed_s: Amount | None = None
    """Lower bound of the seconds from run_start to run_stop by another clock than the log's. None in files of earlier
    versions, and where the two events were not seen."""
    observed_by: Literal["timekeeper", "itself"] | None = None
    """Process whose clock gave `observed_s`: the run's timekeeper, or the run's own process where torchrun or srun
    started it. None in files of earlier versions, where the parent or the run's own process measured it."""
    observed: ObservedRecord | None = None
    """Further observations of the timekeeper; None where there was none, or where it saw no event of the run."""
    closed_utc: str | None = None
    """Time at which the log had been closed, by the system's clock. None in files of earlier versions."""
    samples_before_start: Count | None = None
    """Samples of the dataset that all ranks read before run_start. None in files of earlier versions, and where the
    workload does not name its dataset."""
    startup: tuple[StartupRecord, ...] = ()
    """Files that Python ran in the process before the harness. Empty in files of earlier versions."""
    previous_sha256: Sha256 | None = None
    """Digest of the run.json of the set's previous finished run; for the first run, the value of
    `rules.records.chain.first_link`. None for an attempt that became no run, and in sets without a chain."""
    weights: KeptWeights | None = None
    """Weights written after the run; None where `--keep-weights` was not given, and for an attempt that was cut off
    before."""
    checkpoints: CheckpointsRecord | None = None
    """Checkpoints written during the run; None where none were asked for."""

    @property
    def duration_s(self) -> float:
        """Return the sum of blocks and evaluations; the log's stamps, which determine the score, give slightly
        more."""
        return sum(block.duration_s for block in self.blocks) + sum(part.duration_s for part in self.evaluations)

    def repetitions(self) -> tuple["RunRecord", ...]:
        """Return the runs that a comparison takes as its sample: this one if it succeeded."""
        return (self,) if self.status == "success" else ()

    @property
    def is_finished(self) -> bool:
        """Return whether the attempt became a run: it met the target, or ended without meeting it."""
        return self.status != "interrupted"
