"""The modelled training step of every generated benchmark beside the measured one, in one study.

python tests/performance/system_model.py OUTPUT [--threads N] [--rounds N] [--data FOLDER] [--cpu-time]

In each round this system's rates are measured anew, and then a step of each benchmark by each implementation, in a
fresh process with a worker's environment, so that what disturbs one disturbs the others. Rates and steps are medians
over the rounds, the least ratio and the greatest are of single rounds. Threads are bound to so many CPUs. The study
says whether the model holds: for the fastest implementation of each benchmark ratios between .4 and 1.3, of geometric
mean .6 to 1.1, and the order of steps that differ by 1.3 times or more. On a busy machine, --cpu-time with one thread
counts processor time, of rates and of steps: waiting for it is left out; what others do to caches and memory is not.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

from jobs import run_as_a_worker
from msgspec.structs import replace as change

from harness.config.run_config import Override, RunConfig, resolve
from harness.extensions.system_model.model import count_costs, expect_unique_rows, model_step
from harness.extensions.system_model.rates import measure_rates
from harness.foundation.files import write_record, write_text
from harness.foundation.study import make_check, make_study, make_table
from harness.measure.profile import measure_ceilings
from harness.planning.hardware.system import ModelledSystem, read_system, write_system
from harness.run_sets.dataset import ensure_dataset
from reference_models.data.registry import DATA_KINDS, find_data
from reference_models.process.world import SingleProcess
from reports.page.content import ReportContent
from reports.page.report import write_page
from rules.benchmarks.loader import load_benchmark, shipped_names
from rules.records.study import STUDY_FILE, Parameter

IMPLEMENTATIONS = ("reference", "optimized")
LEAST, MOST, LEAST_MEAN, MOST_MEAN, APART = 0.4, 1.3, 0.6, 1.1, 1.3
WARM_UP_STEPS, BUDGET_S = 10, 3.0


def configure(name: str, implementation: str) -> RunConfig:
    return resolve(name, [Override(key="runtime.implementation", value=implementation, source="here")])


def generated_benchmarks() -> list[str]:
    """List the shipped benchmarks that can be run without anybody's data."""
    kinds = {name: load_benchmark(name).sections["data"]["kind"] for name in shipped_names()}
    return [name for name, kind in kinds.items() if kind in DATA_KINDS and find_data(kind).generate]


def time_step(config: RunConfig, data_root: Path, num_threads: int, now_s: Callable[[], float]) -> float:
    """Return the median seconds of a training step over stretches of a twentieth of a second."""
    workload = replace(config.workload, runtime=replace(config.workload.runtime, threads=num_threads))
    folder = ensure_dataset(workload.data, data_root, num_threads=num_threads, benchmark=config.benchmark.name)
    loop = workload.implementation.load(workload.spec(folder, 0), SingleProcess())
    loop.build()
    loop.train(WARM_UP_STEPS)
    took_s, num_steps, until_s = list[float](), 1, time.monotonic() + BUDGET_S
    while time.monotonic() < until_s or len(took_s) < 10:
        started_s = now_s()
        done = loop.train(num_steps).num_steps
        took_s.append((now_s() - started_s) / done)
        num_steps = max(1, round(0.05 / took_s[-1]))
    return statistics.median(took_s)


def measure_round(
    options: argparse.Namespace, names: list[str]
) -> tuple[ModelledSystem, dict[tuple[str, str], float]]:
    """Measure the rates, then every step, each in a process of its own."""

    def ask(*words: str) -> str:
        command = [sys.executable, __file__, str(options.output), "--data", str(options.data), *words]
        command += ["--cpu-time", "--threads", "1"] * options.cpu_time
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    file = options.output / "round.toml"
    write_text(file, ask("--rates"))
    steps = {(name, each): float(ask("--step", name, each)) for name in names for each in IMPLEMENTATIONS}
    return read_system(file), steps


def merge(systems: list[ModelledSystem]) -> ModelledSystem:
    """Take the median over rounds of each number."""
    alike = zip(*(system.numbers for system in systems), strict=True)
    numbers = tuple(change(each[0], value=statistics.median(number.value for number in each)) for each in alike)
    return change(systems[0], numbers=numbers)


def model(name: str, implementation: str, system: ModelledSystem) -> float:
    workload = configure(name, implementation).workload
    num_embeddings = workload.data.num_embeddings
    assert num_embeddings is not None
    costs = count_costs(workload, num_embeddings, expect_unique_rows(workload, num_embeddings))
    return sum(phase.time_s for phase in model_step(costs, system).values())


def count_in_order(steps: list[tuple[float, float]]) -> tuple[int, int]:
    """Count the pairs of (modelled, measured) steps that are in the measured order, and all that differ so far."""
    pairs = [(a, b) for a, b in combinations(steps, 2) if max(a[1], b[1]) >= APART * min(a[1], b[1])]
    return sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs), len(pairs)


def main(options: argparse.Namespace) -> None:
    names = generated_benchmarks()
    options.output.mkdir(parents=True, exist_ok=True)
    rounds = []
    for number in range(options.rounds):
        rounds.append(measure_round(options, names))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    system = merge([found for found, _ in rounds])
    write_text(options.output / "system.toml", write_system(system))
    rows, times = [], dict[tuple[str, str], tuple[float, float]]()
    for name in names:
        for each in IMPLEMENTATIONS:
            modelled_s, measured = model(name, each, system), [steps[name, each] for _, steps in rounds]
            single = [model(name, each, found) / steps[name, each] for found, steps in rounds]
            times[name, each] = modelled_s, statistics.median(measured)
            rows.append((name, each, *times[name, each], modelled_s / times[name, each][1], min(single), max(single)))
    steps = [min((times[name, each] for each in IMPLEMENTATIONS), key=lambda pair: pair[1]) for name in names]
    fastest = [modelled_s / measured_s for modelled_s, measured_s in steps]
    (kept, pairs), (all_kept, all_pairs) = count_in_order(steps), count_in_order([*times.values()])
    mean = statistics.geometric_mean(fastest)
    inside = sum(LEAST <= ratio <= MOST for ratio in fastest)
    study = make_study(
        "system", f"Training steps modelled and measured: {system.title}", None,
        findings=(
            f"Of {pairs} pairs of the fastest implementations' steps that differ by {APART} times or more, "
            f"{kept} are in the measured order; of {all_pairs} pairs of all steps {all_kept}.",
            f"Modelled over measured, fastest implementation of each: geometric mean {mean:.2f}, from "
            f"{min(fastest):.2f} to {max(fastest):.2f}. Wanted: a mean of {LEAST_MEAN} to {MOST_MEAN}, and each "
            f"from {LEAST} to {MOST}.",
        ),
        tables=(
            make_table(
                "A training step, modelled and measured",
                (
                    ("Benchmark", None, "given"), ("Implementation", None, "given"), ("Modelled", "s", "modelled"),
                    ("Measured", "s", "measured"), ("Modelled over measured", None, "computed"),
                    ("Least of a round", None, "computed"), ("Greatest of a round", None, "computed"),
                ),
                rows,
            ),
        ),
        parameters=(
            Parameter(name="threads", value=options.threads, unit=None, source="given", note="bound to so many CPUs"),
            Parameter(name="clock", value="processor time" if options.cpu_time else "monotonic", unit=None,
                      source="given", note="of rates and of steps"),
            Parameter(name="rounds", value=options.rounds, unit=None, source="given", note="medians over them"),
            *(
                Parameter(name=f"{each.of} at {each.size:g}", value=each.value, unit=None, source="measured",
                          note=each.source)
                for each in system.numbers
            ),
        ),
        checks=(
            make_check("mean ratio is between .6 and 1.1", expected=1, found=int(LEAST_MEAN <= mean <= MOST_MEAN)),
            make_check("benchmarks with a ratio between .4 and 1.3", expected=len(names), found=inside),
            make_check("pairs in order, of the fastest implementations", expected=pairs, found=kept),
        ),
    )  # fmt: skip
    write_record(options.output / STUDY_FILE, study)
    print(write_page(ReportContent(studies=(study,)), options.output))
    print("\n".join(study.findings))


if __name__ == "__main__":
    run_as_a_worker()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--cpu-time", action="store_true", help="time by the processor time of one thread")
    parser.add_argument("--rates", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cpu_time and given.threads != 1:
        parser.error("--cpu-time is of --threads 1.")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-given.threads :])
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(len(os.sched_getaffinity(0)))
    if given.cpu_time:
        measure_ceilings.time = SimpleNamespace(monotonic=time.process_time, monotonic_ns=time.process_time_ns)  # type: ignore[attr-defined]
    if given.rates:
        print(write_system(measure_rates(lambda doing: None)), end="")
    elif given.step:
        clock = time.process_time if given.cpu_time else time.monotonic
        print(time_step(configure(*given.step), given.data, len(os.sched_getaffinity(0)), clock))
    else:
        main(given)
