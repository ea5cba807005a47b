"""Hold what only the user's command gives an experiment: permissions to start the user's own code, and callbacks for
progress."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from harness.experiment.request import Request
from harness.run_sets.hooks import NO_HOOKS, Hooks
from harness.run_sets.keepers import KeptOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Progress of a stage (such as the runs, or a profile): the position of the next repetition among `total`, the
    label of its configuration, and the estimated seconds for all repetitions that are left. The estimate is None
    until the first repetition has ended, and in all stages after the first one."""

    number: int
    total: int
    label: str
    run_index: int | None
    left_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Watcher:
    """Callbacks that an experiment calls as its repetitions (runs or measurements) begin and end."""

    on_begin: Callable[[int, int], None] = lambda kept, planned: None
    """Callback with the numbers of finished and of planned repetitions, called as an experiment of one configuration
    begins."""
    on_step: Callable[[Progress], None] = lambda progress: None
    """Callback before each repetition of an experiment of several configurations."""
    on_done: Callable[[int, KeptOutcome], None] = lambda index, outcome: None
    """Callback after each repetition of an experiment of one configuration, with the repetition's index and its
    outcome."""
    on_lost_energy: Callable[[str], None] = lambda why: None
    """Callback with the reason why the user's power command gave no energy; called at most once per stage (such as
    the runs, or a profile)."""
    on_growth: Callable[[int], None] = lambda num_runs: None
    """Callback with the total number of repetitions of each configuration, called before a stop rule adds
    repetitions."""
    quiet: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Permissions that the user's command gives an experiment, such as to start another interpreter or the user's own
    code. Names of code in the experiment's files give no permission, since a stranger may have made its folder."""

    python: Path | None = None
    """Python interpreter whose dlrmbench measures the base (the existing run set that is compared with); None for
    this process's interpreter."""
    models: Collection[str] = ()
    """Names of models that the user gave and that are not dlrmbench's own."""
    implementations: Collection[str] = ()
    """Names of implementations that the user gave and that are not dlrmbench's own."""
    hooks: Hooks = NO_HOOKS
    """User's shell commands before, after and during every repetition."""
    log_to: Path | None = None
    """JSON-lines file to which the experiment's events are appended; None for no such file."""
    watcher: Watcher = Watcher()

    @classmethod
    def of(cls, request: Request, watcher: Watcher | None = None) -> "Context":
        """Return the permissions to run a user's own code that a request gives. The request's models and
        implementations are recorded in the folders that it makes."""
        return cls(
            python=request.python,
            hooks=Hooks.asked_by(request),
            log_to=request.log_to,
            watcher=watcher or Watcher(quiet=request.quiet),
        )


NO_CONTEXT = Context(watcher=Watcher(quiet=True))
"""Context of an experiment that may start no code of the user's and reports no progress."""
