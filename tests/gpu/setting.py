"""Setting of a step: a GPU at full sizes, or whatever there is at tiny ones; and what several steps do with it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "gpu" / "data"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """`is_full` means sizes that a GPU is measured at; `scratch` is a folder that is removed afterwards."""

    device: str
    is_gpu: bool
    is_full: bool
    scratch: Path
    data: Path = DATA

    @classmethod
    def of_this_system(cls, scratch: Path) -> "Setting":
        import torch

        is_gpu = torch.cuda.is_available()
        return cls(device="cuda" if is_gpu else "cpu", is_gpu=is_gpu, is_full=is_gpu, scratch=scratch)

    @property
    def benchmark(self) -> str:
        """The one that is run to its target and profiled."""
        return "dlrm_small" if self.is_full else "dlrm_tiny"

    def dlrmbench(self, *arguments: object, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line below `scratch`, on this setting's data; the exit code is not checked."""
        done = subprocess.run(
            [sys.executable, "-m", "harness", *map(str, arguments)],
            cwd=self.scratch,
            env={**os.environ, "DLRMBENCH_DATA": str(self.data), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        print(
            f"dlrmbench {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr[-2000:]}",
            flush=True,
        )
        return done


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def find_one(folder: Path, pattern: str) -> Path:
    """Return the only path below `folder` that fits, by whatever links; RuntimeError where none or several do."""
    found = sorted({path.resolve() for path in folder.glob(pattern)})
    if len(found) != 1:
        raise RuntimeError(f"expected one {pattern} below {folder}, found {len(found)}")
    return found[0]


def number(values: Mapping[str, Any], *keys: str) -> float | None:
    """Look a number up through nested objects; None where it is missing or null."""
    value: Any = values
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
