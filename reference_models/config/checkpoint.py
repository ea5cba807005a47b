"""Section [checkpoint] of a benchmark definition (TOML): interval, contents and precision of a run's checkpoints.
Torch-free."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from reference_models.config.records import Count, read_section
from reference_models.process.errors import ConfigError

_EVERY = "a number of samples, a share of the epoch above 0% such as 5%, or never"
_KEEP = "all, or a whole number of at least 1"
NEVER, ALL = "never", "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """Section [checkpoint] of a benchmark definition: how a model with embedding tables is checkpointed during
    training. The methods are those of the paper Check-N-Run. A thread writes checkpoints while training goes on. A
    checkpoint holds all embedding rows or only the changed ones, and may quantise them. The section does not change
    the training problem, so the definition's digest leaves it out."""

    every: Annotated[int | str, Meta(extra_json_schema={"description": _EVERY})] = "5%"
    """Interval from one checkpoint to the next: a number of samples, or a share of the epoch such as 5%; `never`
    makes no checkpoints."""
    policy: Literal["full", "one_shot", "consecutive", "intermittent"] = "intermittent"
    """Embedding rows that a checkpoint holds. `full`: all rows. `one_shot`: all rows in the first checkpoint, in
    others the rows changed since the first. `consecutive`: all rows in the first checkpoint, in others the rows
    changed since the checkpoint before. `intermittent`: as `one_shot`, but a checkpoint holds all rows again when
    that is expected to reduce the bytes written by all checkpoints."""
    bits: Literal[32, 8, 4, 2] = 32
    """Bits of each value of an embedding row; optimizer state and all other weights are stored unchanged."""
    rounding: Literal["plain", "adaptive"] = "plain"
    """Rounding of quantised rows: `plain` divides the range from a row's least to its largest value into equal steps;
    `adaptive`, only with 4 or 2 bits, searches for the range with the least squared error."""
    keep: Annotated[int | str, Meta(extra_json_schema={"description": _KEEP})] = ALL
    """Number of newest checkpoints to keep on disk, or `all`. Older checkpoints stay as well if they are needed to
    restore the kept ones: restoring a `consecutive` checkpoint needs all checkpoints before it. Other checkpoints are
    removed once a newer checkpoint is complete."""
    restores: Count = 0
    """Number of times, evenly spread over a measurement of quality (--quality), that training restores its newest
    checkpoint and continues from there."""

    def interval(self, train_samples: int) -> int:
        """Return the number of samples from one checkpoint to the next, for a training split of `train_samples`
        samples."""
        if isinstance(self.every, int):
            return self.every
        return max(1, round(float(self.every[:-1]) / 100 * train_samples))


def parse_checkpoint(table: Mapping[str, Any]) -> CheckpointConfig | None:
    """Return the [checkpoint] section of a definition as a record; None where no checkpoints are asked for: without
    the section, or with every = "never".

    Raises ConfigError for an invalid value.
    """
    config = read_section("checkpoint", table, CheckpointConfig)
    every, is_share = config.every, re.fullmatch(r"(?a:\d{1,3}(\.\d{1,6})?%)", str(config.every)) is not None
    is_known = every == NEVER or (float(str(every)[:-1]) > 0 if is_share else isinstance(every, int) and every > 0)
    if not is_known or (is_share and float(str(every)[:-1]) > 100):
        raise ConfigError(f"checkpoint.every is {every!r}, expected {_EVERY}.")
    if config.keep != ALL and not (isinstance(config.keep, int) and config.keep > 0):
        raise ConfigError(f"checkpoint.keep is {config.keep!r}, expected {_KEEP}.")
    if config.rounding == "adaptive" and config.bits > 4:
        raise ConfigError(
            f"checkpoint.rounding is 'adaptive', expected 'plain' with {config.bits} bits. Give 4 or 2 bits."
        )
    return config if table and every != NEVER else None
