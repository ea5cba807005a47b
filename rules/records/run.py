"""run.json records one attempt at one training run. Its parts on energy, ranks and traffic also occur in the records
of other measurements. Units (SI) are in the members' names."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from rules.records.codec import Amount, Count, Index, Int64, PositiveAmount, PositiveCount, Record, Sha256
from rules.records.measure import Column, Measure, Measurement


class CacheClear(Record, frozen=True, kw_only=True):
    """Result of emptying the page cache before a run, so that the dataset is read from disk."""

    cleared: bool
    method: str
    resident_bytes_before: Int64 | None
    resident_bytes_after: Int64 | None


class BlockRecord(Record, frozen=True, kw_only=True):
    """Training between two evaluations of a run: its first sample, number of samples and seconds."""

    first_sample: Index
    num_samples: Count
    duration_s: Amount


class EvaluationRecord(Record, frozen=True, kw_only=True):
    """Evaluation during a run: samples trained on before it, its seconds and the quality found."""

    samples_count: Count
    duration_s: Amount
    quality: float


class EnergyPart(Record, frozen=True, kw_only=True):
    """Energy in joules of the timed part of a run or other measurement, from one counter (such as RAPL or NVML)."""

    name: str
    source: str
    energy_j: Amount
    device: str | None = None
    """UUID of the accelerator whose energy was measured; None for CPU packages."""
    rank: Index | None = None
    """Rank that read the energy counter; None where there is only one rank."""


class EnergyGap(Record, frozen=True, kw_only=True):
    """Part of the system whose energy no counter measured, with the reason."""

    what: str
    reason: str


class ClockRecord(Record, frozen=True, kw_only=True):
    """Lowest, median and highest clock frequency of a GPU over the timed part of a measurement, in MHz."""

    lowest: Amount
    median: Amount
    highest: Amount


class GpuRecord(Record, frozen=True, kw_only=True):
    """State of one GPU during the timed part of a measurement, as NVML reports it, and the GPU's settings. null means
    unknown."""

    device: str
    """UUID of the GPU whose state is recorded."""
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
    """Energy of the timed part of a run or other measurement. RAPL counts whole CPU packages and NVML counts whole
    accelerators, so the energy of other processes is included.

    If the user gives a power command, its reading replaces RAPL and NVML, because the command may read a meter of the
    whole system. With several ranks, each package and each accelerator counts once.
    """

    energy_j: Annotated[float, Meta(ge=0, description="Sum of the parts; null where no part was measured.")] | None
    duration_s: Amount
    sampling_interval_s: PositiveAmount | None
    parts: tuple[EnergyPart, ...]
    not_measured: tuple[EnergyGap, ...]
    num_ranks: PositiveCount | None = None
    """Number of ranks whose energy counters are included. None in files of earlier versions, which read the counters
    of rank 0 only."""
    gpus: tuple[GpuRecord, ...] = ()
    """State, during the timed part, of each GPU whose energy was read. Empty in files of earlier versions."""


class RankRecord(Record, frozen=True, kw_only=True):
    """Host name and peak memory (in bytes) of one rank. A rank is one of several processes that measure together."""

    rank: Index
    host: str
    peak_rss_bytes: PositiveCount
    peak_device_bytes: PositiveCount | None
    peak_reserved_bytes: Count | None = None


class TrafficBytes(Record, frozen=True, kw_only=True):
    """Bytes that all ranks together send to other ranks, by purpose (such as embedding_forward), without the
    transport's overhead."""

    input_redistribution: Count
    embedding_forward: Count
    embedding_backward: Count
    dense_reduce: Count
    evaluation_gather: Count


class ShardRecord(Record, frozen=True, kw_only=True):
    """Shard (rows and columns) of an embedding table that one rank holds."""

    rank: Index
    first_row: Count
    num_rows: Count
    first_column: Count
    num_columns: Count


class PlacementRecord(Record, frozen=True, kw_only=True):
    """Sharding of one embedding table over ranks, read from the built model."""

    table: Index
    sharding: str
    kernel: str | None = None
    """Name of the TorchRec kernel that looks up rows of the table, which determines the memory that holds the table;
    None in older records."""
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
    """Communication between ranks during training: counted bytes, measured seconds, a measured bandwidth."""

    num_ranks: Annotated[int, Meta(ge=2, le=2**63 - 1)]
    bytes_per_step: TrafficBytes
    bytes_per_evaluation: TrafficBytes | None
    """Bytes that all ranks send to other ranks in one evaluation, by purpose; None where nothing is evaluated."""
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
    """Seconds of a step outside of collectives: step_s - all_to_all_s - all_reduce_s. None if all_to_all_s and
    all_reduce_s together exceed step_s."""
    bandwidth_sent_bytes: Count | None = field(name="link_sent_bytes", default=None)
    """Bytes that each of two ranks sent to the other to measure the bandwidth between them."""
    bandwidth_bytes_per_s: PositiveAmount | None = field(name="link_bytes_per_s", default=None)
    """One-way bandwidth in bytes per second between rank 0 and the last rank, from the round trip of messages of 1
    MiB (64 MiB between GPUs)."""
    placement: tuple[PlacementRecord, ...] = ()


class FileStateRecord(Record, frozen=True, kw_only=True):
    """Identity and size of a file, and the times of its last changes. ctime reveals a change, since no system call
    can set it back; mtime can be set back by utime."""

    device: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    inode: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    num_bytes: Count
    mtime_ns: Int64
    ctime_ns: Int64


class ReadFileRecord(Record, frozen=True, kw_only=True):
    """File of the dataset that the run had open, with its state at opening and after the run, and its digest."""

    name: str
    opened: FileStateRecord
    """State (inode, size, mtime, ctime) of the dataset's file when the run opened it."""
    hashed: FileStateRecord
    """State (inode, size, mtime, ctime) of the dataset's file after the run, when its bytes had been hashed."""
    sha256: Sha256
    """SHA-256 of the whole file of the dataset, or of those blocks of it that were hashed."""


class ReadDatasetRecord(Record, frozen=True, kw_only=True):
    """Dataset that a run read, hashed after run_stop through the same file descriptors that the run had open."""

    host: str
    ranks: Annotated[tuple[Index, ...], Meta(min_length=1)]
    """Ranks that had the files of this copy of the dataset open; the first of them hashed the files."""
    scope: Literal["whole", "blocks"]
    """Part of the dataset that was hashed: the whole, or evenly spaced blocks where the dataset is too large."""
    hashed_bytes: Count
    duration_s: Amount
    """Seconds that hashing the dataset took, which are not timed as part of the run."""
    sha256: Sha256
    """Digest of the names and digests of the dataset's files. For a dataset of this harness that was hashed whole, it
    equals the dataset's dataset_sha256."""
    files: Annotated[tuple[ReadFileRecord, ...], Meta(min_length=1)]


class KeptWeights(Record, frozen=True, kw_only=True):
    """Result of writing the model's weights after one run (`run --keep-weights`)."""

    num_bytes: Count
    """Bytes of weights written, without the manifest; 0 where the weights could not be written."""
    duration_s: Amount
    """Seconds that writing the weights took after run_stop, which are not part of the run's time."""
    error: str | None
    """Reason why the model's weights could not be written; the run is complete without them. None where they were
    written."""
    exit_code: Int64
    """Exit code of the command if the weights could not be written; 0 if they were written."""

    @classmethod
    def failed(cls, error: str, exit_code: int) -> "KeptWeights":
        """Return the record for a run whose weights could not be written, with the reason and the exit code."""
        return cls(num_bytes=0, duration_s=0.0, error=error, exit_code=exit_code)


Seconds = Annotated[float, Meta(ge=0, le=1e12)]
"""Type of a number of seconds, from 0 to 1e12, so that a sum of several is finite."""


class CheckpointRecord(Record, frozen=True, kw_only=True):
    """Checkpoint that a training process wrote: its samples, and the bytes and seconds that it cost. Bytes are sizes
    of files, the manifest included."""

    index: Index
    samples_count: Count
    is_base: bool
    """Whether the checkpoint holds all rows of all embedding tables, so that it needs no earlier checkpoint."""
    num_rows: Count
    """Number of embedding rows, over all tables, in the checkpoint."""
    embedding_bytes: Count
    """Bytes of embedding rows and of their row numbers in the checkpoint."""
    num_bytes: Count
    """Bytes of the whole checkpoint: embedding rows, their optimizer state, and all other state of the run."""
    restore_bytes: Count
    """Bytes of all checkpoints needed to restore this checkpoint: its own `num_bytes`, and those of the earlier
    checkpoints on which it builds."""
    stall_s: Seconds
    """Seconds that training stood still while the state for the checkpoint was copied."""
    wait_s: Seconds
    """Seconds that training stood still, before the state was copied, to wait until the previous checkpoint was
    written."""
    write_s: Seconds
    """Seconds that a background thread took to quantise, write and sync the checkpoint to disk and to remove
    superseded files."""
    mean_l2: Annotated[float, Meta(ge=0, le=1e40)] | None
    """Mean over embedding rows of the L2 distance between a row and its quantised form in the checkpoint; None for 32
    bits, which are lossless."""
    disk_bytes: Count | None = None
    """Bytes of all the run's checkpoints on disk when this checkpoint was complete, before superseded ones were
    removed; None where that was not recorded."""
    kept_bytes: Count | None = None
    """Bytes of all the run's checkpoints left on disk after superseded ones were removed (`checkpoint.keep`); None
    where that was not recorded."""


class CheckpointsRecord(Record, frozen=True, kw_only=True):
    """All checkpoints that a training process took; for comparison, the computed sizes of a full checkpoint; and the
    seconds that a restore took."""

    full_embedding_bytes: Count
    """Computed bytes of all embedding rows in 32 bits, as a full checkpoint would hold them."""
    full_bytes: Count
    """Computed bytes of a full checkpoint: all rows in 32 bits, with optimizer state, all other state and a
    manifest."""
    taken: tuple[CheckpointRecord, ...]
    restore_s: Seconds | None
    """Seconds that it took, after the run, to read the last checkpoint and the checkpoints it builds on. Their files
    had just been written. None if there is no checkpoint, or reading failed."""
    num_restores: Count
    """Number of times that training continued from a restored checkpoint during the run."""
    error: str | None
    """Reason why checkpoints could not be written, removed or read back; training continued. None where nothing
    failed."""
    exit_code: Int64
    """Exit code of the command if checkpoints could not be written, removed or read; 0 if nothing failed."""


class ObservedRecord(Record, frozen=True, kw_only=True):
    """Times of a run's events as its timekeeper saw them. The timekeeper is a separate process that starts the run's
    process and runs none of the user's code.

    The timekeeper reads the run's output again and again, so it knows only that an event arrived between two reads.
    Of the times of these two reads, the one that makes the run shorter is recorded.
    """

    uncertain_s: Amount
    """Uncertainty, in seconds, of the time at which run_start arrived at the timekeeper (the process that times the
    run), plus that of the time at which run_stop arrived. It comes mostly from delays of the timekeeper itself."""
    run_start_ms: Int64 | None
    """Latest time, in milliseconds since 1970, at which run_start had not yet arrived at the timekeeper (the process
    that times the run). None if it never arrived."""
    run_stop_ms: Int64 | None
    process_s: Amount | None
    """Seconds from the start of the run's process to its end; None where the timekeeper ended before the process."""
    processor_s: Amount | None
    """Processor time that the run's processes took in total, in seconds; None where it is not known."""
    processor_before_s: Amount | None
    """Processor time of the run's processes before run_start, in seconds: opening the data, building the model, and
    warm-up. None if /proc does not report it."""
    processor_run_s: Amount | None
    """Processor time of the run's processes from run_start to run_stop, in seconds; None where it is not known."""


class StartupRecord(Record, frozen=True, kw_only=True):
    """File that Python executed in the run's process at start-up, before any code of the harness."""

    kind: Annotated[str, Meta(max_length=40)]
    """Kind of the file executed at start-up: sitecustomize, usercustomize, or pth (lines of a .pth file that begin
    with "import" are executed)."""
    path: str
    sha256: Sha256 | None
    """SHA-256 of the file that Python executed at start-up; None where it could not be read."""


class RunRecord(Measurement, frozen=True, kw_only=True):
    """Attempt at a training run: status, times, blocks, evaluations, energy and provenance; null means not
    measured."""

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
    """Peak resident memory in bytes of all processes of the run together: Python, torch, weights, optimizer and
    data."""
    peak_device_bytes: Count | None
    peak_reserved_bytes: Count | None = None
    """Peak bytes that torch reserved on the accelerator, a part of which (peak_device_bytes) was in use. A device
    needs this much memory, and CUDA's own memory in addition. None in files of earlier versions."""
    energy: EnergyRecord | None
    cache_clear: CacheClear | None
    blocks: tuple[BlockRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]
    log_sha256: Sha256 | None
    """SHA-256 of the MLPerf log at the time when the run closed it; None for an attempt that closed no log."""
    ranks: tuple[RankRecord, ...]
    """Host name and peak memory of each rank of a distributed run; empty for a run of one process."""
    traffic: TrafficRecord | None = field(name="exchange")
    """Bytes and seconds of communication between ranks; None for one process, and where the implementation does not
    report it."""
    read_data: tuple[ReadDatasetRecord, ...] = ()
    """Digests of the dataset, taken after the run, one entry for each copy that ranks read. Empty in files of earlier
    versions, for an attempt that was cut off, and for synthetic data."""
    observed_s: Amount | None = None
    """Lower bound of the seconds from run_start to run_stop, by a clock other than the log's. None in files of
    earlier versions, and if the two events were not seen."""
    observed_by: Literal["timekeeper", "itself"] | None = None
    """Process whose clock gave `observed_s`. "timekeeper" is the process that starts the run's process. "itself" is
    the run's own process, used if torchrun or srun started the run. None in files of earlier versions, which do not
    say whether the parent or the run's own process measured `observed_s`."""
    observed: ObservedRecord | None = None
    """Times of the run's events as its timekeeper (a separate process that started it) saw them; None where there was
    no timekeeper, or where it saw no event of the run."""
    closed_utc: str | None = None
    """Time (UTC, by the system's clock) just after the run's log was closed. None in files of earlier versions."""
    samples_before_start: Count | None = None
    """Number of samples of the dataset that all ranks together read before run_start. None in files of earlier
    versions, and if the workload does not name its dataset."""
    startup: tuple[StartupRecord, ...] = ()
    """Files that Python executed in the run's process at start-up, before the harness. Empty in files of earlier
    versions."""
    previous_sha256: Sha256 | None = None
    """Digest of the run.json of the set's previous finished run; for the first run, the value of
    `rules.records.chain.first_link`. None for an attempt that did not become a run, and in sets whose runs are not
    chained by digests."""
    weights: KeptWeights | None = None
    """Result of writing the model's weights after the run. None if `--keep-weights` was not given, and for an attempt
    that was cut off earlier."""
    checkpoints: CheckpointsRecord | None = None
    """Checkpoints that the run wrote while it trained; None where none were asked for."""

    @property
    def duration_s(self) -> float:
        """Return the sum of the seconds of all training blocks and evaluations of the run. It is slightly smaller
        than the difference of the log's time stamps, which determines the score."""
        return sum(block.duration_s for block in self.blocks) + sum(part.duration_s for part in self.evaluations)

    def repetitions(self) -> tuple["RunRecord", ...]:
        """Return the runs of this file that a comparison takes as its sample: the file's own run if it reached the
        target, else none."""
        return (self,) if self.status == "success" else ()

    @property
    def is_finished(self) -> bool:
        """Return whether the attempt became a run of the set: it met the target, or ended without meeting it."""
        return self.status != "interrupted"
