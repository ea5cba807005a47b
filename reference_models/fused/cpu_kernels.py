"""The sorted update of `MergedEmbedding` as two functions in C, for a CPU that has a compiler; without one, none.

They are compiled once for each processor and compiler, into a folder that is this user's alone, and are called
without Python in between: a stable radix sort of the rows, and one pass that adds up the gradients of a row, in the
batch's order, and updates the row. Sums of a row are the same for any number of threads.
"""

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import torch

from reference_models.fused.private_folder import private_folder

WIDTHS = (16, 32, 64, 128)
"""Widths of a row that the pass is compiled for: a row's sum is then in registers."""
_SOURCE = Path(__file__).with_name("sorted_update.c")
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC")
_COMPILE_S = 60.0


class CPUKernels:
    """The two functions of `sorted_update.c`; tensors are contiguous, of one CPU."""

    def __init__(self, library: Path) -> None:
        loaded = ctypes.CDLL(str(library))
        pointer, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        self._sort, self._update = loaded.sort_rows, loaded.update_rows
        self._sort.argtypes = [pointer, number, ctypes.c_int32, pointer, pointer, pointer]
        self._update.argtypes = [pointer] * 6 + [number] * 3 + [real] * 2 + [number]
        self._sort.restype = self._update.restype = None

    def sort(self, rows: torch.Tensor, num_rows: int, scratch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sort int32 rows [n] below `num_rows` stably: the rows and the places they had, both in `scratch` [4, n]."""
        ordered, order = scratch[0], scratch[1]
        places = (ordered.data_ptr(), order.data_ptr(), scratch[2].data_ptr())
        self._sort(rows.data_ptr(), len(rows), num_rows, *places)
        return ordered, order

    def update(
        self, ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor,
        weight: torch.Tensor, state: torch.Tensor | None, lr: float, eps: float,
    ) -> None:  # fmt: skip
        """Update `weight` float32 [R, d], d one of `WIDTHS`, and `state` ([R, d], [R, 1] or None) in place.

        `ordered` and `order` int32 [n] are `sort`'s, `bags` int32 [n] the row of `gradients` float32 [bags, d] that
        each lookup was added to.
        """
        width = weight.shape[1]
        sums = 0 if state is None else 1 if state.shape[1] == 1 else 2
        places = (ordered, order, bags, gradients, weight, weight if state is None else state)
        pointers = (tensor.data_ptr() for tensor in places)
        self._update(*pointers, sums, len(ordered), width, lr, eps, torch.get_num_threads())


@cache
def find_cpu_kernels() -> CPUKernels | str:
    """Compile and load them, or load what was compiled; in a line why not, where that cannot be.

    CC names the compiler, by default cc, gcc or clang; CC=false does without.
    """
    try:
        command = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        return f"CC is {os.environ['CC']!r}, which is no command: {error}"[:200]
    found = next(filter(None, map(shutil.which, command[:1] or ("cc", "gcc", "clang"))), None)
    if found is None:
        return f"no C compiler: {' '.join(command) or 'cc, gcc, clang'} not found"
    compiler = [found, *command[1:]]
    try:
        said = _run([*compiler, "--version"])
        key = hashlib.sha256("\0".join([_SOURCE.read_text(), *compiler, *_FLAGS, said, _processor()]).encode())
        library = private_folder() / f"sorted_update-{key.hexdigest()[:32]}.so"
        if not library.is_file():
            draft = library.with_name(f"{library.stem}-{os.getpid()}.so")
            _run([*compiler, *_FLAGS, "-o", str(draft), str(_SOURCE), "-lm"])
            draft.replace(library)
        return CPUKernels(library)
    except subprocess.CalledProcessError as error:
        lines = [*str(error.stderr).strip().splitlines(), ""]
        return f"{found} ended with exit code {error.returncode} {lines[0]}".strip()[:200]
    except (OSError, AttributeError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def _run(words: list[str]) -> str:
    return subprocess.run(
        words,
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_COMPILE_S,
        stdin=subprocess.DEVNULL,
    ).stdout


def _processor() -> str:
    """What code for this processor depends on: its model and its instruction sets, by Linux."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", text, re.MULTILINE)
    return "\n".join([os.uname().machine, *dict.fromkeys(lines)])
