"""Draw the teacher of generated patterns: a prototype of dark and bright pixels for each class of each task.

A pattern is a square of pixels. Pixel (row, column) belongs to task (row + column) modulo the number of tasks, as a
chessboard's squares do to its colours. For each task a class is drawn, and the task's pixels show the class's
prototype or, with equal probability, the prototype's negative. Then each pixel is flipped, dark to bright or back,
with probability `flip_share`. The mean pattern of every class is therefore grey: classes differ only in second-order
statistics.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from reference_models.config.records import read_section
from reference_models.config.sections import DataConfig
from reference_models.data.click_log.counter import MAX_SPLIT_SAMPLES, derive_key, hash_range
from reference_models.process.errors import ConfigError

MAX_TASKS = 3
"""Maximum number of tasks of a pattern. Each task takes 17 bits of a 64-bit random word: 16 draw the class, and one
draws the prototype or its negative."""
MAX_CLASSES = 256
KIND = "patterns"


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternParameters:
    """Section [data.parameters] of generated patterns (images to classify)."""

    flip_share: Annotated[float, Meta(ge=0, le=0.5)]
    """Share of a pattern's pixels that are flipped; at 0.5 nothing can be learned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternShape:
    """Sizes of patterns: T tasks of K classes each, side x side pixels."""

    num_tasks: int
    num_classes: int
    side: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternTeacher:
    """Tables from which the input patterns of the optical network are generated, each from its number (counter)."""

    key: int
    flip_threshold: int
    """Share of flipped pixels, in 2**16-ths."""
    owners: NDArray[np.int64]
    """Task to which each of a pattern's P pixels belongs, row by row: int64 [P]."""
    prototypes: NDArray[np.uint8]
    """Prototype of each class of each task, 1 is bright: uint8 [T tasks, K classes, P pixels]; only the task's own
    pixels are used."""


def pattern_shape(data: DataConfig) -> PatternShape:
    """Return the numbers of tasks and classes of a dataset, and its images' side in pixels. Raises ConfigError for
    sizes that patterns cannot have."""
    classes = data.num_embeddings or ()
    if not classes or len(set(classes)) > 1 or data.num_lookups != len(classes):
        raise ConfigError(
            f"data.num_embeddings is {list(classes)}, expected the number of classes once for each task, equal for "
            "all, without multi_hot."
        )
    side = math.isqrt(data.num_dense)
    if side * side != data.num_dense:
        raise ConfigError(
            f"data.num_dense is {data.num_dense}, expected the pixels of a square pattern, such as 256."
        )
    return PatternShape(num_tasks=len(classes), num_classes=classes[0], side=side)


def parse_parameters(data: DataConfig) -> PatternParameters:
    """Read [data.parameters] of patterns, and check the dataset's sizes. Raises ConfigError naming the wrong
    field."""
    made, shape = read_section("data.parameters", data.parameters, PatternParameters), pattern_shape(data)
    if shape.num_tasks > MAX_TASKS or not 2 <= shape.num_classes <= MAX_CLASSES:
        raise ConfigError(
            f"data.num_embeddings: {shape.num_tasks} tasks of {shape.num_classes} classes, expected at most "
            f"{MAX_TASKS} tasks of 2 to {MAX_CLASSES} classes."
        )
    for split, count in (("train", data.train_samples), ("eval", data.eval_samples)):
        if (count or 0) > MAX_SPLIT_SAMPLES:
            raise ConfigError(f"data.{split}_samples is {count}, expected at most {MAX_SPLIT_SAMPLES}.")
    return made


def build_teacher(data: DataConfig) -> PatternTeacher:
    """Draw the prototype image of each task's classes from the dataset's seed. Raises ConfigError for a wrong
    definition."""
    made, shape, seed = parse_parameters(data), pattern_shape(data), data.seed or 0
    row, column = np.divmod(np.arange(shape.side**2), shape.side)
    size = (shape.num_tasks, shape.num_classes, shape.side**2)
    bits = hash_range(derive_key(seed, 1), 0, math.prod(size)) >> np.uint64(63)
    return PatternTeacher(
        key=derive_key(seed, 0),
        flip_threshold=round(made.flip_share * (1 << 16)),
        owners=(row + column) % shape.num_tasks,
        prototypes=bits.astype(np.uint8).reshape(size),
    )
