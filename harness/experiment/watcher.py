"""Who is told while an experiment is made, and of what."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.run_sets.keepers import KeptOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What is about to be made: its place among all repetitions of its stage, whose it is, and how long all that is
    left may take, by those made so far; None before the first, and of a stage that follows another."""

    number: int
    total: int
    label: str
    run_index: int | None
    left_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Watcher:
    """Who is told of an experiment's progress."""

    on_begin: Callable[[int, int], None] = lambda kept, planned: None
    """Called with how many repetitions of a set alone are there already, and how many are planned."""
    on_step: Callable[[Progress], None] = lambda progress: None
    """Called before each repetition of a group."""
    on_done: Callable[[int, KeptOutcome], None] = lambda index, outcome: None
    """Called after each repetition of a set alone."""
    on_growth: Callable[[int], None] = lambda num_runs: None
    """Called with the number of repetitions that a stop rule is about to ask for."""
    quiet: bool = False
