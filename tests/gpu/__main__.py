"""Prove or disprove what is claimed of GPUs: `make gpu`, or step by step.

    python tests/gpu [STEP...] [--out FILE] [--within SECONDS]
    python tests/gpu --table FILE... [--readme]

Steps run in their order, each in a process of its own and within its own limit; the JSON is written after each, and a
further call adds its steps to the file that is there. It needs torch, and no network: packages that are missing are
taken from .whl/, which `make gpu-wheels` fills. Without a GPU every step is rehearsed as far as it can be: the table
then says what would have been asked, and proves nothing. Exit code: how many claims were disproved and steps failed;
one that the end of the time cut is not finished, which is no failure. `make gpu` itself ends with 2 for any but 0.
What a GPU has proved is kept as tests/gpu/measured.json and makes tests/gpu/README.md; a test holds both together.
"""

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from findings import Findings
from packages import missing_packages, prepare_site
from runner import (
    StepResult,
    count_failures,
    end_with_parent,
    python_command,
    python_environment,
    read_results,
    run_all,
    run_process,
    write_json,
    write_results,
)
from setting import Setting
from steps import BY_NAME, STEPS, WITHIN_S, chosen
from table import readme_section, terminal_table

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "gpu" / "gpu.json"
SITE = ROOT / "build" / "gpu" / "site"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tests/gpu",
        description=__doc__,
        epilog="\n".join(["steps:", *(f"  {step.name:12s}{step.title}" for step in STEPS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help="these alone, and all of their figures")
    parser.add_argument("--out", type=Path, default=OUT, help="the JSON (default: build/gpu/gpu.json)")
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="SECONDS", help="all together (540)")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="join files and print their table")
    parser.add_argument(
        "--readme", action="store_true", help="with --table: the lines of tests/gpu/README.md instead"
    )
    parser.add_argument("--step", choices=list(BY_NAME), help=argparse.SUPPRESS)
    parser.add_argument("--findings", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.steps if name not in BY_NAME]:
        parser.error(f"no step {unknown[0]!r}: choose from {', '.join(BY_NAME)}.")
    return options


def show_table(options: argparse.Namespace) -> int:
    """Join the files' steps, the later file's first, print the table, and write it all where --out was given."""
    results = {}
    for path in options.table:
        try:
            results |= read_results(path)
        except (OSError, ValueError) as error:
            print(f"Error: {error}", file=sys.stderr)
            return 2
    print(readme_section(results) if options.readme else terminal_table(results))
    if options.out != OUT:
        write_results(options.out, results)
    return 0


def run_one(name: str, findings: Path) -> int:
    """Run a step in this process."""
    end_with_parent()
    for variable, value in BY_NAME[name].variables:
        os.environ.setdefault(variable, value)
    setting = Setting.of_this_system(findings.parent)
    step = importlib.import_module(f"steps.{name}")
    step.run(setting, Findings(findings, is_rehearsal=not setting.is_gpu))
    return 0


def describe_system(environ: dict[str, str], *, limit_s: float) -> dict[str, str]:
    """Ask a process of its own which GPU and torch there are; what it cannot say is in "problem"."""
    end = run_process(
        [sys.executable, str(ROOT / "tests" / "gpu" / "system.py")], environ=environ, cwd=ROOT, limit_s=limit_s
    )
    try:
        described = json.loads(end.output.decode().splitlines()[-1])
    except (ValueError, IndexError):
        return {"problem": f"torch could not be asked (exit code {end.exit_code})"}
    return described if isinstance(described, dict) else {"problem": "torch could not be asked"}


def report(result: StepResult, *, has_figures: bool = False) -> None:
    print(
        f"{result.step}: {result.ended}, {result.duration_s:.0f} s{': ' + result.why if result.why else ''}",
        file=sys.stderr,
        flush=True,
    )
    for name, value in result.figures.items() if has_figures else ():
        text = f"{value:.6g}" if isinstance(value, float) else "not known" if value is None else value
        print(f"  {name}: {text}", file=sys.stderr, flush=True)
    if result.ended not in ("done", "left out"):
        print("\n".join(f"  | {line}" for line in result.last_words.splitlines()), file=sys.stderr, flush=True)


def constants_found(step: Mapping[str, Any], path: Path) -> str:
    """Write the constants that `tune` found beside the result; returns them as lines of the product's file."""
    found = {
        name.removeprefix("constant "): value
        for name, value in step["figures"].items()
        if name.startswith("constant ") and name[9:].isidentifier() and isinstance(value, int)
    }
    is_real = bool(step["system"].get("gpu"))
    write_json(path, {"constants": found, "system": step["system"], "is_rehearsal": not is_real})
    about = "found by tune" if is_real else "of a rehearsal, whose times mean nothing; nothing to paste"
    lines = [f"\n# reference_models/fused/kernel_sizes.py, {about} ({path})"]
    return "\n".join(lines + [f"{'' if is_real else '# '}{name} = {value}" for name, value in found.items()])


def main() -> int:
    started_s, options = time.monotonic(), parse()
    if options.table:
        return show_table(options)
    if options.step:
        return run_one(options.step, options.findings)
    problem = prepare_site(ROOT, SITE)
    environ = python_environment(ROOT, SITE, os.environ)
    if problem or (missing := missing_packages(ROOT, SITE)):
        print(f"Error: {problem or 'missing here: ' + ', '.join(missing)}", file=sys.stderr)
        print("Fill .whl/ on a system with network: make gpu-wheels (CONTRIBUTING.md).", file=sys.stderr)
        return 2
    system = describe_system(environ, limit_s=min(120.0, options.within))
    is_gpu = bool(system.get("gpu"))
    about = f"{system.get('gpu')}, driver {system.get('driver')}" if is_gpu else f"no GPU ({system.get('problem')})"
    print(f"{about}, torch {system.get('torch')}, Python {system.get('python')}", file=sys.stderr, flush=True)
    steps = chosen(options.steps, is_gpu=is_gpu)
    held_gib = float(system.get("gpu_gib") or 0)
    too_small = {
        step.name: f"needs a GPU of {step.least_gib} GiB" for step in steps if is_gpu and held_gib < step.least_gib
    }
    before = {}
    if options.out.exists():
        try:
            before = read_results(options.out)
        except (OSError, ValueError) as error:
            print(f"Error: {error} Move it away, or give another --out.", file=sys.stderr)
            return 2
    results = run_all(
        [(step.name, step.limit_s if is_gpu else step.rehearsal_limit_s) for step in steps],
        lambda name: python_command(ROOT, name),
        path=options.out,
        environ=environ,
        system=system,
        within_s=options.within * (1 if is_gpu else 4) - (time.monotonic() - started_s),
        before=before,
        why_left_out=too_small,
        on_result=partial(report, has_figures=bool(options.steps)),
    )
    print(terminal_table(results))
    if "tune" in results:
        print(constants_found(results["tune"], options.out.with_suffix(".sizes.json")))
    print(f"\n{options.out}")
    return count_failures(results, [step.name for step in steps])


if __name__ == "__main__":
    sys.exit(main())
