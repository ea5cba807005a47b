"""Process many items fast: on several processors, and without Python's search for garbage in reference cycles among
objects that stay."""

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_CHUNKS_PER_PROCESS = 8
_NEVER = 2**31 - 1


def map_in_order(
    function: Callable[[T], R], items: Sequence[T], num_processes: int = 1, preload: Sequence[str] = ()
) -> Iterator[R]:
    """Yield the result of `function` for each of `items`, in the items' order, as soon as each is available. If
    `function` raises errors, the error of the first such item is raised in that item's place.

    With more than one process, `function` must be importable by name, and items and results must be picklable. A
    process that dies raises an error (concurrent.futures.process.BrokenProcessPool); its result is not just left out.
    If the system can fork, the modules in `preload` are imported once, before the processes are made.
    """
    if num_processes <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    import multiprocessing  # imported here and below, since judging one set needs neither
    from concurrent.futures import ProcessPoolExecutor

    num_processes = min(num_processes, len(items))
    size = max(1, len(items) // (num_processes * _CHUNKS_PER_PROCESS))
    # Forked from a fresh process: a fork of this one, which may have threads (torch's, a caller's), may lock up.
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload(list(preload))
        _start_forkserver()
    pool = ProcessPoolExecutor(num_processes, mp_context=context, initializer=belong_to_parent)
    try:
        yield from pool.map(function, items, chunksize=size)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_forkserver() -> None:
    """Start multiprocessing's fork server with an import path that leaves out the current folder, which may be
    anyone's.

    Processes of the fork server get this process's import path, so that they can import the same modules.
    """
    from multiprocessing import forkserver

    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def belong_to_parent() -> None:
    """Make a process that multiprocessing has started ignore Ctrl-C, which the terminal sends to the parent as well,
    and end when the parent ends, even after kill -9.

    Call it in the started process.
    """
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent-watchdog", daemon=True).start()


@contextmanager
def no_collections() -> Iterator[None]:
    """Disable Python's garbage collection within the `with` block: for a command whose process ends when its work is
    done, and which makes next to no reference cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def no_full_collections() -> Iterator[None]:
    """Collect only young objects within the `with` block. It is for work that makes many lasting objects and next to
    no reference cycles: full garbage collections would take a tenth of the time."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
