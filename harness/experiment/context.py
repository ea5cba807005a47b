"""What whoever starts or resumes an experiment grants, and no folder does; and who is told what happens."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from harness.experiment.request import Request
from harness.run_sets.hooks import NO_HOOKS, Hooks
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
    on_lost_energy: Callable[[str], None] = lambda why: None
    """Called once a stage with why a power command that was asked for left no energy."""
    on_growth: Callable[[int], None] = lambda num_runs: None
    """Called with the number of repetitions that a stop rule is about to ask for."""
    quiet: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What is granted with a command: a folder may be anyone's, so that nothing is run for being named in it."""

    python: Path | None = None
    """The interpreter that measures the base of a pair, where it is another one."""
    models: Collection[str] = ()
    """Models that are not dlrmbench's own."""
    implementations: Collection[str] = ()
    """Implementations that are not dlrmbench's own."""
    hooks: Hooks = NO_HOOKS
    """Commands around every repetition."""
    log_to: Path | None = None
    """The file to which what happens is appended."""
    watcher: Watcher = Watcher()

    @classmethod
    def of(cls, request: Request, watcher: Watcher | None = None) -> "Context":
        """Return what a request grants; its models and implementations are in what it makes."""
        return cls(
            python=request.python,
            hooks=Hooks.asked_by(request),
            log_to=request.log_to,
            watcher=watcher or Watcher(quiet=request.quiet),
        )


NO_CONTEXT = Context(watcher=Watcher(quiet=True))
"""Nothing is granted, and nobody is told."""
