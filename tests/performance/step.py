"""One training step, ours beside stock PyTorch, torchrec and FBGEMM, and beside the limit of its matrix products.

python tests/performance/step.py A|B [--optimizer NAME] [--threads N] [--rounds N]
python tests/performance/step.py table [--threads N...]

Each is alone in a process of its own, since models that share one disturb each other by up to two times. The
processes take turns on the same batches, one at a time, while the others sleep, and each makes a step before its
clock starts: what lay idle during the others' turns may have been reclaimed, or have left the caches. A ratio is
the median of the rounds' ratios. Rounds go on until every ratio's median is known within 10 % (its 95 % interval by
ranks), for at most --rounds; a ratio that is not by then is printed as undecided. The limit is the time of the
step's products alone, each by the library and in the layout that is fastest here; which libraries those are is
printed with their shares. torchrec and `tbe` (FBGEMM's kernel below a compiled dense part) take part where they are
installed, and `bf16`, ours with operands in bf16, where the CPU has products of it; what is left out is named. Each
trains once more in a process of its own for its peak memory. On a busy machine, --cpu-time with one thread counts
processor time: waiting for it is left out. --phases says what of ours is beyond its products.

`table` prints the rows of reference_models/dlrm/README.md, section 8, for this CPU: A and B on each number of
threads, medians of ratios with their intervals and the least and the greatest round, and ratios of the least times.
Ten minutes on two quiet cores, thirty where times wander. Its several threads wait spinning, as is GNU OpenMP's
default and stock PyTorch's, and as runs of ours do on a quiet machine; a single step has a worker's short spinning.
GOMP_SPINCOUNT in the environment goes before both.

A step whose loss grows is refused: subnormal numbers, which then occur, make single steps up to ten times slower.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Self

import torch
from jobs import Job, make_batches, make_job, products_by_phase, run_as_a_worker, step_products
from machine import cpu_info
from matmul_limit import Limit, best_shape_flops, count_processor_time, now_s, timed_s
from peers import PEERS, ChosenStep
from ratios import Ratios, Times, measure_until_decided

from reference_models.training.phases import ignore_phase

WARM_UP_STEPS, MEMORY_STEPS, LEAST_ROUNDS = 3, 4, 7
STEPS_PER_ROUND = {"A": 5, "B": 1}
LIMIT = "limit"
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
    parser.add_argument("--rounds", type=int, default=41, help="the most rounds that are measured")
    parser.add_argument("--cpu-time", action="store_true", help="time by each process's processor time")
    parser.add_argument("--layouts", action="store_true", help="print the best layout of each product")
    parser.add_argument("--phases", action="store_true", help="print what each phase takes beyond its products")
    parser.add_argument("--memory-of", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--alone", choices=[*PEERS, LIMIT], help=argparse.SUPPRESS)
    options = parser.parse_args()
    everything = len(os.sched_getaffinity(0))
    options.threads = options.threads or (sorted({1, everything}) if options.job == "table" else [everything])
    if options.job != "table" and len(options.threads) > 1:
        parser.error("--threads takes one number for a step, several for the table.")
    if options.cpu_time and options.threads != [1]:
        parser.error("--cpu-time needs --threads 1: more threads' processor time is no step's time.")
    return options


class Alone:
    """A process in which one peer, or the limit, is alone; it sleeps but for its rounds.

    `about` is what it said of itself when it was ready: its first losses, and how its products are computed.
    """

    def __init__(self, name: str, job: str, num_threads: int, options: argparse.Namespace, errors: IO[str]) -> None:
        command = [sys.executable, __file__, job, "--alone", name, "--threads", str(num_threads)]
        command += ["--optimizer", options.optimizer, *(["--cpu-time"] if options.cpu_time else [])]
        command += ["--layouts"] if options.layouts else []
        spinning = {"GOMP_SPINCOUNT": SPIN} if options.job == "table" and num_threads > 1 else {}
        self._errors = errors
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**spinning, **os.environ},
        )
        found = self._read()
        self.about: dict[str, Any] = found or {}
        self.why_left_out = "" if found else self._why_it_ended()

    def _read(self) -> dict[str, Any] | None:
        """Return what the process says next, past what its libraries print; None where it has ended."""
        assert self._process.stdout is not None
        line = next((line for line in self._process.stdout if line.startswith("{")), "")
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found

    def _why_it_ended(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or [f"exit code {self._process.returncode}"])[-1][:160]

    def measure(self) -> dict[str, float]:
        """Return the seconds of a step in one more round, and what else the round found."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, float] | None = self._read()
        if found is None:
            raise SystemExit(f"a process ended in its turn: {self._why_it_ended()}")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def work_alone(name: str, job_name: str, options: argparse.Namespace) -> None:
    """Make one peer ready, say so on standard output, and measure a round for every line of standard input."""
    job, num_steps = make_job(job_name, options.optimizer), STEPS_PER_ROUND[job_name]
    if name == LIMIT:
        limit = Limit(step_products(job))
        about: dict[str, Any] = {"flop": limit.flop, "libraries": limit.by_library()}
        print(json.dumps(about | {"layouts": limit.describe() if options.layouts else []}), flush=True)
        for _ in sys.stdin:
            shape_s = limit.flop / best_shape_flops()
            print(json.dumps({LIMIT: limit.measure_s(), "best shape": shape_s}), flush=True)
        return
    batches = make_batches(job, num_steps)
    step = PEERS[name](job, batches)
    losses = [float(step(i % num_steps)) for i in range(WARM_UP_STEPS)]
    products = step.describe() if isinstance(step, ChosenStep) else ""
    print(json.dumps({"losses": losses, "products": products}), flush=True)
    for _ in sys.stdin:
        if not (loss := float(step(0))) < 2 * losses[0]:
            raise SystemExit(f"{name}: the loss has grown from {losses[0]:.3f} to {loss:.3f}: lower LEARNING_RATE")
        took_s = statistics.median(timed_s(lambda i=i: step(i)) for i in range(num_steps))
        print(json.dumps({name: took_s}), flush=True)


def measure_job(job: str, num_threads: int, options: argparse.Namespace) -> tuple[Times, dict[str, dict[str, Any]]]:
    """Start a process for each, then measure round by round; what cannot be started is named, and left out.

    Returned are the times, and what each says of itself. Every other round goes the other way round.
    """
    about: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        alone = {}
        for name in (*PEERS, LIMIT):
            errors = stack.enter_context(TemporaryFile("w+"))
            process = stack.enter_context(Alone(name, job, num_threads, options, errors))
            if not process.why_left_out:
                alone[name], about[name] = process, process.about
            elif name in ("ours", LIMIT):
                raise SystemExit(f"{name}: {process.why_left_out}")
            else:
                print(f"{name} is left out: {process.why_left_out}", file=sys.stderr)

        def measure_round(number: int) -> dict[str, float]:
            order = [*alone][:: 1 if number % 2 == 0 else -1]
            return {what: took_s for name in order for what, took_s in alone[name].measure().items()}

        others = [name for name in alone if name != "ours"]
        times = measure_until_decided(
            measure_round, "ours", others, min(LEAST_ROUNDS, options.rounds), options.rounds
        )
    return times, about


def print_table(options: argparse.Namespace) -> None:
    """Print two rows per job and number of threads: medians of ratios, and ratios of the least times."""
    names = [name for _, name in TABLE]
    print("| CPU | step | threads | " + " | ".join(names) + " | bf16 to fp32 | of the limit |")
    print("|" + "---|" * (len(names) + 5))
    for job in STEPS_PER_ROUND:
        for num_threads in options.threads:
            times, _ = measure_job(job, num_threads, options)
            print_row(job, num_threads, times)
            print_row(f"{job} (least times)", num_threads, {name: [min(each)] for name, each in times.items()})


def print_row(job_name: str, num_threads: int, times: Mapping[str, Sequence[float]]) -> None:
    """Print a row of the table: other / ours, ours in fp32 / in bf16, limit / ours."""
    ours = times["ours"]
    cells = [Ratios.of(times[name], ours).text() if name in times else "" for name, _ in TABLE]
    cells.append(Ratios.of(ours, times["bf16"]).text() if "bf16" in times else "")
    cells.append(Ratios.of(times[LIMIT], ours).percent())
    cpu = f"{cpu_info('model name')}, family {cpu_info('cpu family')}, model {cpu_info('model')}"
    print(f"| {cpu} | {job_name} | {num_threads} | " + " | ".join(cells) + " |", flush=True)


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


def print_job(options: argparse.Namespace, num_threads: int) -> None:
    """Measure one job, and print every time, every ratio to ours, and the memory of each."""
    job, num_steps = make_job(options.job, options.optimizer), STEPS_PER_ROUND[options.job]
    batch_size = job.train.global_batch_size
    times, about = measure_job(options.job, num_threads, options)
    print(
        f"{job.title}, batch {batch_size}, {options.optimizer}, fp32, {num_threads} threads, "
        f"torch {torch.__version__}"
    )
    clock = "measured by processor time" if options.cpu_time else "measured"
    peers = [name for name in PEERS if name in times]
    print(
        f"{clock}; medians of {len(times['ours'])} rounds of {num_steps} steps, alternately, each in its process; "
        "first losses: " + ", ".join(f"{name} {about[name]['losses'][0]:.5f}" for name in peers)
    )
    limit_s, flop = statistics.median(times[LIMIT]), about[LIMIT]["flop"]
    for name, values in times.items():
        took_s = statistics.median(values)
        print(
            f"  {name:10s} {took_s * 1e3:8.2f} ms (best {min(values) * 1e3:.2f}) {batch_size / took_s:9,.0f} "
            f"samples/s {flop / took_s / 1e9:4.0f} GFLOP/s of products {limit_s / took_s:6.1%} of the limit"
        )
    libraries = sorted(about[LIMIT]["libraries"].items(), key=lambda entry: -entry[1][1])
    parts = ", ".join(f"{share:.0%} in {library} ({number} products)" for library, (number, share) in libraries)
    print(f"  the limit's time: {parts}")
    for name in peers:
        if products := about[name]["products"]:
            print(f"  the products of {name}: {products}")
    if "bf16" in times:
        print(f"  ours in bf16 is {Ratios.of(times['ours'], times['bf16']).text()} times as fast as in fp32")
    for name in (name for name in peers if name not in ("ours", "bf16")):
        print(f"  ours is {Ratios.of(times[name], times['ours']).text()} times as fast as {name}")
    per_round = Ratios.of(times[LIMIT], times["ours"]).rounds
    print("  limit / ours by round: " + " ".join(f"{ratio:.3f}" for ratio in per_round))
    if options.layouts:
        print("\n".join(about[LIMIT]["layouts"]))
    if options.phases:
        print_own_phases(job, num_steps, options.rounds)
    for name in peers:
        command = [sys.executable, __file__, options.job, "--optimizer", options.optimizer, "--memory-of", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"  {name:10s} peak memory {int(done.stdout):,} MiB beyond torch and the batches")


def print_own_phases(job: Job, num_steps: int, num_rounds: int) -> None:
    """Time the phases of ours and their products in this process, where nothing else is measured."""
    ours = PEERS["ours"](job, make_batches(job, num_steps))
    for i in range(WARM_UP_STEPS):
        ours(i % num_steps)
    if isinstance(ours, ChosenStep):
        print_phases(ours, Limit(step_products(job)).by_phase(products_by_phase(job)), num_steps, num_rounds)


def main() -> None:
    options = parse()
    if options.job == "table":
        print_table(options)
        return
    run_as_a_worker()
    (num_threads,) = options.threads
    torch.set_num_threads(num_threads)
    if options.cpu_time:
        count_processor_time()
    if options.memory_of:
        print_memory(options)
    elif options.alone:
        work_alone(options.alone, options.job, options)
    else:
        print_job(options, num_threads)


if __name__ == "__main__":
    main()
