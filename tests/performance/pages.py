"""How long a page of many sets takes, and how large it is; beside another dlrmbench where one is given.

    python tests/performance/pages.py [TREE...] [--base PYTHON] [--turns N]

TREE is `rounds` (32 sets of two rounds, 320 logs) or SETSxRUNS of one's own (`100x10`); by default rounds, 100x10 and
1000x5. tests/builders write them into a temporary folder, and `dlrmbench report --no-second-opinion` makes their page
in a process of its own. Printed are seconds of processor time beyond importing what the command imports, the least of
the turns (a busy machine only adds), and the page's size; with --base, the interpreter of an environment with another
dlrmbench, also its figures, measured in turns, and the ratio.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))

from log_builder import START_MS, make_runs
from report_builder import write_run_set
from round_builder import write_rounds

from rules.benchmarks.loader import load_benchmark

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
            cwd=scratch, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{' '.join(arguments)} ended with exit code {done.returncode}:\n{done.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    whole_s = cpu_s(_REPORT, *command)
    imports_s = cpu_s(_IMPORTS)
    return Made(whole_s - imports_s, imports_s, page.stat().st_size)


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
                print(f"  {who}: {page.cpu_s:.2f} s beyond {page.imports_s:.2f} s of imports, "
                      f"{page.num_bytes / 1e3:,.0f} KB")  # fmt: skip
            if options.base:
                ours, base = least["ours"], least["base"]
                print(f"  ours takes {ours.cpu_s / base.cpu_s:.2f} of the base's time, "
                      f"{ours.num_bytes / base.num_bytes:.2f} of its size")  # fmt: skip


if __name__ == "__main__":
    main()
