"""Measure the gain of the workers and threads that `serve` chooses over one worker of one thread, in closed loop.

    python tests/performance/serving_defaults.py [PAIRS [BENCHMARK ...]]

Every pair is two fresh processes, one of each, whose order changes from pair to pair. Prints the ratio of queries a
second of each pair, of each benchmark the geometric mean with its 95 % interval, and the geometric mean of all.
"""

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.autotune.tuning import autotune
from harness.config.run_config import Override
from harness.experiment.prepare import prepare_data
from harness.extensions.serving.bench import make_workers
from harness.extensions.serving.config import parse_serve
from harness.extensions.serving.job import KIND, ServeJob, resolve_served
from harness.extensions.serving.model import build_served
from harness.extensions.serving.timing import choose_calls, time_calls
from reports.statistics.distributions import student_quantile

LIMIT = Override(key="serve.target_latency_ms", value=1000.0, source="here")
BENCHMARKS = (
    "dlrm_tiny", "dlrm_small", "dlrm_dcnv2_small", "rm1_deeprecsys", "rm2_deeprecsys", "rm3_deeprecsys",
    "wukong_small", "dlrmv4_small", "d2nn_small",
)  # fmt: skip
SECONDS = 2.0


def closed_loop(benchmark: str, data_dir: str, workers: int, threads: int) -> float:
    """Queries a second of workers that take the next one as soon as they have answered one."""
    values = {"serve.threads": workers, "runtime.threads": threads}
    asked = [LIMIT, *(Override(key=key, value=value, source="here") for key, value in values.items())]
    config = resolve_served(benchmark, asked, None)
    with TemporaryDirectory() as folder:
        job = ServeJob(
            tables=dict(config.tables),
            definition_path=str(config.benchmark.path),
            data_dir=data_dir,
            seed=1,
            folder=folder,
        )
        parsed, workload = job.parse()
        serve = parse_serve(parsed.sections["serve"])
        served, _ = build_served(job, parsed, workload, serve, with_quality=False)
        crew = make_workers(serve)
        timed = time_calls(served.answer, choose_calls(served.sizes, crew), crew.count, SECONDS)
    return crew.count / statistics.fmean(size.mean_s for size in timed)


def ask(benchmark: str, data_dir: Path, way: tuple[int, int]) -> float:
    words = [sys.executable, __file__, "--one", benchmark, str(data_dir), *map(str, way)]
    return float(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))


def compare(benchmark: str, num_pairs: int) -> list[float]:
    config = resolve_served(benchmark, [LIMIT], None)
    prepared = autotune(config, prepare_data(KIND, config, None, quiet=True), known={}, quiet=True)
    chosen = (1, prepared.num_threads)
    if prepared.choice is not None and prepared.choice.service is not None:
        chosen = prepared.choice.service.chosen.setup[:2]
    ratios = []
    for number in range(num_pairs):
        sides = [chosen, (1, 1)]
        order = list(enumerate(sides))[:: -1 if number % 2 else 1]
        found = {side: ask(benchmark, prepared.data_dir, way) for side, way in order}
        ratios.append(found[0] / found[1])
    logs = [math.log(ratio) for ratio in ratios]
    mean, half = statistics.fmean(logs), 0.0
    if num_pairs > 1:
        half = float(student_quantile(num_pairs - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(num_pairs)
    words = f"{math.exp(mean):.3f} [{math.exp(mean - half):.3f}, {math.exp(mean + half):.3f}]"
    of_pairs = [round(ratio, 3) for ratio in ratios]
    print(f"{benchmark}: {chosen[0]} workers, {chosen[1]} threads: {words} of {of_pairs}", flush=True)
    return logs


def main(num_pairs: str = "5", *benchmarks: str) -> None:
    logs = [log for benchmark in benchmarks or BENCHMARKS for log in compare(benchmark, int(num_pairs))]
    print(f"geometric mean {math.exp(statistics.fmean(logs)):.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(closed_loop(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))), flush=True)
    else:
        main(*sys.argv[1:])
