"""One training step, ours beside stock PyTorch, torchrec and FBGEMM, and beside the limit of its matrix products.

python tests/performance/step.py A|B [--optimizer NAME] [--threads N] [--rounds N]

All take turns in one process on the same batches; medians over rounds, and ratios of them. The limit is the time of
the step's products alone, each by the library and in the layout that is fastest here; which libraries those are is
printed with their shares. torchrec and `tbe` (FBGEMM's kernel below a compiled dense part) take part where they are
installed, and `bf16`, ours with operands in bf16, where the CPU has products of it; what is left out is named. Each
trains once more in a process of its own for its peak memory. On a busy machine, --cpu-time with one thread counts
processor time: waiting for it is left out.
"""

import argparse
import importlib
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from jobs import make_batches, make_job, run_as_a_worker, step_products
from matmul_limit import Limit, best_shape_flops, count_processor_time, timed_s
from peers import PEERS, ChosenStep, Step

WARM_UP_STEPS, MEMORY_STEPS = 3, 4
STEPS_PER_ROUND = {"A": 5, "B": 2}
IMPORTED = {"torchrec": ("torchrec",), "tbe": ("fbgemm_gpu", "torch._dynamo", "torch._inductor")}
"""What a peer's memory is measured beyond."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["A", "B"])
    parser.add_argument("--optimizer", default="rowwise_adagrad", choices=["adagrad", "rowwise_adagrad", "sgd"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="time by this process's processor time")
    parser.add_argument("--layouts", action="store_true", help="print the best layout of each product")
    parser.add_argument("--memory-of", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cpu_time and options.threads != 1:
        parser.error("--cpu-time needs --threads 1: more threads' processor time is no step's time.")
    return options


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
    run_as_a_worker()
    torch.set_num_threads(options.threads)
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
            print(f"{name} is left out: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
        else:
            steps[name] = step
    names = list(steps)
    limit = Limit(step_products(job))
    times: dict[str, list[float]] = {name: [] for name in [*names, "limit", "best shape"]}
    for _ in range(options.rounds):
        for name, step in steps.items():
            times[name].append(statistics.median(timed_s(lambda step=step, i=i: step(i)) for i in range(num_steps)))
        times["limit"].append(limit.measure_s())
        times["best shape"].append(limit.flop / best_shape_flops())
    print(
        f"{job.title}, batch {batch_size}, {options.optimizer}, fp32, {options.threads} threads, "
        f"torch {torch.__version__}"
    )
    clock = "measured by processor time" if options.cpu_time else "measured"
    print(f"{clock}; medians of {options.rounds} rounds of {num_steps} steps, in turns; first losses: "
          + ", ".join(f"{name} {values[0]:.5f}" for name, values in losses.items()))  # fmt: skip
    ours_s, limit_s = statistics.median(times["ours"]), statistics.median(times["limit"])
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
        print(f"  ours in bf16 is {ours_s / statistics.median(times['bf16']):.2f} times as fast as in fp32")
    for name in (name for name in names[1:] if name != "bf16"):
        print(f"  ours is {statistics.median(times[name]) / ours_s:.2f} times as fast as {name}")
    per_round = [limit_s / ours_s for limit_s, ours_s in zip(times["limit"], times["ours"], strict=True)]
    print("  limit / ours by round: " + " ".join(f"{ratio:.3f}" for ratio in per_round))
    if options.layouts:
        print("\n".join(limit.describe()))
    for name in names:
        command = [sys.executable, __file__, options.job, "--optimizer", options.optimizer, "--memory-of", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"  {name:10s} peak memory {int(done.stdout):,} MiB beyond torch and the batches")


if __name__ == "__main__":
    main()
