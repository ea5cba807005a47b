"""Model the time of a training step, and of a run that trains to the target quality, on a system by the system's
rates (FLOP/s, bytes/s …)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.config.catalog import WorkloadConfig
from harness.config.run_config import RunConfig
from harness.extensions.system_model.ranking import describe_error, describe_ranking
from harness.foundation.study import Columns, make_study, make_table
from harness.measure.kinds import Work
from harness.planning.hardware.system import ModelledSystem
from harness.planning.memory import model_memory
from harness.planning.plan import Schedule, estimate_time, make_schedule, require_sizes, source_of
from harness.run_sets.environment import Environment
from harness.system.resources import read_resources
from reference_models.costs import FLOAT_BYTES, Matmul, PhaseCosts
from reference_models.data.registry import locate_dataset
from reference_models.data.synthetic.config import ZIPF_EXPONENT
from reference_models.data.traces.sources import expect_touched
from reference_models.process.errors import ConfigError
from reference_models.registry import label_of
from reports.parts.load import load_words
from reports.text.formatting import duration, num_bytes, percent, significant, throughput_text
from rules.benchmarks.loader import Benchmark
from rules.benchmarks.rounds import OFFICIAL_ROUNDS
from rules.logs import keys
from rules.records.study import Cell, Parameter, StudyRecord
from rules.scoring.rcp import find_point, load_points, rcp_file

THIS = "this"
"""Value of the option --system that stands for the system on which the command runs."""
_COUNTED_BYTES = 1 << 28
"""Maximum bytes of activations of the batch that is run to count a step's operators."""
_OFF = 1.005
"""Smallest error of a modelled step time that is printed as a number: the modelled and the measured step time, the
longer divided by the shorter. Below it 'less than 0.5 % off' is printed."""
_REMARKS = (
    "In the model, a matrix product takes the time of its FLOP at the rate for its least extent. The rest of a "
    "phase takes the longest of the times of its bytes, its rows and its other FLOP; each operator adds its "
    "overhead. Bytes are compulsory fp32 traffic: code that moves more, stock PyTorch above all, takes longer.",
    "In the model, an evaluation takes the forward phases of its samples; sorting scores and starting up are not "
    "modelled.",
)
_UNITS = {"memory": "B", "operator": "s", "copy": "B/s", "rows": "B/s", "cores": None}
_WHOLE: Columns = (
    ("System", None, "given"),
    ("Step", "s", "modelled"),
    ("Throughput", "samples/s", "modelled"),
    ("Time to train", "s", "modelled"),
    ("Memory needed", "B", "modelled"),
    ("Memory", "B", "given"),
    ("Price per hour", None, "given"),
    ("Cost to train", None, "modelled"),
    ("Measured step", "s", "measured"),
    ("Modelled over measured", None, "computed"),
)
_PARTS: Columns = (
    ("System", None, "given"),
    ("Phase", None, "given"),
    ("Products", "s", "modelled"),
    ("Bytes", "s", "modelled"),
    ("Rows", "s", "modelled"),
    ("Other FLOP", "s", "modelled"),
    ("Operators", None, "measured"),
    ("Overhead", "s", "modelled"),
    ("Time", "s", "modelled"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCosts:
    """Work of a training step of one implementation (FLOP, bytes, rows, operators), which is the same on any
    system."""

    precision: str
    phases: Mapping[str, PhaseCosts]
    products: Sequence[Matmul]
    operators: Mapping[str, int]
    row_bytes: int
    table_bytes: int


class PhaseTime(NamedTuple):
    """Modelled seconds of one phase of a training step: the time of its matrix products, plus the longest of the
    times of its bytes, its rows and its other FLOP, plus the overhead of its operators."""

    products_s: float
    bytes_s: float
    rows_s: float
    other_s: float
    num_operators: int
    overhead_s: float
    time_s: float


def count_costs(workload: WorkloadConfig, num_embeddings: Sequence[int], unique_rows: int) -> StepCosts:
    """Return the costs of a training step: its FLOP, bytes and embedding rows, which are computed, and its operators,
    which are counted. To count the operators, one step of few samples is run on this machine.

    Raises ConfigError if the configuration has several ranks, or if its implementation's operators cannot be counted.
    """
    model, data, train, runtime = workload.model, workload.data.mapped, workload.train, workload.runtime
    if runtime.ranks > 1:
        raise ConfigError(f"runtime.ranks is {runtime.ranks}: by the rates of a system one process is modelled.")
    from reference_models.count_step import count_operators  # imports torch

    costs, counts, batch_size = workload.model_spec.costs, workload.costs(num_embeddings), train.global_batch_size
    activations_bytes = workload.estimate_memory(eval_samples=1, num_embeddings=num_embeddings).activations_bytes
    num_samples = min(batch_size, batch_size * _COUNTED_BYTES // max(1, activations_bytes))
    num_samples = max(2, costs.min_samples(model, data), num_samples)
    operators = count_operators(workload.implementation.load, model, data, train, num_samples)
    return StepCosts(
        precision="fp32" if runtime.precision == "auto" else runtime.precision,
        phases=costs.phases(
            model, data, batch_size=batch_size, opt_name=train.opt_name, unique_rows=unique_rows, entered=operators
        ),
        products=costs.matmuls(model, data, batch_size),
        operators=operators,
        row_bytes=counts.row_width * FLOAT_BYTES,
        table_bytes=counts.embedding_bytes,
    )


def expect_unique_rows(workload: WorkloadConfig, num_embeddings: Sequence[int]) -> int:
    """Return the expected number of distinct embedding rows of all tables in one batch, if ids follow the data's
    power law."""
    data, batch_size = workload.data.mapped, workload.train.global_batch_size
    lookups = workload.model_spec.costs.step(workload.model, data, batch_size).lookups
    if lookups is None:
        return 0
    draws = {table: batch_size * num for table, num in enumerate(data.multi_hot)}
    if lookups.tables is not None:
        draws = dict.fromkeys(lookups.tables, lookups.num // len(lookups.tables))
    exponent = float(data.parameters.get("zipf_exponent", ZIPF_EXPONENT))
    return round(sum(expect_touched(num_embeddings[table], exponent, num)[0] for table, num in draws.items()))


def model_step(costs: StepCosts, system: ModelledSystem) -> dict[str, PhaseTime]:
    """Return the modelled seconds of each phase of a training step. Raises ConfigError for a rate that the system
    lacks.

    If all rates are twice as high and the overhead is half as long, every time is exactly half.
    """
    moved = max(1, sum(part.bytes for part in costs.phases.values()))  # between two uses of what a phase leaves
    row_s, found = costs.row_bytes / system.find("rows", costs.table_bytes), dict[str, PhaseTime]()
    for phase in dict.fromkeys((*costs.phases, *costs.operators)):
        part, num_operators = costs.phases.get(phase, PhaseCosts()), costs.operators.get(phase, 0)
        products = [product for product in costs.products if product.phase == phase]
        products_s = sum(each.flop / system.find(costs.precision, min(each.m, each.k, each.n)) for each in products)
        beside = max(0, part.bytes - sum(product.bytes for product in products))
        other = part.flop - sum(product.flop for product in products)
        beside_s = (beside / system.find("copy", moved), part.rows * row_s, other / system.find("other"))
        overhead_s = num_operators * system.find("operator")
        time_s = products_s + max(beside_s) + overhead_s
        found[phase] = PhaseTime(products_s, *beside_s, num_operators, overhead_s, time_s)
    return found


def find_epochs(benchmark: Benchmark, schedule: Schedule) -> tuple[float | None, str]:
    """Return the number of epochs to converge, taken from the benchmark's reference convergence points, and the
    source of the point used. If there is none, return None and the reason."""
    files = (rcp_file(benchmark, name) for name in reversed(OFFICIAL_ROUNDS))
    file = next((file for file in files if file is not None), None)
    points = () if file is None else load_points(file, benchmark.score.num_runs)
    point, how = find_point(schedule.global_batch_size, points, benchmark.score.num_runs)
    if point is None or how == "smallest":
        return None, f"no reference convergence point at or around batch size {schedule.global_batch_size}"
    is_samples = benchmark.quality.convergence_unit == keys.SAMPLES_COUNT
    return point.mean / (schedule.train_samples if is_samples else 1), f"Olympic mean of {point.name}"


def system_study(
    config: RunConfig,
    systems: Mapping[str, ModelledSystem],
    prices: Mapping[str, float],
    data_root: Path | None,
    environment: Environment | None = None,
    *,
    measure: bool,
    known_s: Mapping[str, float] = MappingProxyType({}),
    is_ranked: bool = False,
) -> StudyRecord:
    """Return a study of what training would take on each system, modelled from the system's rates: step time,
    throughput, time and cost to train, and memory. If `measure` is true, steps are also timed on this system, THIS.

    `environment` is the environment check of the system THIS. `prices` is a dict from system to price per hour, and
    `known_s` one to measured seconds of a step, for some systems. If `is_ranked` is true, systems are ordered by cost
    to train, or if a cost is unknown by time to train, or else by the time of a step. A system whose memory is too
    small for the run has neither time nor cost to train.

    Raises ConfigError if the step cannot be modelled, and DatasetError if the dataset is missing and the sizes of the
    tables are not known without it.
    """
    workload, benchmark = config.workload, config.benchmark
    train_samples, eval_samples, num_embeddings = require_sizes(config, data_root)
    schedule, batch_size = make_schedule(config, train_samples, eval_samples), workload.train.global_batch_size
    unique_rows = expect_unique_rows(workload, num_embeddings)
    costs, (epochs, why) = count_costs(workload, num_embeddings, unique_rows), find_epochs(benchmark, schedule)
    on_cpu = replace(workload, runtime=replace(workload.runtime, device="cpu"))
    needed = model_memory(on_cpu, read_resources(), eval_samples, num_embeddings)[0].needed_bytes
    measured = None
    if measure and THIS in systems:
        work, folder = (
            Work(num_steps=1, num_evals=0, eval_samples=eval_samples),
            locate_dataset(workload.data, data_root),
        )
        with nullcontext() if environment is None else environment.measuring():
            measured = estimate_time(config, num_embeddings, work, folder)
    whole, parts, findings = list[tuple[Cell, ...]](), list[tuple[Cell, ...]](), list[str]()
    for name, system in systems.items():
        price = prices.get(name)
        phases = model_step(costs, system)
        step_s, forward_s = (
            sum(each.time_s for phase, each in phases.items() if phase.endswith(end)) for end in ("", "_forward")
        )
        train_s, memory, trained = None, system.find("memory"), f"no time to train: {why}"
        if needed > memory:
            trained = f"but no run fits: it needs {num_bytes(needed)} of memory (modelled) of {num_bytes(memory)}"
        elif epochs is not None:
            num_steps = epochs * train_samples / batch_size
            eval_s = forward_s * eval_samples / batch_size
            train_s = num_steps * step_s + num_steps / schedule.steps_between_evals * eval_s
            trained = f"a run takes {duration(train_s)} (modelled)"
        cost = None if price is None or train_s is None else train_s / 3600 * price
        if cost is not None:
            trained += f" and costs {significant(cost)} (modelled)"
        timed_s = measured.run_s if measured is not None and name == THIS else known_s.get(name)
        ratio = None if timed_s is None else step_s / timed_s
        whole.append((name, step_s, batch_size / step_s, train_s, needed, memory, price, cost, timed_s, ratio))
        parts += [
            (name, label, *phases[phase]) for phase, label in workload.model_spec.phases.items() if phase in phases
        ]
        said = f"{throughput_text(batch_size / step_s)} (modelled), {trained}{_say_measured(name, step_s, timed_s)}"
        findings.append(f"{name} ({system.title}): {said}.")
    if is_ranked:
        findings = [*_rank(whole, known_s), *findings]
    kept = [place for place in range(len(_WHOLE)) if place < 6 or any(row[place] is not None for row in whole)]
    title = f"{benchmark.name} ({label_of(workload.runtime.implementation)}) on systems by their rates, modelled"
    shown = [[row[place] for place in kept] for row in whole]
    study = make_study(
        "system",
        title,
        benchmark,
        findings=(*findings, *_describe_noise(systems), *_REMARKS),
        tables=(
            make_table("What training would take", [_WHOLE[place] for place in kept], shown),
            make_table("Where a step's time would go", _PARTS, parts),
        ),
        parameters=_list_parameters(config, costs, (epochs, why), unique_rows, systems),
    )
    return study if environment is None else environment.put_on(study)


def _say_measured(name: str, step_s: float, timed_s: float | None) -> str:
    """Return a sentence on how long a measured step takes on a system, and how far the modelled time is off; '' if
    none was measured."""
    if timed_s is None:
        return ""
    off, apart = max(step_s / timed_s, timed_s / step_s), "fast" if step_s < timed_s else "slow"
    words = f"{off:.2f} times too {apart}" if off >= _OFF else "less than 0.5 % off"
    return f"; measured {'here' if name == THIS else 'there'}, a step takes {duration(timed_s)}: the model is {words}"


def _rank(rows: list[tuple[Cell, ...]], known_s: Mapping[str, float]) -> tuple[str, str]:
    """Sort a table's rows, one per system, in place and in ascending order; return a sentence on the order and a
    sentence on the error of modelled step times.

    Rows are sorted by one of three columns: cost to train, time to train, time of a step. It is the first of them
    that is known for all systems on which a run fits into memory. Systems on which a run does not fit come last,
    without a rank.
    """
    fitting = [row for row in rows if _fits(row)]
    by, place = next(
        (name, place)
        for name, place in (("cost to train", 7), ("time to train", 3), ("time of a step", 1))
        if all(row[place] is not None for row in fitting)
    )
    rows.sort(key=lambda row: (not _fits(row), _as_number(row[place]) if _fits(row) else 0.0))
    steps_s = {str(row[0]): _as_number(row[1]) for row in rows}
    order, unfit = [str(row[0]) for row in rows if _fits(row)], [str(row[0]) for row in rows if not _fits(row)]
    return describe_ranking(order, by, unfit), describe_error(steps_s, known_s)


def _fits(row: tuple[Cell, ...]) -> bool:
    return _as_number(row[4]) <= _as_number(row[5])


def _as_number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def _describe_noise(systems: Mapping[str, ModelledSystem]) -> Iterator[str]:
    """Yield a sentence for each system whose rates may be noisy. It states the machine's load while rates were
    measured, and how far apart the repetitions of a rate lay."""
    for name, system in systems.items():
        spreads = [number.spread for number in system.numbers if number.spread is not None]
        words = [] if name == THIS else [*system.warnings]
        if name != THIS and (found := load_words(system.loads)):
            words.append(f"Measured {found}.")
        if spreads:
            middle, most = percent(median(spreads)), percent(max(spreads))
            words.append(
                f"Repetitions of a rate lay apart by {middle} of the rate, at most by {most} (measured, middle half)."
            )
        if words:
            yield f"{name}: {' '.join(words)}"


def _list_parameters(
    config: RunConfig,
    costs: StepCosts,
    epochs: tuple[float | None, str],
    unique_rows: int,
    systems: Mapping[str, ModelledSystem],
) -> list[Parameter]:
    """Return the inputs of the modelled step, and every number of the systems, each with its source."""
    operators, expected = sum(costs.operators.values()), "expected of ids that follow their power law"
    batch_size = config.workload.train.global_batch_size
    how: list[tuple[Any, ...]] = [
        ("global batch size", batch_size, None, source_of(config, "train.global_batch_size"), None),
        ("precision", costs.precision, None, source_of(config, "runtime.precision"), "of products"),
        ("epochs to train", epochs[0], None, "definition", epochs[1]),
        ("unique rows per step", unique_rows, None, "definition", expected),
        ("operators per step", operators, None, "measured", "counted in a step on the CPU here"),
    ]
    for name, system in systems.items():
        source = "measured" if name == THIS else "file"
        for each in system.numbers:
            label = f"{name}: {each.of} at {each.size:g}"
            how.append((label, each.value, _UNITS.get(each.of, "FLOP/s"), source, each.source))
    return [Parameter(**dict(zip(Parameter.__struct_fields__, each, strict=True))) for each in how]
