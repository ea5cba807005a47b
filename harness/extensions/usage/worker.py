"""What a worker of a usage does: in a module of its own, as no more is imported before the parent is watched."""

import os
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from rules.judge.parallel import belong_to_parent


def work(pipe: Connection, num_threads: int) -> None:
    """Do what is asked, of the models that were built, until nobody is left to ask.

    What is asked is a function of the models, whose module is imported as it is received. Where who asks is gone,
    even by kill -9, the process ends at once, also while it imports or builds.
    """
    belong_to_parent()
    from harness.system.software import WORKER_VARIABLES

    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(num_threads))
    os.environ |= {**WORKER_VARIABLES, **os.environ, **counts}  # before torch is imported
    models: dict[str, Any] = {}
    with suppress(EOFError, OSError):  # who asks is gone
        while True:
            question = pipe.recv()
            try:
                answer = question(models)
            except Exception as error:  # who asks raises it
                answer = error
            pipe.send(answer)
