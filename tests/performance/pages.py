"""Measure the time and the size of a page of many sets; beside another dlrmbench where one is given.

    python tests/performance/pages.py [TREE...] [--base PYTHON] [--turns N]

TREE is `rounds` (32 sets of two rounds, 320 logs) or SETSxRUNS of one's own (`100x10`); by default rounds, 100x10 and
1000x5. tests/builders write them into a temporary folder, and `dlrmbench report --no-second-opinion` makes their page
in a process of its own. Printed are seconds of processor time beyond importing what the command imports, the least of
the turns (a busy machine only adds), and the page's size; with --base, the interpreter of an environment with another
dlrmbench, also its figures, measured alternately, and the ratio. Then the phases of this checkout's page, in this
process, likewise: the first two are floors, what it takes to read the logs' bytes and to decode each line's JSON by
msgspec, and to do nothing with it.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))

import msgspec
from log_builder import START_MS, make_runs
from report_builder import write_run_set
from round_builder import write_rounds

from reports.comparison.comparison import context_of
from reports.page.content import ReportContent
from reports.page.page import comparable_groups
from reports.page.report import render_report
from reports.page.sections.comparison import compare_group
from reports.results.logs import gather
from rules.benchmarks.loader import load_benchmark
from rules.judge.parallel import no_collections
from rules.judge.sets import judge_sets
from rules.logs.log import read_log
from rules.tree.inventory import take_inventory

TREES = ("rounds", "100x10", "1000x5")
# What a process runs, and what it imports when it has run; then the imports alone.
_REPORT = """import json, pathlib, sys
from harness.cli import main
try:
    main(sys.argv[2:])
finally:
    pathlib.Path(sys.argv[1]).write_text(json.dumps(list(sys.modules)))
"""
_IMPORTS = """import contextlib, importlib, json, pathlib, sys
for name in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
"""


class Made(NamedTuple):
    """A page: processor time beyond imports, that of the imports, in seconds, and its size."""

    cpu_s: float
    imports_s: float
    num_bytes: int


def write_tree(name: str, folder: Path) -> Path:
    """Write what the page shows."""
    if name == "rounds":
        return write_rounds(folder / name)
    num_sets, num_runs = (int(number) for number in name.split("x"))
    benchmark, start_ms = load_benchmark("dlrm_tiny"), START_MS
    for number in range(num_sets):
        runs = make_runs(benchmark, num_runs, throughput=15_000.0 * (1 + number / num_sets), start_ms=start_ms)
        for index, records in enumerate(runs):
            for record in records:
                if record["key"] == "seed":
                    record["value"] = 1 + number * num_runs + index
        write_run_set(folder / name / f"set-{number:04d}", runs=runs, interrupted=number % 50 == 0)
        start_ms = runs[-1][-1]["time_ms"] + 60_000
    return folder / name


def make_page(python: str, tree: Path, scratch: Path) -> Made:
    """Make the page by the dlrmbench of an interpreter's environment; this one's is that of this checkout."""
    is_ours = python == sys.executable
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if is_ours:
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    modules, page = scratch / "modules.json", scratch / "page.html"
    command = ["report", "--no-second-opinion", str(tree), "-o", str(page)]

    def cpu_s(script: str, *arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [python, "-c", script, str(modules), *arguments],
            cwd=scratch,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{' '.join(arguments)} ended with exit code {done.returncode}:\n{done.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    whole_s = cpu_s(_REPORT, *command)
    imports_s = cpu_s(_IMPORTS)
    return Made(whole_s - imports_s, imports_s, page.stat().st_size)


def measure_phases(tree: Path) -> Iterator[tuple[str, float]]:
    """Yield each phase of a page with its seconds of processor time."""

    def cpu_s(work: Callable[[], object]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    inventory = take_inventory(tree)
    logs = [log for found in inventory.result_sets for log in found.logs]
    yield "floor: the logs' bytes", (bytes_s := cpu_s(lambda: [path.read_bytes() for path in logs]))
    yield "floor: their JSON", cpu_s(lambda: decode_all(logs)) - bytes_s
    yield "find sets", cpu_s(lambda: take_inventory(tree))
    yield "read logs", (read_s := cpu_s(lambda: [len(read_log(path).lines) for path in logs]))
    judge_s = cpu_s(lambda: judge_sets(inventory.result_sets, second_opinion=False))
    yield "judge and score", judge_s - read_s
    yield "levels, records, facts", cpu_s(lambda: gather([inventory], second_opinion=False)) - judge_s
    sets = gather([inventory], second_opinion=False)
    groups = comparable_groups(sets)
    compare_s = cpu_s(lambda: [compare_group(group, group[0], context_of(group)) for group in groups])
    yield "compare with the first", compare_s
    yield "the rest of the page", cpu_s(lambda: render_report(ReportContent(results=sets))) - compare_s


def decode_all(logs: Sequence[Path]) -> None:
    for path in logs:
        for line in path.read_bytes().splitlines():
            _, mark, record = line.partition(b":::MLLOG ")
            if mark:
                msgspec.json.decode(record)


def print_phases(tree: Path, turns: int) -> None:
    least: dict[str, float] = {}
    with no_collections():
        for _ in range(turns):
            for name, spent_s in measure_phases(tree):
                least[name] = min(spent_s, least.get(name, spent_s))
    num_logs = sum(len(found.logs) for found in take_inventory(tree).result_sets)
    for name, spent_s in least.items():
        print(f"    {name:24} {spent_s:6.2f} s, {spent_s / num_logs * 1e3:5.2f} ms a log")


def tree_name(text: str) -> str:
    if text != "rounds" and not re.fullmatch(r"[1-9]\d*x[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected rounds, or SETSxRUNS such as 100x10")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=tree_name, metavar="TREE")
    parser.add_argument("--base", metavar="PYTHON", help="interpreter of an environment with another dlrmbench")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    pythons = {"ours": sys.executable} | ({"base": options.base} if options.base else {})
    with tempfile.TemporaryDirectory() as folder:
        for name in options.trees or TREES:
            tree = write_tree(name, Path(folder))
            made: dict[str, list[Made]] = {who: [] for who in pythons}
            for _ in range(options.turns):
                for who, python in pythons.items():
                    made[who].append(make_page(python, tree, Path(folder)))
            print(f"{name}: measured, processor time, least of {options.turns} turns")
            least = {who: min(pages) for who, pages in made.items()}
            for who, page in least.items():
                print(
                    f"  {who}: {page.cpu_s:.2f} s beyond {page.imports_s:.2f} s of imports, "
                    f"{page.num_bytes / 1e3:,.0f} KB"
                )
            if options.base:
                ours, base = least["ours"], least["base"]
                print(
                    f"  ours takes {ours.cpu_s / base.cpu_s:.2f} of the base's time, "
                    f"{ours.num_bytes / base.num_bytes:.2f} of its size"
                )
            print_phases(tree, options.turns)


if __name__ == "__main__":
    main()
