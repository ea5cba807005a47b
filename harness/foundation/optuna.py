"""Import optuna, an optional dependency that proposes trials of a search, with its own messages silenced."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.foundation.errors import HarnessError


@contextmanager
def quiet_optuna() -> Iterator[Any]:
    """Yield the module optuna, with its warnings on experimental features and its messages on new studies silenced.

    Raises HarnessError (exit 2) where it is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise HarnessError("A search needs optuna: pip install 'optuna>=5,<6', or '.[tune]' in a checkout.") from None
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield optuna
    finally:
        optuna.logging.set_verbosity(before)
