"""C functions for a training step's work around its matrix products, compiled where the machine has a C compiler.

The functions are compiled once for each processor and compiler, into a folder that is this user's alone.
`sorted_update.c` reads bags, sorts rows, and updates each row in one pass. `dense_passes.c` does in one pass over
memory what takes torch's operators several passes (biases, ReLU and their gradients, cross layers, dot products of
pairs, Adagrad), and lets numpy's OpenBLAS multiply matrices on torch's threads. Sums, except OpenBLAS's, are the same
for any number of threads.
"""

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import torch

from reference_models.fused.private_folder import find_compiler, private_folder
from reference_models.process.atomic_write import remove, sync_folder
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import read_regular

WIDTHS = (16, 32, 64, 128)
"""Widths (numbers of columns) of embedding rows for which there are compiled functions: to read tables, to update
tables, and to compute dot products. With a fixed width a row's sum stays in registers."""
MAX_FEATURES = 64
"""Maximum number of vectors per sample for which the compiled function computes the dot products of all pairs."""
ROWS = 64
"""Number of samples of a block: threads add up gradients within each block, then the blocks' sums are added up. Steps
with blocks of 256 samples take no less time (Intel Xeon, family 6 model 207)."""
_SOURCES = tuple(Path(__file__).with_name(name) for name in ("lanes.h", "sorted_update.c", "dense_passes.c"))
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", f"-DROWS={ROWS}")
_COMPILE_S = 60.0
_MAX_LIBRARY_BYTES = 64 << 20


_POINTER, _NUMBER, _REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_ARGUMENTS = {
    "sort_rows": [*[_POINTER] * 7, *[_NUMBER] * 3],
    "update_rows": [*[_POINTER] * 4, *[_NUMBER] * 3, _REAL, _REAL, _NUMBER],
    "read_bags": [*[_POINTER] * 6, *[_NUMBER] * 4],
    "add_bias": [*[_POINTER] * 2, *[_NUMBER] * 4],
    "differentiate_relu": [*[_POINTER] * 3, *[_NUMBER] * 3],
    "cross": [*[_POINTER] * 5, *[_NUMBER] * 3],
    "differentiate_cross": [*[_POINTER] * 6, *[_NUMBER] * 5],
    "adagrad": [*[_POINTER] * 3, _NUMBER, _REAL, _REAL, _NUMBER],
    "dot": [*[_POINTER] * 2, *[_NUMBER] * 5],
    "differentiate_dot": [*[_POINTER] * 3, *[_NUMBER] * 5],
    "multiply": [*[_POINTER, *[_NUMBER] * 5], *[_POINTER, _NUMBER] * 2, _NUMBER, *[_POINTER, _NUMBER], _NUMBER],
}


class TableLayout(NamedTuple):
    """Layout of the merged weight (one tensor with the rows of all tables): where each table's rows are, and to which
    table each lookup of a sample goes."""

    starts: torch.Tensor
    """Starts of a sample's bags, int32 [bags + 1]: bag f holds lookups starts[f] to starts[f + 1] - 1. Bag 0 is
    empty: it keeps the place of the dense vector."""
    shifts: torch.Tensor
    """Row number, in the merged weight (one tensor of all tables' rows), of each table's first row: int64
    [tables]."""
    num_rows: torch.Tensor
    """Number of rows of each table: int64 [tables]."""
    lookup_shifts: torch.Tensor
    """For each of a sample's H lookups, the number of the first row of the lookup's table in the merged weight (one
    tensor of all tables' rows): int64 [H]."""
    lookup_limits: torch.Tensor
    """For each of a sample's H lookups, the number of rows of the lookup's table: int64 [H]."""


class CPUKernels:
    """Functions compiled from this package's C files. Tensors are float32, contiguous and on a CPU unless a docstring
    says otherwise."""

    def __init__(self, library: Path) -> None:
        self._sgemm = find_sgemm()
        loaded = ctypes.CDLL(str(library))
        self._call: dict[str, Callable[..., int | None]] = {}
        for name, arguments in _ARGUMENTS.items():
            function = getattr(loaded, name)
            function.argtypes, function.restype = arguments, _NUMBER if name == "read_bags" else None
            self._call[name] = function

    def sort(self, ids: torch.Tensor, tables: "TableLayout", scratch: torch.Tensor) -> torch.Tensor:
        """Sort the lookups of int64 ids [B, H] by table row, stably. Return int32 [B * H, 2]: the table row of each
        lookup, and the lookup's bag, numbered through all B samples.

        The result is in `scratch` int32 [5, B * H]. The ids must have been checked by `read`.
        """
        pointers = _at(ids, tables.starts, tables.shifts, tables.num_rows, scratch[0], scratch[2], scratch[4])
        self._call["sort_rows"](*pointers, len(ids), len(tables.shifts), torch.get_num_threads())
        return scratch[:2].view(-1, 2)

    def update(
        self,
        ordered: torch.Tensor,
        gradients: torch.Tensor,
        weight: torch.Tensor,
        state: torch.Tensor | None,
        lr: float,
        eps: float,
    ) -> None:
        """Update tables in place: `weight` [R, d], where d is one of `WIDTHS`, and the optimizer's `state`: [R, d]
        for Adagrad, [R, 1] for row-wise Adagrad, None for SGD.

        `ordered` is the result of `sort`; `gradients` [B * bags, d] are the gradients of the bags' sums.
        """
        sums = 0 if state is None else 1 if state.shape[1] == 1 else 2
        pointers = _at(ordered, gradients, weight, weight if state is None else state)
        sizes = (sums, len(ordered), weight.shape[1])
        self._call["update_rows"](*pointers, *sizes, lr, eps, torch.get_num_threads())

    def read(self, ids: torch.Tensor, tables: "TableLayout", weight: torch.Tensor) -> torch.Tensor:
        """Return the sums of bags of table rows, [B, bags, d]. The rows of `weight` [R, d] are looked up by the int64
        ids [B, H].

        d is one of `WIDTHS`. Raises IndexError for an id beyond its table's rows.
        """
        out = weight.new_empty(len(ids), len(tables.starts) - 1, weight.shape[1])
        pointers = _at(ids, tables.lookup_shifts, tables.lookup_limits, tables.starts, weight, out)
        place = self._call["read_bags"](*pointers, *out.shape, torch.get_num_threads())
        if place is not None and place >= 0:
            sample, lookup = divmod(place, ids.shape[1])
            raise IndexError(
                f"sample {sample}, lookup {lookup}: id {int(ids[sample, lookup])}, expected 0 to "
                f"{int(tables.lookup_limits[lookup]) - 1}"
            )
        return out

    def add_bias(self, y: torch.Tensor, bias: torch.Tensor, *, has_relu: bool) -> torch.Tensor:
        """Add `bias` [m] to y [n, m] in place, then apply ReLU if `has_relu`; return y."""
        self._call["add_bias"](*_at(y, bias), has_relu, *y.shape, torch.get_num_threads())
        return y

    def differentiate_relu(self, dy: torch.Tensor, y: torch.Tensor | None, *, sums: bool) -> torch.Tensor | None:
        """Set dy [n, m], the gradient of ReLU's result y, to zero in place where y is not positive; leave dy as it is
        if y is None, for a layer without ReLU.

        Returns the sums [m] of dy over the n samples if `sums`, else None.
        """
        total = _sums_of(dy) if sums else None
        pointers = (dy.data_ptr(), *(None if t is None else t.data_ptr() for t in (y, total)))
        self._call["differentiate_relu"](*pointers, *dy.shape, torch.get_num_threads())
        return None if total is None else total[0]

    def cross(self, x: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Return the result [n, m] of the cross layer x + x_0 (z + bias), element by element; x, x_0 and z are [n,
        m], `bias` is [m]."""
        y = torch.empty_like(x)
        self._call["cross"](*_at(x, x_0, z, bias, y), *x.shape, torch.get_num_threads())
        return y

    def differentiate_cross(
        self, dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, bias: torch.Tensor, dx_0: torch.Tensor, *,
        adds: bool, adds_dy: bool,
    ) -> torch.Tensor:  # fmt: skip
        """Compute the gradients of the cross layer x + x_0 (z + bias), given dy [n, m], the gradient of the layer's
        result.

        The gradient of z is written over z; that of the bias [m] is returned. The gradient of x_0, dy (z + bias), is
        written to `dx_0`, or added to it if `adds`; with `adds_dy`, dy itself (the gradient of x) is added, too.
        """
        sums = _sums_of(dy)
        pointers, sizes = _at(dy, x_0, z, bias, dx_0, sums), (adds, adds_dy, *dy.shape)
        self._call["differentiate_cross"](*pointers, *sizes, torch.get_num_threads())
        return sums[0]

    def adagrad(
        self, value: torch.Tensor, squares: torch.Tensor, gradient: torch.Tensor, lr: float, eps: float
    ) -> None:
        """Update by Adagrad in place: squares += g^2 and value -= lr g / (sqrt(squares) + eps), on tensors of equal
        shapes."""
        numbers = (value.numel(), lr, eps, torch.get_num_threads())
        self._call["adagrad"](*_at(value, squares, gradient), *numbers)

    def dot(self, features: torch.Tensor, y: torch.Tensor) -> None:
        """Compute the dot interaction of each sample's F vectors [n, F, d] into y [n, width].

        A row of y begins with the sample's first vector. The dot products of all pairs of the F vectors follow, in
        the order of the strictly lower triangle, row by row. d is one of `WIDTHS`, F at most `MAX_FEATURES`.
        """
        self._call["dot"](*_at(features, y), *features.shape, y.shape[1], torch.get_num_threads())

    def differentiate_dot(self, features: torch.Tensor, dy: torch.Tensor, into: torch.Tensor) -> None:
        """Write the gradient of the vectors `features` [n, F, d] to `into` [n, F, d], given dy [n, width], the
        gradient of the result y of `dot`."""
        sizes = (*features.shape, dy.shape[1])
        self._call["differentiate_dot"](*_at(features, dy, into), *sizes, torch.get_num_threads())

    @property
    def has_openblas(self) -> bool:
        """Whether the OpenBLAS that numpy brings was found, so that `multiply` can be called."""
        return self._sgemm is not None

    def multiply(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, adds: bool = False) -> torch.Tensor:
        """Write the matrix product of `a` [m, k] and `b` [k, n] to `out` [m, n] by OpenBLAS, or with `adds` add it to
        `out`; return `out`.

        The operands may be stored by rows or by columns.
        """
        (a, turns_a, lda), (b, turns_b, ldb) = _by_lines(a), _by_lines(b)
        sizes = (turns_a, turns_b, *out.shape, a.shape[1])
        pointers = (a.data_ptr(), lda, b.data_ptr(), ldb, adds, out.data_ptr(), out.stride(0))
        self._call["multiply"](self._sgemm, *sizes, *pointers, torch.get_num_threads())
        return out


def _sums_of(values: torch.Tensor) -> torch.Tensor:
    """Allocate memory [1 + blocks, m] for sums over the n samples of `values` [n, m]: row 0 is for the sums over all
    samples, each further row for the sums over a block of `ROWS` samples."""
    num_samples, width = values.shape
    return values.new_empty(1 - (-num_samples // ROWS), width)


def _by_lines(matrix: torch.Tensor) -> tuple[torch.Tensor, bool, int]:
    """Return `matrix` (copied if neither its rows nor its columns are contiguous), whether it is stored by columns,
    and its leading dimension (the stride of its rows, or of its columns)."""
    for turns, line in ((False, 1), (True, 0)):
        if matrix.stride(line) == 1 and matrix.stride(1 - line) >= matrix.shape[line]:
            return matrix, turns, matrix.stride(1 - line)
    return matrix.contiguous(), False, matrix.shape[1]


@cache
def find_sgemm() -> int | None:
    """Return the address of the function cblas_sgemm in numpy's OpenBLAS, limited to one thread; None if that library
    is not found.

    OpenBLAS's own threads would compete with torch's for the same processors.
    """
    import numpy  # noqa: F401

    try:
        found = {
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "openblas64" in line
        }
        libraries = [ctypes.CDLL(path) for path in sorted(found) if "/numpy" in path]
        libraries[0].scipy_openblas_set_num_threads64_(1)
        return ctypes.cast(libraries[0].scipy_cblas_sgemm64_, ctypes.c_void_p).value
    except (OSError, IndexError, AttributeError):
        return None


def _at(*tensors: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)


@cache
def find_cpu_kernels() -> CPUKernels | str:
    """Return the functions of this package's C files, compiled now or earlier; if they cannot be compiled, a line
    with the reason.

    The environment variable CC names the compiler, by default cc, gcc or clang; CC=false turns compiling off.
    """
    compiler = find_compiler()
    if isinstance(compiler, str):
        return compiler
    try:
        said = _run([*compiler, "--version"])
        texts = [source.read_text() for source in _SOURCES]
        key = hashlib.sha256("\0".join([*texts, *compiler, *_FLAGS, said, _processor()]).encode())
        with private_folder() as folder:
            return _load(f"step-{key.hexdigest()[:32]}", folder, compiler)
    except subprocess.CalledProcessError as error:
        lines = [*str(error.stderr).strip().splitlines(), ""]
        return f"{compiler[0]} ended with exit code {error.returncode} {lines[0]}".strip()[:200]
    except (OSError, AttributeError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def _load(name: str, folder: Path, compiler: list[str]) -> CPUKernels:
    """Load the compiled C functions from a library in `folder`, compiling the library first if it is missing.

    The library's file name ends in its digest. If the file's digest differs, the library is compiled again: to load a
    truncated library would end the process by a signal. Raises OSError, AttributeError, CalledProcessError and
    TimeoutExpired if compiling or loading fails.
    """
    for library in sorted(folder.glob(f"{name}-*.so")):
        with suppress(OSError, AttributeError, DatasetError):
            if library.stem == f"{name}-{_digest(library)}":
                return CPUKernels(library)
        remove(library)
    draft = folder / f"{name}-{uuid4().hex}.partial"
    try:
        _run([*compiler, *_FLAGS, "-o", str(draft), *map(str, _SOURCES[1:]), "-lm"])
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        library = folder / f"{name}-{_digest(draft)}.so"
        draft.replace(library)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(folder)
    return CPUKernels(library)


def _digest(library: Path) -> str:
    return hashlib.sha256(read_regular(library, _MAX_LIBRARY_BYTES)).hexdigest()


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
    """Return the processor's model and instruction sets, as Linux names them: compiled code depends on both."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", text, re.MULTILINE)
    return "\n".join([os.uname().machine, *dict.fromkeys(lines)])
