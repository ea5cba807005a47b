"""Progress of making a dataset."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reference_models.config.sections import DataConfig


@contextmanager
def generation_progress(data: DataConfig, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A callback for `generate`; the bar appears with the first samples, so nothing shows when none are made."""
    total = (data.train_samples or 0) + (data.eval_samples or 0)
    stream = sys.stderr
    done = 0

    def on_progress(num_samples: int) -> None:
        nonlocal done
        if quiet:
            return
        if stream.isatty():
            done += num_samples
            stream.write(f"\r\x1b[2Kgenerating {data.name}: {done / total:4.0%}")
            stream.flush()
        elif done == 0:
            done = num_samples
            stream.write(f"generating {data.name}: {total:,} samples\n")
            stream.flush()

    yield on_progress
    if done and stream.isatty():
        stream.write(f"\r\x1b[2Kgenerated {data.name}: {total:,} samples\n")
