"""Torch-free configuration of the diffractive optical network: grid of cells, masks and light."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from reference_models.config.records import PositiveCount, read_section
from reference_models.config.sections import DataConfig
from reference_models.data.patterns.teacher import KIND, PatternShape, pattern_shape
from reference_models.data.synthetic.config import SYNTHETIC_KINDS
from reference_models.process.errors import ConfigError

SLICE = 64
"""Number of patterns of a batch computed at a time: the light fields of a grid of 32 cells then take half a
megabyte."""
Length = Annotated[float, Meta(gt=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class D2NNConfig:
    """Masks and light of an optical network. Lengths are in millimetres; only their ratios matter."""

    grid: Annotated[int, Meta(ge=4, le=1024)]
    """Number of a mask's cells along each side."""
    num_shared_masks: Annotated[int, Meta(ge=0, le=64)]
    """Number of masks that the light of all tasks passes; with 0 the tasks share no masks."""
    num_task_masks: PositiveCount
    """Number of phase masks of the optical network that each task has for itself, behind the masks that all tasks
    share."""
    wavelength_mm: Length
    """Wavelength of the light, in millimetres."""
    pitch_mm: Length
    """Width of a mask's cell, in millimetres; more than the wavelength over the square root of 2."""
    distance_mm: Length
    """Distance, in millimetres, from each plane to the next: from the pattern to the first mask, from mask to mask,
    and from the last mask to the detectors."""
    padding: Annotated[int, Meta(ge=1, le=16)] = 1
    """Width of the Fourier transforms' window, as a multiple of the grid's width. With 2 or more, light travels in
    free space, and light that leaves the grid is lost. With 1 the grid wraps around: light that leaves at one edge
    enters at the other."""
    mask_noise: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Standard deviation, in radians, of random phase errors that are added to all cells of the optical network's
    phase masks, drawn anew for each batch."""


def parse_model(table: Mapping[str, Any]) -> D2NNConfig:
    """Read the optical network's [model] section of a definition. Raises ConfigError naming the invalid field."""
    model = read_section("model", table, D2NNConfig)
    least = model.wavelength_mm / math.sqrt(2)
    if model.pitch_mm <= least:
        raise ConfigError(
            f"model.pitch_mm is {model.pitch_mm:g}, expected more than {least:.4g} (wavelength_mm / sqrt(2)): on a "
            "finer grid the highest frequencies do not travel, and their light vanishes. Widen the cells, or shorten "
            "the wavelength."
        )
    return model


def require_patterns(model: D2NNConfig, data: DataConfig) -> PatternShape:
    """Return the shape of the dataset's patterns.

    Raises ConfigError for a dataset without patterns, and for a grid that is no multiple of a pattern's width, or is
    too small for the detectors.
    """
    if data.kind != KIND and data.kind not in SYNTHETIC_KINDS:
        raise ConfigError(f"data.kind is {data.kind!r}, expected {KIND!r}: an optical network classifies patterns.")
    shape = pattern_shape(data)
    if model.grid % shape.side:
        raise ConfigError(
            f"model.grid is {model.grid}, expected a multiple of {shape.side}, the pixels along a pattern's side."
        )
    if columns(shape.num_classes) * 2 > model.grid:
        raise ConfigError(
            f"model.grid is {model.grid}, expected at least {columns(shape.num_classes) * 2}: {shape.num_classes} "
            "detectors with a space between them."
        )
    return shape


def columns(num_classes: int) -> int:
    """Return the number of columns of the square arrangement of the detectors of `num_classes` classes."""
    return math.isqrt(num_classes - 1) + 1


def num_propagations(model: D2NNConfig, num_tasks: int) -> tuple[int, int]:
    """Return two numbers of propagations of light, added over all tasks: all propagations from one plane to the next,
    and those that begin at a trained mask. A task's first propagation begins at the input pattern."""
    behind = model.num_shared_masks + num_tasks * model.num_task_masks
    return behind + 1, behind
