"""Errors of `reference_models`, which the command line turns into exit codes in one place."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class ConfigError(ValueError):
    """Error: a model, data, train or runtime section of a definition is malformed or contradicts itself (exit code
    2)."""


OWN_CODE = "dlrmbench_file_"
"""Prefix of the module names under which a user's Python files are run."""
OWN_FRAME = "  at "
"""Prefix of the lines on standard error that show where in a user's code an error arose."""
_SHOWN_FRAMES = 3


class DatasetError(ValueError):
    """Error: a dataset is missing, incomplete, corrupt or not the requested one (exit code 8)."""


class ArtifactError(ValueError):
    """Error: a folder of stored arrays is damaged, or differs from its manifest (exit code 8)."""


class DeviceError(ValueError):
    """Error: the requested device is missing, is named wrongly, or has too few GPUs for the ranks (exit code 2)."""


class CaptureError(RuntimeError):
    """Error: the device cannot capture a training step as a CUDA graph (exit code 2, or 9 if it ran out of
    memory)."""


class WorldError(RuntimeError):
    """Error: a rank (process) of the run did not join, or was lost (exit code 9)."""


class NotFiniteError(ArithmeticError):
    """Error: training produced a loss or a score that is not finite, so the run cannot converge (exit code 4)."""


def own_code_of(error: BaseException) -> tuple[str, int] | None:
    """Return file and line of the innermost frame of an error in the user's code; None if there is no such frame."""
    found, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame
        if str(code.f_globals.get("__name__")).startswith(OWN_CODE):
            found = (code.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def describe_own_frames(error: BaseException) -> list[str]:
    """Return a line for each of the last frames of an error in the user's code, and for the place where it was
    raised."""
    frames = [*traceback.walk_tb(error.__traceback__)]
    summaries = traceback.extract_tb(error.__traceback__)
    own = [
        place for place, (frame, _) in enumerate(frames) if str(frame.f_globals.get("__name__")).startswith(OWN_CODE)
    ]
    places = dict.fromkeys((*own[-_SHOWN_FRAMES:], *([len(frames) - 1] if own else [])))
    return [
        f"{summary.filename}, line {summary.lineno}, in {summary.name}: {summary.line or ''}".rstrip(": ")
        for summary in map(summaries.__getitem__, places)
    ]


def explain_second_file(path: Path, error: BaseException) -> str:
    """Return advice where a user's file failed to import a module from its own folder; empty for other errors."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    is_beside = bool(name) and (path.with_name(f"{name}.py").is_file() or path.with_name(name).is_dir())
    if not is_beside and "relative import" not in str(error):
        return ""
    return (
        f". Own code is one file, whose digest is recorded, without modules beside it. Put it into {path.name}, or "
        "install both as a package, which is found by entry point."
    )


def did_you_mean(word: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" for the name in `known` closest to `word`, else " Known: …" with all names."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(sorted(known))}."


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to an error of writing (such as a full disk) inside the `with` block, since the system's
    error does not say which open file it is about."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
