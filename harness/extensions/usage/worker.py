"""Run the loop of a worker process of a usage (the models of one application).

The module imports little, so that soon after its start the worker notices the end of its parent, even if the parent
is killed.
"""

import os
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from rules.judge.parallel import belong_to_parent


def work(pipe: Connection, num_threads: int) -> None:
    """Answer questions that the parent process sends about models, until the parent closes the pipe.

    A question is a function, which is called with the models built so far; its module is imported as the question is
    received. This process ends at once when the parent ends, even by kill -9, and even while this process imports
    modules or builds models.
    """
    belong_to_parent()
    from harness.system.software import WORKER_VARIABLES

    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(num_threads))
    os.environ |= {**WORKER_VARIABLES, **os.environ, **counts}  # before torch is imported
    models: dict[str, Any] = {}
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            question = pipe.recv()
            try:
                answer = question(models)
            except Exception as error:  # the parent raises the error
                answer = error
            pipe.send(answer)
