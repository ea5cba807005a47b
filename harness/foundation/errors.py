"""Define exit codes, the one table that maps errors to them, and an immediate end of the process with an exit
code."""

import errno
import os
import re
import sys
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from reference_models.process import errors as model_errors
from rules import errors as rules_errors

_OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory|_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation")
"""Pattern of messages that report a lack of memory: of CUDA's runtime, its driver and NCCL; of the CPU's allocator;
of cuBLAS, cuDNN and similar libraries."""
_STARVED = (
    "can't start new thread",
    "failed to map segment",
    "Thread creation failed",
    "Resource temporarily unavailable",
)
_RESOURCE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EAGAIN)


class ExitCode(IntEnum):
    """Documented, stable exit codes of the command line."""

    DONE = 0
    INTERNAL_ERROR = 1
    USAGE = 2
    COMPLIANCE = 3
    NOT_CONVERGED = 4
    REGRESSION = 5
    ENVIRONMENT = 6
    INCONCLUSIVE = 7
    INPUT = 8
    RESOURCES = 9
    TIMEOUT = 124
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


class HarnessError(Exception):
    """Error with an exit code for the command line; its message says what happened, where, and what to do."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type["HarnessError"], tuple[str, ExitCode]]:
        """Pickle the message and the exit code, so that the error reaches other ranks complete."""
        return HarnessError, (str(self), self.exit_code)


class RefusedByAllError(HarnessError):
    """Error that is raised on every rank of a run with the same message, so that no rank has to inform the others."""


def exit_code_of(error: BaseException) -> ExitCode | None:
    """Return the exit code of an error that has a message for the user; None for a defect in dlrmbench."""
    if isinstance(error, HarnessError):
        return error.exit_code
    of_rules = rules_errors.DefinitionError | rules_errors.ReferenceSystemError
    if isinstance(error, of_rules | model_errors.ConfigError | model_errors.DeviceError):
        return ExitCode.USAGE
    if isinstance(error, model_errors.DatasetError | model_errors.ArtifactError | rules_errors.InputError):
        return ExitCode.INPUT
    if isinstance(error, model_errors.NotFiniteError):
        return ExitCode.NOT_CONVERGED
    if isinstance(error, model_errors.WorldError) or is_out_of_memory(error):
        return ExitCode.RESOURCES
    if isinstance(error, model_errors.CaptureError):
        return ExitCode.USAGE
    if isinstance(error, OSError):
        if error.errno in _RESOURCE_ERRORS:
            return ExitCode.RESOURCES
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
            return ExitCode.USAGE
        return ExitCode.INPUT
    if isinstance(error, RuntimeError | ImportError) and is_starved(str(error)):
        return ExitCode.RESOURCES
    if isinstance(error, RecursionError) or _is_loop_of_links(error) or _is_no_name(error):
        return ExitCode.INPUT
    return ExitCode.USAGE if model_errors.own_code_of(error) is not None else None


def _is_loop_of_links(error: BaseException) -> bool:
    """Return whether Path.resolve met a loop of links: before Python 3.13 that is a RuntimeError, later an
    OSError."""
    return isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from ")


def _is_no_name(error: BaseException) -> bool:
    """Return whether Python rejected a file name that no system accepts: with a NUL, or with an unpaired
    surrogate."""
    is_of_name = isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding()
    return is_of_name or (isinstance(error, ValueError) and str(error).startswith("embedded null "))


def is_starved(words: str) -> bool:
    """Return whether a message of Python, the loader, OpenMP or C++ (std::thread) reports a lack of threads or
    memory."""
    return any(part in words for part in _STARVED)


def end_process(exit_code: int) -> NoReturn:
    """Flush the output and end this process at once, without Python's normal exit.

    The normal exit waits for threads that read. It also destroys C++ libraries while their threads still run, so a
    remaining thread of torch could abort the process although its work was done.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader is gone
            stream.flush()
    os._exit(exit_code)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or any error that caused it, reports a lack of memory, be it in Python, torch, CUDA or
    NCCL.

    The causes count because an error that ends the capture of a CUDA graph only says that the capture failed. The
    lack of memory is then among its causes.
    """
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, MemoryError):
            return True
        if not isinstance(cause, RuntimeError):
            return False
        if type(cause).__name__ == "OutOfMemoryError" or _OUT_OF_MEMORY.search(str(cause)):
            return True
        seen.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def compose_message(error: BaseException) -> str:
    """Return the message for the user that describes an error: what happened, in which file, and what to do, where
    the error's own text does not say so."""
    if is_out_of_memory(error):
        return "out of memory. Use a smaller batch or benchmark; 'dlrmbench plan' estimates what a run needs."
    if _is_loop_of_links(error):
        return f"{str(error).removeprefix('Symlink loop from ')}: Too many levels of symbolic links."
    if _is_no_name(error):
        return "a file name has an invalid character (NUL, or an unpaired surrogate). Give another name."
    if isinstance(error, RecursionError):
        return "the content of a file, or a folder, is nested too deep."
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        if isinstance(error, FileNotFoundError):
            return f"{place}no such file or directory. Check its path."
        remedy = {
            errno.ENOSPC: " Free some space, or choose another place to write to.",
            errno.EDQUOT: " Free some space, or choose another place to write to.",
            errno.EACCES: " Choose files that you may read, and folders that you may write to.",
            errno.EPERM: " Choose files that you may read, and folders that you may write to.",
            errno.EROFS: " Choose a folder that can be written to.",
            errno.EEXIST: " Move it away, or choose another place.",
            errno.ENOTDIR: " Move away the file that is in place of a folder, or choose another place.",
        }.get(error.errno or 0, "")
        return f"{place}{error.strerror}.{remedy}"
    if (own := model_errors.own_code_of(error)) is not None and exit_code_of(error) == ExitCode.USAGE:
        hint = model_errors.explain_second_file(Path(own[0]), error)
        return f"{own[0]}, line {own[1]}: {type(error).__name__}: {error}{hint}"
    return str(error)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, which states the problem."""
    return str(error).partition("\n")[0]
