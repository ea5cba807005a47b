"""Runs some of the project's tests by pytest, and says after each what has become of them so far."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from findings import printable
from outcome_lines import FILE_VARIABLE
from setting import ROOT, Setting

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: its name with parameters; "passed", "failed", "skipped" or "waiting"; its first words."""

    name: str
    outcome: str
    words: str


OnOutcomes = Callable[[list[Outcome]], None]


def run_tests(paths: list[str], marker: str, setting: Setting, on_outcomes: OnOutcomes) -> int:
    """Run the tests of `paths` that `marker` selects, one after the other; returns pytest's exit code.

    `on_outcomes` gets all of them each time that some have ended. Warnings of other versions fail no test.
    """
    path = setting.scratch / "outcomes.jsonl"
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "outcome_lines",
        "-W",
        "default",
        "--tb",
        "short",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "-m", marker, f"--basetemp={setting.scratch / 'tests'}", *paths],
        cwd=ROOT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
            "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)]),
            FILE_VARIABLE: str(path),
        },
        stdin=subprocess.DEVNULL,
    )
    size = 0
    while True:
        is_over = process.poll() is not None
        now = path.stat().st_size if path.exists() else 0
        if now != size:
            size = now
            on_outcomes(read_outcomes(path.read_text(encoding="utf-8")))
        if is_over:
            return process.returncode
        time.sleep(POLL_S)


def read_outcomes(text: str) -> list[Outcome]:
    """Read what the plugin has written so far, perhaps but a part of its last line."""
    outcomes: dict[str, Outcome] = {}
    for line in text.split("\n")[:-1]:
        said = json.loads(line)
        if "collected" in said:
            outcomes |= {
                name: Outcome(printable(name, 120), "waiting", "it had not ended") for name in said["collected"]
            }
        else:
            name = said["name"]
            # One that passed and then failed to tidy up has failed.
            if name not in outcomes or outcomes[name].outcome != "failed":
                outcomes[name] = Outcome(printable(name, 120), said["outcome"], printable(said["words"], 160))
    return list(outcomes.values())
