"""Run a user's own code in a child process, so that the processes that start, keep and judge runs never import that
code.

The child resolves the configuration, checks that it can be run, autotunes it, and makes the experiment's folder, from
which the parent goes on.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from harness.config.catalog import MODEL_KEY
from harness.experiment.relation import asked_relation
from harness.experiment.request import Request, RequestError
from harness.foundation.errors import ExitCode, HarnessError, compose_message, end_process, exit_code_of
from harness.run_sets.outside_code import find_outside_code
from reference_models.process.errors import ConfigError
from reference_models.registry import outside_names
from rules.benchmarks.loader import load_benchmark
from rules.errors import DefinitionError

T = TypeVar("T")
_IMPLEMENTATION, _MODEL = "runtime.implementation", f"runtime.{MODEL_KEY}"


class _ChildAnswer(msgspec.Struct, frozen=True):
    """Result of work in a child process: a value, or the error message and exit code for the user."""

    value: Any = None
    error: str | None = None
    exit_code: int = 0
    is_usage: bool = False


def names_outside_code(request: Request) -> bool:
    """Return whether a request, or the run set that it names by --beside, has a model or an implementation that is
    not dlrmbench's own; imports neither.

    Wrong names are not reported here: resolving the request reports them.
    """
    with suppress(DefinitionError, ConfigError, HarnessError, OSError):
        implementations, models = (set(_named(request, key)) for key in (_IMPLEMENTATION, _MODEL))
        if request.beside is None or request.benchmark is not None:
            models |= {load_benchmark(name).model for name in asked_relation(request).benchmarks(request)}
        is_outside_set = request.beside is not None and any(find_outside_code(request.beside))
        return is_outside_set or any(
            outside_names(model, name) for model in models or {"dlrm"} for name in implementations or {"reference"}
        )
    return False


def _named(request: Request, key: str) -> Iterator[str]:
    """Yield all values that a request gives to a configuration key, by --set and the like or by an axis."""
    yield from (str(each.value) for each in asked_relation(request).overrides(request) if each.key == key)
    for axis in request.axes:
        name, _, values = axis.partition("=")
        if name == key:
            yield from values.split(",")


def look_apart(work: Callable[[], T], kind: type[T]) -> T:
    """Return the result of `work` (a callable that returns a text or a record), computed in a child process.

    Raises HarnessError, or RequestError, with the message and exit code of the child's error. A process with threads
    or with torch, such as a notebook, cannot fork, and calls `work` itself.
    """
    if threading.active_count() > 1 or "torch" in sys.modules:
        return work()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        with suppress(BaseException), os.fdopen(write_end, "wb") as pipe:
            pipe.write(msgspec.json.encode(_answer(work)))
        end_process(ExitCode.DONE)
    os.close(write_end)
    try:
        with os.fdopen(read_end, "rb") as pipe:
            said = pipe.read()
    except BaseException:
        os.kill(child, signal.SIGTERM)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if not said:
        ended = os.waitstatus_to_exitcode(status)
        raise HarnessError(f"your own code ended the process that imported it ({ended}).", ExitCode.RESOURCES)
    answer = msgspec.json.decode(said, type=_ChildAnswer)
    if answer.error is not None:
        error = RequestError if answer.is_usage else HarnessError
        raise error(answer.error, ExitCode(answer.exit_code))
    return msgspec.convert(answer.value, kind)


def _answer(work: Callable[[], T]) -> _ChildAnswer:
    """Call `work` in the child process; return its result or its error, and print the traceback of an unexpected
    error."""
    try:
        return _ChildAnswer(value=msgspec.to_builtins(work()))
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            traceback.print_exception(error)
            return _ChildAnswer(error=f"{type(error).__name__}: {error}", exit_code=ExitCode.INTERNAL_ERROR)
        return _ChildAnswer(error=compose_message(error), exit_code=code, is_usage=isinstance(error, RequestError))
    except BaseException:  # Ctrl-C or SIGTERM, which the parent receives too
        return _ChildAnswer(error="interrupted", exit_code=ExitCode.INTERRUPTED)
