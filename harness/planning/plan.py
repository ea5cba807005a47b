"""Plan a run set: its schedule, memory, problems, and time estimated from a few steps; as JSON and as blocks of a
page."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.autotune.choices import find_candidates
from harness.autotune.precision import read_precision
from harness.autotune.tuning import describe_choice, find_choice
from harness.config.catalog import WorkloadConfig
from harness.config.matmul import as_choice
from harness.config.run_config import DERIVED, RunConfig, command_name
from harness.config.synthetic import hold_in_memory, synthetic_like
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.clock import Clock
from harness.measure.gpu_kernels import check_kernels
from harness.measure.kinds import Work
from harness.measure.refusals import refuse_device, refuse_threads
from harness.planning.memory import MemoryNeed, model_memory
from harness.run_sets.dataset import how_to_get, is_begun, is_generated
from harness.run_sets.output import refuse_output
from harness.system.resources import read_resources
from harness.system.software import WORKER_VARIABLES, make_spin_variables
from reference_models.config.sections import DataConfig
from reference_models.costs import FLOAT_BYTES, ComputedCosts
from reference_models.data.registry import DEFAULT_ROOT, find_data, locate_dataset, open_dataset
from reference_models.fused.choice import MatmulChoice
from reference_models.process.errors import ConfigError, DatasetError, DeviceError
from reference_models.process.world import SingleProcess
from reference_models.registry import refuse_impossible_runtime
from reports.document.blocks import Block, Bullets, Heading, Prose, text_table
from reports.text.formatting import count, duration, num_bytes, plural, si
from rules.logs import keys
from rules.records.run_set import ChoiceRecord

_TIMED_STEPS = 10
_MOST_EVALUATED = 1 << 16
"""Largest number of samples in the timed evaluation when synthetic data is used in place of the dataset. The measured
time is then scaled up to the size of the evaluation split."""
_FATAL = ("out of memory", "cannot start")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Numbers of training steps and evaluations of one run, with the samples and the batch size that they follow
    from."""

    train_samples: int
    eval_samples: int
    global_batch_size: int
    steps_per_epoch: int
    steps_between_evals: int
    num_evals: int

    @property
    def work(self) -> Work:
        """Numbers of training steps and evaluations of the longest possible run, which never meets its target."""
        steps = self.num_evals * self.steps_between_evals
        return Work(num_steps=steps, num_evals=self.num_evals, eval_samples=self.eval_samples)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeEstimate:
    """Modelled seconds of one training or measuring process, from training steps that were timed just before on this
    system, and the method in words. A run is assumed never to meet its target, so that it trains for all epochs."""

    run_s: float
    method: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that `dlrmbench plan` says of a run set; fields are None where only a prepared dataset would have
    the information."""

    config: RunConfig
    data_dir: Path
    data_problem: str | None
    """Reason why the benchmark's dataset cannot be read; None where it is ready."""
    is_data_made: bool
    """Whether runs can start with the dataset as it is: it is ready, or is generated when the first run starts."""
    is_data_expected: bool
    """Whether missing data is an error: the user gave the path of the dataset, or the dataset's own folder exists."""
    schedule: Schedule | None
    counts: ComputedCosts | None
    memory: tuple[MemoryNeed, ...]
    """Bytes that all ranks together need of each memory (host, GPUs), beginning with the memory that holds the model;
    empty where the sizes of the embedding tables are not known."""
    time: TimeEstimate | None
    is_choosing: bool
    """Whether threads, and perhaps kernels for matrix products, are timed before the first run."""
    choice: ChoiceRecord | None
    """Threads and kernels that runs reuse from an earlier set of equal shape; None where there are none."""
    precision: str | None
    """Sentence that compares bf16 with fp32 on this system. It is given for the precision `auto`, and for bf16 on a
    CPU with one rank; otherwise None."""
    problems: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the plan. If a run cannot start here, it is the code with which the run would fail, otherwise
        DONE.

        The exit code is also DONE if only the modelled memory is too small. It is DONE, too, if only the data is
        missing and no path to it was given, since a plan can be made before the data is there.
        """
        if any("cannot start" in problem for problem in self.problems):
            return ExitCode.USAGE
        return ExitCode.INPUT if self.is_data_expected and not self.is_data_made else ExitCode.DONE


def make_plan(config: RunConfig, data_root: Path | None, *, num_runs: int, division: str, measure: bool) -> Plan:
    """Return the plan of a run set. If `measure` is true, a few steps and an evaluation are timed for the time
    estimate.

    Raises OSError if runs would make the dataset, and the dataset's folder cannot be written.
    """
    config, precision = read_precision(config, data_root)
    workload = config.workload
    data_dir = locate_dataset(workload.data, data_root)
    if is_generated(workload.data, data_dir):
        refuse_output(data_dir)
    sizes, data_problem = read_sizes(workload.data, data_dir)
    resources = read_resources()
    counts = schedule = time = None
    memory: tuple[MemoryNeed, ...] = ()
    choice, refusals = find_choice(config, data_dir), _refusals(workload)
    kernels = None if refusals else check_kernels(workload)
    if sizes is not None:
        train_samples, eval_samples, num_embeddings = sizes
        counts = workload.costs(num_embeddings)
        memory = model_memory(
            workload, resources, eval_samples, num_embeddings, has_kernels=kernels is None or kernels.status == "ok"
        )
        schedule = make_schedule(config, train_samples, eval_samples)
    problems = [
        *_schedule_problems(config, schedule, num_runs, division),
        *(need.problem for need in memory if need.problem is not None),
        *refusals,
        *([] if kernels is None or kernels.status == "ok" else [f"{kernels.name}: {kernels.value}. {kernels.why}"]),
    ]
    is_possible = not any(fatal in problem for problem in problems for fatal in _FATAL)
    # Several ranks wait for one another, which one process cannot time.
    is_measurable = workload.runtime.device == "cpu" and workload.runtime.ranks == 1
    if measure and is_possible and is_measurable and sizes is not None and schedule is not None:
        time = estimate_time(config, sizes[2], schedule.work, data_dir)
    return Plan(
        config=config,
        data_dir=data_dir,
        data_problem=explain_data(config, data_dir, data_root, data_problem),
        is_data_made=data_problem is None or is_generated(workload.data, data_dir),
        is_data_expected=data_root is not None or (data_dir != DEFAULT_ROOT and is_begun(data_dir)),
        schedule=schedule,
        counts=counts,
        memory=memory,
        time=time,
        is_choosing=choice is None and find_candidates(config, data_dir) is not None,  # before steps were timed
        choice=choice,
        precision=precision,
        problems=tuple(problems),
    )


def read_sizes(data: DataConfig, data_dir: Path) -> tuple[tuple[int, int, tuple[int, ...]] | None, str | None]:
    """Return a pair: the sizes (number of training samples, number of evaluation samples, rows of each table), and
    the reason why the dataset cannot be read.

    The sizes are those of the dataset if it is ready, else those of the definition; None if neither has them. The
    reason is None if the dataset is ready.
    """
    try:
        dataset = open_dataset(data_dir, data)
    except DatasetError as error:
        if data.train_samples and data.eval_samples and data.num_embeddings:
            return (data.train_samples, data.eval_samples, data.num_embeddings), str(error)
        return None, str(error)
    return (dataset.train.num_samples, dataset.eval.num_samples, dataset.train.num_embeddings), None


def explain_data(config: RunConfig, data_dir: Path, data_root: Path | None, problem: str | None) -> str | None:
    """Return why a dataset cannot be read, and for a missing one the command that makes it; None where the dataset is
    ready."""
    if problem is None or (is_begun(data_dir) and not is_generated(config.workload.data, data_dir)):
        return problem
    what = "holds no dataset yet" if data_dir.is_dir() else "does not exist"
    return f"{data_dir} {what}. {how_to_get(config.workload.data, command_name(config.benchmark), data_root)}"


def require_sizes(config: RunConfig, data_root: Path | None) -> tuple[int, int, tuple[int, ...]]:
    """Return the numbers of samples and the table sizes of a dataset. Raises DatasetError if these numbers are only
    in the dataset, and the dataset is missing."""
    name, folder = config.benchmark.name, locate_dataset(config.workload.data, data_root)
    sizes, problem = read_sizes(config.workload.data, folder)
    if sizes is None:
        why = explain_data(config, folder, data_root, problem)
        raise DatasetError(f"only its data says how many rows the tables of {name} have: {why}")
    return sizes


def require_table_rows(config: RunConfig, data_root: Path | None) -> tuple[int, ...]:
    """Return the number of rows of each embedding table. This works even if the numbers of samples are not known,
    such as for data whose shape the user changed.

    Raises DatasetError if the numbers of rows are only in the dataset, and the dataset is missing.
    """
    data = config.workload.data
    sizes, _ = read_sizes(data, locate_dataset(data, data_root))
    if sizes is None and data.num_embeddings is not None:
        return data.num_embeddings
    return require_sizes(config, data_root)[2]


def make_schedule(config: RunConfig, train_samples: int, eval_samples: int) -> Schedule:
    batch_size = config.workload.train.global_batch_size
    steps_per_epoch = train_samples // batch_size
    between = config.benchmark.steps_between_evals(train_samples, batch_size)
    return Schedule(
        train_samples=train_samples,
        eval_samples=eval_samples,
        global_batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        steps_between_evals=between,
        num_evals=int(config.benchmark.quality.max_epochs * steps_per_epoch) // between,
    )


def estimate_time(
    config: RunConfig, num_embeddings: Sequence[int], work: Work, data_dir: Path
) -> TimeEstimate | None:
    """Return the estimated time of `work`, a number of training steps and evaluations. A few steps and one evaluation
    are timed now, and their times are extrapolated. If no dataset is ready, synthetic samples of the same shape are
    used.

    None if synthetic samples would be needed, and the model cannot train on them.
    """
    choice = find_choice(config, data_dir)
    chosen = {} if choice is None else make_spin_variables(choice.spin_count)
    os.environ.update({**WORKER_VARIABLES, **os.environ, **chosen})  # as in a run, and before torch is imported
    num_threads = config.workload.runtime.threads or read_resources().num_cores
    num_threads = num_threads if choice is None else choice.num_threads
    matmul = None if choice is None or choice.matmul is None else as_choice(choice.matmul, str(data_dir))
    return estimate_work(config.workload, num_embeddings, work, data_dir, num_threads, matmul)


def estimate_work(
    workload: WorkloadConfig,
    num_embeddings: Sequence[int],
    work: Work,
    data_dir: Path,
    num_threads: int,
    matmul: MatmulChoice | None = None,
) -> TimeEstimate | None:
    """Return the time of `work` (steps and evaluations), extrapolated from a few steps and one evaluation timed with
    `num_threads` threads."""
    share, where = 1.0, ""
    is_here = data_dir.joinpath("manifest.json").exists() or find_data(workload.data.kind).is_in_memory
    if not is_here or workload.data.id_map.is_active:  # a map is made before the first run only
        num_evaluated = max(1, min(work.eval_samples, _MOST_EVALUATED))
        workload = replace(workload, data=synthetic_like(workload.data.mapped, num_embeddings, num_evaluated))
        try:
            workload.model_spec.refuse(workload.model, workload.data)
        except ConfigError:
            return None
        share, where = work.eval_samples / num_evaluated, ", on synthetic samples of equal shape"
    step_s, eval_s = measure_steps(workload, data_dir, num_threads, matmul)
    return TimeEstimate(
        run_s=work.num_steps * step_s + work.num_evals * share * eval_s,
        method=f"modelled from {_TIMED_STEPS} steps and one evaluation{where}, measured now",
    )


def measure_steps(
    workload_config: WorkloadConfig, data_dir: Path, num_threads: int, matmul: MatmulChoice | None
) -> tuple[float, float]:
    """Return the measured seconds per training step and per evaluation of a workload, after a short warm-up."""
    timed = replace(workload_config, runtime=replace(workload_config.runtime, threads=num_threads))
    timed = hold_in_memory(timed, 2 + _TIMED_STEPS)
    workload = timed.implementation.load(timed.spec(data_dir, 0, matmul), SingleProcess())
    workload.build()
    clock = Clock(workload.synchronize)
    workload.train(2)
    start_s = clock.elapsed_s()
    counts = workload.train(_TIMED_STEPS)
    trained_s = clock.elapsed_s()
    workload.evaluate()
    return (trained_s - start_s) / max(1, counts.num_steps), clock.elapsed_s() - trained_s


def _schedule_problems(config: RunConfig, schedule: Schedule | None, num_runs: int, division: str) -> list[str]:
    """Return the problems of a plan that would keep the run set from a score, or its runs from starting."""
    benchmark, problems = config.benchmark, []
    if num_runs < benchmark.score.num_runs:
        problems.append(
            f"{plural(num_runs, 'run')}: INCOMPLETE, no score. {benchmark.name} asks for {benchmark.score.num_runs}."
        )
    elif num_runs > benchmark.score.num_runs:
        is_official = benchmark.status == "official"
        words = "takes exactly" if is_official else "is over the first"
        refused = " The run cannot start." if is_official else ""
        problems.append(f"{plural(num_runs, 'run')}: the score {words} {benchmark.score.num_runs}.{refused}")
    if schedule is None:
        return problems
    if schedule.steps_per_epoch == 0:
        problems.append(
            f"train.global_batch_size {schedule.global_batch_size} exceeds the "
            f"{schedule.train_samples} training samples: the run cannot start."
        )
    found = {"train_samples": schedule.train_samples, "eval_samples": schedule.eval_samples}
    if division == keys.CLOSED:
        problems += [
            f"{key} = {value}: the closed division asks for {benchmark.closed[key]}."
            for key, value in found.items()
            if key in benchmark.closed and not benchmark.closed[key].allows(value)
        ]
    return problems


def _refusals(workload: WorkloadConfig) -> list[str]:
    """Return the reasons why the implementation or the device cannot run the configuration."""
    found = []
    runtime = workload.runtime
    try:
        refuse_impossible_runtime(workload.model_name, workload.train, runtime)
        refuse_threads(runtime.threads)
    except (ConfigError, HarnessError) as error:
        found.append(f"{error} The run cannot start.")
    try:
        refuse_device(runtime)
    except DeviceError as error:
        found.append(f"{error} The run cannot start.")
    return found


def _all_problems(plan: Plan) -> list[str]:
    missing = f"no data to run on, 'run' ends with {ExitCode.INPUT:d}: {plan.data_problem}"
    return [*plan.problems, *([] if plan.is_data_made else [missing])]


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan of a run set as JSON values; names of fields, or neighbouring fields, say which numbers are
    modelled and which measured."""
    return {
        "schema_version": 1,
        "benchmark": plan.config.benchmark.name,
        "definition_sha256": plan.config.benchmark.definition_sha256,
        "config": plan.config.values(),
        "data": {"dir": str(plan.data_dir), "ready": plan.data_problem is None, "problem": plan.data_problem},
        "schedule": None if plan.schedule is None else asdict(plan.schedule),
        "counts": None if plan.counts is None else asdict(plan.counts),
        "modelled_memory_bytes": plan.memory[0].needed_bytes if plan.memory else None,
        "kept_weights_bytes": None if plan.counts is None else plan.counts.num_parameters * FLOAT_BYTES,
        "available_memory_bytes": plan.memory[0].available_bytes if plan.memory else None,
        "modelled_memory": [asdict(need) for need in plan.memory],
        "choice": None if plan.choice is None else msgspec.to_builtins(plan.choice),
        "precision": plan.precision,
        "modelled_run_s": None if plan.time is None else plan.time.run_s,
        "modelled_run_method": None if plan.time is None else plan.time.method,
        "problems": _all_problems(plan),
    }


_NOT_GIVEN = ("definition", "default")
"""Names of the sources of configuration values that the user did not give."""


def plan_blocks(made: Plan, num_runs: int, *, is_brief: bool = False) -> tuple[Block, ...]:
    """Return blocks of a page with the plan, the configuration's values with their sources, and the plan's problems.

    With `is_brief`, only the values that the user gave are listed.
    """
    benchmark = made.config.benchmark
    rows: list[tuple[str, str, str]] = [
        ("runs", str(num_runs), f"{benchmark.score.num_runs} make a score"),
        ("quality target", f"{benchmark.metric.label} {benchmark.quality.target:g}", "definition"),
        ("dataset", str(made.data_dir), "ready" if made.data_problem is None else "not there yet"),
    ]
    if made.schedule is not None:
        schedule = made.schedule
        rows += [
            ("samples", f"{count(schedule.train_samples)} train, {count(schedule.eval_samples)} eval", "per epoch"),
            (
                "steps",
                f"{count(schedule.steps_per_epoch)} per epoch of {count(schedule.global_batch_size)}",
                "computed",
            ),
            (
                "evaluations",
                f"every {count(schedule.steps_between_evals)} steps, at most {schedule.num_evals}",
                "rule",
            ),
        ]
    if made.counts is not None:
        flop = si(made.counts.training_flop_per_sample)
        rows += [
            ("parameters", count(made.counts.num_parameters), "computed"),
            (
                "work per sample",
                f"{flop}FLOP, {made.counts.num_lookups_per_sample} lookups",
                "measured" if made.config.workload.model_spec.has_measured_costs else "computed",
            ),
        ]
    for need in made.memory:
        name = "memory" if need.of == "host" else "GPU memory"
        here = "" if need.available_bytes is None else f" of {num_bytes(need.available_bytes)} available"
        rows.append((name, f"{num_bytes(need.needed_bytes)}{here}", "modelled"))
    if made.counts is not None:
        size = num_bytes(made.counts.num_parameters * FLOAT_BYTES)
        rows.append(("weights of a run", f"{size} of disk", "computed; kept by --keep-weights alone"))
    if made.choice is not None:
        rows.append(("threads, products", describe_choice(made.choice), f"timed {made.choice.chosen_utc[:10]}"))
    if made.precision is not None:
        rows.append(("precision", made.precision, "settled before the first run"))
    if made.is_choosing:
        rows.append(("threads, products", "timed before the first run: some seconds, once", "not timed yet"))
    if made.time is not None:
        rows.append(("run, whole epoch(s)", duration(made.time.run_s), made.time.method))
    config = [
        (key, _short(value["value"]), value["source"])
        for key, value in made.config.values().items()
        if not (is_brief and value["source"] in _NOT_GIVEN)
    ]
    num_hidden = len(made.config.values()) - len(config)
    blocks: list[Block] = [
        Heading(text=f"{benchmark.name} version {benchmark.version}: {benchmark.title}"),
        text_table(("What", "Value", "Source"), rows),
        *([text_table(("Key", "Value", "Source"), config)] if config else []),
        *([Prose(text=f"--verbose also lists the {num_hidden} values that you did not give.")] if num_hidden else []),
    ]
    blocks += [Prose(text=note) for note in benchmark.notes if note.startswith(DERIVED)]
    runtime = made.config.workload.runtime
    if runtime.precision == "tf32" and made.config.values()["runtime.precision"]["source"] == "definition":
        text = "Products are in tf32 unless you say otherwise: --set runtime.precision=fp32, or bf16."
        blocks.append(Prose(text=text))
    if runtime.device != "cpu" and runtime.precision == "fp32":
        blocks.append(
            Prose(
                text="fp32 leaves a GPU's tensor cores unused; MLPerf's systems train in reduced precision. --set "
                "runtime.precision=bf16 or tf32 uses them; 'run --quality' measures the loss of quality."
            )
        )
    if made.data_problem is not None and made.is_data_made:
        blocks.append(Prose(text=f"Dataset: {made.data_problem}"))
    if problems := _all_problems(made):
        return (*blocks, Prose(text="Problems:"), Bullets(items=tuple(problems)))
    return (*blocks, Prose(text="No problem found."))


def _short(value: object, limit: int = 60) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def source_of(config: RunConfig, key: str) -> Literal["definition", "default", "given"]:
    """Return the source of a configuration value as one of the words that a study (record of findings and tables) has
    for it: definition, default or given."""
    source = config.values()[key]["source"]
    return source if source in _NOT_GIVEN else "given"
