"""[sorting] of a definition: how numbers lie before they are sorted."""

from dataclasses import dataclass
from typing import Literal

from harness.config.sections import Section


@dataclass(frozen=True, kw_only=True, slots=True)
class SortingConfig:
    """Numbers that are sorted. No part of the training problem or of its digest."""

    order: Literal["random", "rising", "falling"] = "random"
    """How they lie before they are sorted."""


SORTING = Section(name="sorting", record=SortingConfig, asked_by="--sorting")
