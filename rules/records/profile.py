"""extra/profile.json divides one training step into phases, and compares the phases with roofline ceilings of the
same system. It gives no score.

Every number is in `measured` or in `computed`. Computed numbers follow from measured times, ceilings and counts.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from rules.records.codec import Count, Int64, PositiveAmount, PositiveCount, Record, Share
from rules.records.measure import Column, Measure, Measurement

Bound = Literal["compute", "memory", "gather", "overhead"]


Spread = Annotated[float, Meta(ge=0, le=1e12)]
"""Interquartile range of the times of repetitions, as a fraction of their median."""


class Rate(Record, frozen=True, kw_only=True):
    """Rate per second (of FLOP, bytes or rows) that a benchmark kernel reached, as the best and the median of several
    trials."""

    best: PositiveAmount
    median: PositiveAmount
    spread: Spread | None = None
    """Interquartile range of the kernel's trials as a fraction of their median. None in files of earlier versions."""


class MeasuredStep(Record, frozen=True, kw_only=True):
    """Measured seconds of a training step: medians over blocks of steps."""

    num_blocks: PositiveCount
    steps_per_block: PositiveCount
    step_s: PositiveAmount
    fastest_step_s: PositiveAmount
    instrumented_step_s: PositiveAmount | None = field(name="told_step_s")
    """Seconds of a training step whose phases are timed separately. The separate timing itself takes a little of this
    time."""
    fastest_instrumented_step_s: PositiveAmount | None = field(name="fastest_told_step_s")
    samples_per_s: PositiveAmount
    step_spread: Spread | None = None
    """Interquartile range of the times of the blocks, as a fraction of step_s, their median. None in files of earlier
    versions."""
    named_share: Share
    instrumentation_cost: Annotated[
        float, Meta(description="Extra time of an instrumented step, as a fraction; median over neighbouring blocks.")
    ]
    instrumentation_cost_interval: tuple[float | None, float | None]


class StepLimit(Record, frozen=True, kw_only=True):
    """Shortest possible time of a training step, in seconds, at given roofline ceilings; `fraction` is that time over
    the measured time."""

    step_s: float
    samples_per_s: float | None
    fraction: float


class StepLimits(Record, frozen=True, kw_only=True):
    """Shortest possible times of a training step, each for its own set of roofline ceilings (matrix products only, or
    all phases)."""

    matmul: StepLimit
    matmul_median: StepLimit
    matmul_best_shape: StepLimit
    all_phases: StepLimit


class ComputedStep(Record, frozen=True, kw_only=True):
    """Computed work of a training step (FLOP, bytes), its shortest possible times, and the resource that bounds
    it."""

    matmul_flop: float
    bytes: float
    flop_per_s: float
    flop_per_byte: float
    ridge_side: Literal["compute", "memory"]
    bound_shares: dict[Bound, float]
    limits: StepLimits


class StepRecord(Record, frozen=True, kw_only=True):
    """Measured times of a whole training step, and its computed work (FLOP, bytes) and shortest possible times."""

    measured: MeasuredStep
    computed: ComputedStep


class MeasuredPhase(Record, frozen=True, kw_only=True):
    """Measured seconds of one phase of a training step; None if the phase cannot be timed by itself."""

    time_s: float | None


class ComputedPhase(Record, frozen=True, kw_only=True):
    """Computed work of one phase of a training step, its shortest times by roofline ceiling, and the resource that
    bounds it."""

    share: Share | None
    matmul_flop: Count
    elementwise_flop: Count
    bytes: Count
    rows: Count
    flop_per_byte: float | None
    flop_per_s: float | None
    bytes_per_s: float | None
    rows_per_s: float | None
    compute_limit_s: float
    memory_limit_s: float
    gather_limit_s: float
    ceiling_fraction: float | None
    bound: Bound | None


class PhaseRecord(Record, frozen=True, kw_only=True):
    """One phase of a training step (such as the embedding lookup): its measured time and computed work."""

    phase: str
    label: str | None
    """Name of the phase for readers, given by the model; None in files from before models named their phases."""
    measured: MeasuredPhase
    computed: ComputedPhase


class MeasuredEvaluation(Record, frozen=True, kw_only=True):
    """Measured seconds and samples per second of one evaluation on the whole evaluation split."""

    duration_s: PositiveAmount
    num_samples: PositiveCount
    samples_per_s: PositiveAmount


class ComputedEvaluation(Record, frozen=True, kw_only=True):
    """Computed FLOP, and FLOP per second, of one evaluation on the whole evaluation split."""

    matmul_flop: Count
    flop_per_s: float


class ProfiledEvaluation(Record, frozen=True, kw_only=True):
    """Measured time and computed work of one evaluation, made after a warm-up evaluation."""

    measured: MeasuredEvaluation
    computed: ComputedEvaluation


class SquareProduct(Record, frozen=True, kw_only=True):
    """Measured FLOP per second of `num` matrix products [m, k] x [k, n], in the fastest memory layout tried."""

    num: PositiveCount
    m: PositiveCount
    k: PositiveCount
    n: PositiveCount
    layout: str
    flop_per_s: Rate


class LayerProduct(SquareProduct, frozen=True, kw_only=True):
    """Measured FLOP per second of a matrix product with the shape of one of the model's own layers."""

    used_by: Annotated[tuple[str, ...], Meta(min_length=1)]


class CopyRate(Record, frozen=True, kw_only=True):
    """Measured rate of copying memory, in bytes per second. `bytes` counts both the bytes read and the bytes
    written."""

    bytes: PositiveCount
    bytes_per_s: Rate


class GatherRate(Record, frozen=True, kw_only=True):
    """Measured rate of gathering rows from one embedding table, in rows per second."""

    ids: str
    method: str
    table_rows: PositiveCount
    row_bytes: PositiveCount
    rows_per_s: Rate


class TransferRate(Record, frozen=True, kw_only=True):
    """Measured rate of copies between pinned host memory and the accelerator, in bytes per second, in both
    directions."""

    bytes: PositiveCount
    to_device_bytes_per_s: Rate
    to_host_bytes_per_s: Rate


class MeasuredCeilings(Record, frozen=True, kw_only=True):
    """Best measured rates of this system for matrix products, memory copies, row gathering and transfers, which serve
    as roofline ceilings."""

    matmul: Annotated[tuple[LayerProduct, ...], Meta(min_length=1)]
    square: Annotated[tuple[SquareProduct, ...], Meta(min_length=1)]
    copies: Annotated[tuple[CopyRate, ...], Meta(min_length=1)]
    random_rows: GatherRate
    batch_rows: GatherRate
    transfer: TransferRate | None
    """Rate of copies between host and accelerator; None where there is no accelerator."""


class ComputedCeilings(Record, frozen=True, kw_only=True):
    """Roofline ceilings of this system (FLOP/s, bytes/s and their ridge point), computed from the measured rates."""

    best_matmul_flop_per_s: PositiveAmount
    memory_bytes_per_s: PositiveAmount
    ridge_flop_per_byte: PositiveAmount
    random_rows_bytes_per_s: PositiveAmount
    batch_rows_bytes_per_s: PositiveAmount


class CeilingsRecord(Record, frozen=True, kw_only=True):
    """Roofline ceilings of this system: the measured rates, and the ceilings computed from them."""

    measured: MeasuredCeilings
    computed: ComputedCeilings


class OperatorRecord(Record, frozen=True, kw_only=True):
    """PyTorch operator in a profiled training step; `flop` and `bytes` are computed per call, None where not
    known."""

    name: str
    shapes: tuple[tuple[Int64, ...], ...]
    calls_per_step: PositiveAmount
    self_s_per_step: float
    share: float | None
    flop: Int64 | None
    bytes: Int64 | None


class MeasuredOperators(Record, frozen=True, kw_only=True):
    """Operators that take most of a training step's time, as torch.profiler measured them over several steps."""

    num_steps: PositiveCount
    step_s: PositiveAmount
    outside_share: float | None
    table: Annotated[tuple[OperatorRecord, ...], Meta(max_length=15)]


class OperatorsRecord(Record, frozen=True, kw_only=True):
    """Operators of a training step as torch.profiler measured them. Other parts of a profile also have a member
    `computed`; this part has none."""

    measured: MeasuredOperators


class ProfileRecord(Measurement, frozen=True, kw_only=True):
    """Profile of one training step by phases, compared with roofline ceilings of the same system."""

    MEASURE: ClassVar[Measure] = Measure(
        title="Time of a step",
        value="step_s",
        unit="s",
        scale="ratio",
        direction="lower",
        columns=(
            Column(member="num_blocks", title="Blocks", unit=None),
            Column(member="steps_per_block", title="Steps", unit=None),
            Column(member="step_s", title="Step", unit="s"),
            Column(member="samples_per_s", title="Samples/s", unit="samples/s"),
        ),
    )

    benchmark: str
    definition_sha256: str
    implementation: str
    device: str
    precision: str
    num_threads: PositiveCount
    global_batch_size: PositiveCount
    unique_rows_per_step: Annotated[
        int,
        Meta(
            ge=0, description="Mean number of distinct rows of all tables that a batch looks up, counted in batches."
        ),
    ]
    hyperparameters: dict[str, Any]
    step: StepRecord
    phases: Annotated[tuple[PhaseRecord, ...], Meta(min_length=1)]
    evaluation: ProfiledEvaluation
    ceilings: CeilingsRecord
    operators: OperatorsRecord

    def repetitions(self) -> tuple[MeasuredStep, ...]:
        """Return the profile's measured step as a tuple of one: the sample for comparisons."""
        return (self.step.measured,)
