"""Context of an experiment's command: the permissions that only its user gives, and the callbacks for progress."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from harness.experiment.request import Request
from harness.run_sets.hooks import NO_HOOKS, Hooks
from harness.run_sets.keepers import KeptOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Position of the next repetition in its stage, its configuration, and the estimated seconds for all that are
    left; None before the first repetition, and in later stages."""

    number: int
    total: int
    label: str
    run_index: int | None
    left_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Watcher:
    """Callbacks for an experiment's progress."""

    on_begin: Callable[[int, int], None] = lambda kept, planned: None
    """Called with the finished and the planned number of repetitions of a single set."""
    on_step: Callable[[Progress], None] = lambda progress: None
    """Called before each repetition of a group."""
    on_done: Callable[[int, KeptOutcome], None] = lambda index, outcome: None
    """Called after each repetition of a single set."""
    on_lost_energy: Callable[[str], None] = lambda why: None
    """Called once per stage with the reason why a requested power command gave no energy."""
    on_growth: Callable[[int], None] = lambda num_runs: None
    """Called with the number of repetitions that a stop rule is about to ask for."""
    quiet: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Permissions that come with the command: a folder may be a stranger's, so its files alone start no code."""

    python: Path | None = None
    """Interpreter that measures the base of a pair; None for this process's own."""
    models: Collection[str] = ()
    """Models that the user named and that are not dlrmbench's own."""
    implementations: Collection[str] = ()
    """Implementations that the user named and that are not dlrmbench's own."""
    hooks: Hooks = NO_HOOKS
    """Commands around every repetition."""
    log_to: Path | None = None
    """File to which events are appended."""
    watcher: Watcher = Watcher()

    @classmethod
    def of(cls, request: Request, watcher: Watcher | None = None) -> "Context":
        """Return the permissions that a request gives; its models and implementations are recorded in what it
        makes."""
        return cls(
            python=request.python,
            hooks=Hooks.asked_by(request),
            log_to=request.log_to,
            watcher=watcher or Watcher(quiet=request.quiet),
        )


NO_CONTEXT = Context(watcher=Watcher(quiet=True))
"""Context without permissions and without callbacks."""
