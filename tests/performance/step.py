"""One training step, ours beside stock PyTorch, torchrec and FBGEMM, and beside the limit of its matrix products.

python tests/performance/step.py A|B [--optimizer NAME] [--threads N] [--rounds N]
python tests/performance/step.py table [--threads N...]

All take turns in one process on the same batches; medians over rounds, and ratios of them. Each makes a step before
its clock starts: what lay idle during the others' turns may have been reclaimed, or have left the caches. If a ratio
spreads beyond 1.3 over the rounds, all are measured once more; one that still does is printed as undecided. The limit
is the time of the step's products alone, each by the library and in the layout that is fastest here; which libraries
those are is printed with their shares. torchrec and `tbe` (FBGEMM's kernel below a compiled dense part) take part
where they are installed, and `bf16`, ours with operands in bf16, where the CPU has products of it; what is left out
is named. Each trains once more in a process of its own for its peak memory. On a busy machine, --cpu-time with one
thread counts processor time: waiting for it is left out. --phases says what of ours is beyond its products.

`table` prints the rows of reference_models/dlrm/README.md, section 8, for this CPU: A and B on each number of threads
in a process of their own, ratios of medians with the least and the greatest round. Six minutes on two quiet cores.
Its several threads wait spinning, as is GNU OpenMP's default and stock PyTorch's, and as runs of ours do on a quiet
machine; a single step has a worker's short spinning. GOMP_SPINCOUNT in the environment goes before both.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from jobs import make_batches, make_job, products_by_phase, run_as_a_worker, step_products
from machine import cpu_info
from matmul_limit import Limit, best_shape_flops, count_processor_time, now_s, timed_s
from peers import PEERS, ChosenStep, Step
from ratios import Ratios, measure_again_in_doubt

from reference_models.training.phases import ignore_phase

WARM_UP_STEPS, MEMORY_STEPS = 3, 4
STEPS_PER_ROUND = {"A": 5, "B": 1}
SPIN = "300000"
"""GNU's default of GOMP_SPINCOUNT."""
TABLE = (("eager", "PyTorch"), ("torchrec", "torchrec"), ("tbe", "FBGEMM, compiled"))
IMPORTED = {"torchrec": ("torchrec",), "tbe": ("fbgemm_gpu", "torch._dynamo", "torch._inductor")}
"""What a peer's memory is measured beyond."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["A", "B", "table"])
    parser.add_argument("--optimizer", default="rowwise_adagrad", choices=["adagrad", "rowwise_adagrad", "sgd"])
    parser.add_argument("--threads", type=int, nargs="+", help="all cores, or for the table one and all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="time by this process's processor time")
    parser.add_argument("--layouts", action="store_true", help="print the best layout of each product")
    parser.add_argument("--phases", action="store_true", help="print what each phase takes beyond its products")
    parser.add_argument("--memory-of", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    everything = len(os.sched_getaffinity(0))
    options.threads = options.threads or (sorted({1, everything}) if options.job == "table" else [everything])
    if options.job != "table" and len(options.threads) > 1:
        parser.error("--threads takes one number for a step, several for the table.")
    if options.cpu_time and options.threads != [1]:
        parser.error("--cpu-time needs --threads 1: more threads' processor time is no step's time.")
    return options


def print_table(options: argparse.Namespace) -> None:
    """Print one row per job and number of threads, each measured by a process of its own."""
    names = [name for _, name in TABLE]
    print("| CPU | step | threads | " + " | ".join(names) + " | bf16 to fp32 | of the limit |")
    print("|" + "---|" * (len(names) + 5))
    for job in STEPS_PER_ROUND:
        for num_threads in options.threads:
            command = [sys.executable, __file__, job, "--row", "--threads", str(num_threads)]
            command += ["--optimizer", options.optimizer, "--rounds", str(options.rounds)]
            spinning = {"GOMP_SPINCOUNT": SPIN} if num_threads > 1 else {}
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env={**spinning, **os.environ}
            )
            print(done.stdout, end="", flush=True)


def print_row(job_name: str, num_threads: int, times: Mapping[str, Sequence[float]]) -> None:
    """Print a row of the table: other / ours, ours in fp32 / in bf16, limit / ours."""
    ours = times["ours"]
    cells = [Ratios.of(times[name], ours).text() if name in times else "" for name, _ in TABLE]
    cells.append(Ratios.of(ours, times["bf16"]).text() if "bf16" in times else "")
    cells.append(Ratios.of(times["limit"], ours).percent())
    cpu = f"{cpu_info('model name')}, family {cpu_info('cpu family')}, model {cpu_info('model')}"
    print(f"| {cpu} | {job_name} | {num_threads} | " + " | ".join(cells) + " |")


def measure_rounds(
    steps: Mapping[str, Step], limit: Limit, num_rounds: int, num_steps: int, *, has_shapes: bool
) -> dict[str, list[float]]:
    """Return the seconds of a step of each, round by round, all in turns, and of the products alone."""
    times: dict[str, list[float]] = {name: [] for name in [*steps, "limit", *(["best shape"] if has_shapes else [])]}
    for _ in range(num_rounds):
        for name, step in steps.items():
            step(0)
            times[name].append(statistics.median(timed_s(lambda step=step, i=i: step(i)) for i in range(num_steps)))
        times["limit"].append(limit.measure_s())
        if has_shapes:
            times["best shape"].append(limit.flop / best_shape_flops())
    return times


def print_phases(step: ChosenStep, products_s: Mapping[str, float], num_steps: int, num_rounds: int) -> None:
    """Print the median milliseconds of each phase of ours, of its products alone, and what is beyond these."""
    rounds: list[dict[str, float]] = []
    phases: list[tuple[str, float]] = []
    step.model.enter = lambda phase: phases.append((phase, now_s()))
    for i in range(num_steps * num_rounds):
        phases.clear()
        step(i % num_steps)
        phases.append(("", now_s()))
        took_s: dict[str, float] = {}
        for (phase, start_s), (_, stop_s) in pairwise(phases):
            took_s[phase] = took_s.get(phase, 0.0) + stop_s - start_s
        rounds.append(took_s)
    step.model.enter = ignore_phase
    print("\n| phase | ms | of which products | beyond | of the step |\n|---|---|---|---|---|")
    ms = {phase: 1e3 * statistics.median(took[phase] for took in rounds) for phase in rounds[0]}
    for phase, took in ms.items():
        alone = 1e3 * products_s.get(phase, 0.0)
        share = took / sum(ms.values())
        print(f"| {phase.replace('_', ' ')} | {took:.2f} | {alone:.2f} | {took - alone:.2f} | {share:.1%} |")


def print_memory(options: argparse.Namespace) -> None:
    """Peak resident memory of a few steps, less what the process held before the model was built, in MiB (Linux)."""
    job = make_job(options.job, options.optimizer)
    batches = make_batches(job, MEMORY_STEPS)
    for module in IMPORTED.get(options.memory_of, ()):
        importlib.import_module(module)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making batches
    before = status_kib("VmRSS")
    step = PEERS[options.memory_of](job, batches)
    for i in range(MEMORY_STEPS):
        step(i)
    print(f"{(status_kib('VmHWM') - before) / 1024:.0f}")


def status_kib(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def main() -> None:
    options = parse()
    if options.job == "table":
        print_table(options)
        return
    run_as_a_worker()
    (num_threads,) = options.threads
    torch.set_num_threads(num_threads)
    if options.memory_of:
        print_memory(options)
        return
    if options.cpu_time:
        count_processor_time()
    job = make_job(options.job, options.optimizer)
    batch_size, num_steps = job.train.global_batch_size, STEPS_PER_ROUND[options.job]
    batches = make_batches(job, num_steps)
    steps: dict[str, Step] = {}
    losses: dict[str, list[float]] = {}
    for name, make in PEERS.items():
        try:
            step = make(job, batches)
            losses[name] = [float(step(i % num_steps)) for i in range(WARM_UP_STEPS)]
        except (ImportError, OSError, RuntimeError) as error:
            if name == "ours":
                raise
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
            print(f"{name} is left out: {why}", file=sys.stderr)
        else:
            steps[name] = step
    names = list(steps)
    limit = Limit(step_products(job))
    times = measure_again_in_doubt(
        lambda: measure_rounds(steps, limit, options.rounds, num_steps, has_shapes=not options.row),
        "ours",
        [*names[1:], "limit"],
    )
    if options.row:
        print_row(options.job, num_threads, times)
        return
    print(
        f"{job.title}, batch {batch_size}, {options.optimizer}, fp32, {num_threads} threads, "
        f"torch {torch.__version__}"
    )
    clock = "measured by processor time" if options.cpu_time else "measured"
    print(
        f"{clock}; medians of {options.rounds} rounds of {num_steps} steps, in turns; first losses: "
        + ", ".join(f"{name} {values[0]:.5f}" for name, values in losses.items())
    )
    limit_s = statistics.median(times["limit"])
    for name, values in times.items():
        took_s = statistics.median(values)
        print(
            f"  {name:10s} {took_s * 1e3:8.2f} ms (best {min(values) * 1e3:.2f}) {batch_size / took_s:9,.0f} "
            f"samples/s {limit.flop / took_s / 1e9:4.0f} GFLOP/s of products {limit_s / took_s:6.1%} of the limit"
        )
    libraries = sorted(limit.by_library().items(), key=lambda entry: -entry[1][1])
    parts = ", ".join(f"{share:.0%} in {library} ({number} products)" for library, (number, share) in libraries)
    print(f"  the limit's time: {parts}")
    for name, step in steps.items():
        if isinstance(step, ChosenStep):
            print(f"  the products of {name}: {step.describe()}")
    if "bf16" in steps:
        print(f"  ours in bf16 is {Ratios.of(times['ours'], times['bf16']).text()} times as fast as in fp32")
    for name in (name for name in names[1:] if name != "bf16"):
        print(f"  ours is {Ratios.of(times[name], times['ours']).text()} times as fast as {name}")
    per_round = Ratios.of(times["limit"], times["ours"]).rounds
    print("  limit / ours by round: " + " ".join(f"{ratio:.3f}" for ratio in per_round))
    ours = steps["ours"]
    if options.phases and isinstance(ours, ChosenStep):
        print_phases(ours, limit.by_phase(products_by_phase(job)), num_steps, options.rounds)
    if options.layouts:
        print("\n".join(limit.describe()))
    for name in names:
        command = [sys.executable, __file__, options.job, "--optimizer", options.optimizer, "--memory-of", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"  {name:10s} peak memory {int(done.stdout):,} MiB beyond torch and the batches")


if __name__ == "__main__":
    main()
