"""Which search answers to which name; what it needs is imported when it is asked for."""

from collections.abc import Callable, Mapping

from reference_models.data.spec import find
from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.task import Plan, Task
from reference_models.process.errors import ConfigError, did_you_mean

Search = Callable[[Task, SetCost, int], Plan]
"""A way to find a plan that keeps every device's memory, with a seed. Raises ConfigError where it finds none."""
TORCHREC = "torchrec"
"""TorchRec's own planner, which plans models and is no search of tables: `ModelSpec.plan_devices`."""
SEARCHES: Mapping[str, str] = {
    "random": "reference_models.distributed.search.heuristics:random",
    "dim": "reference_models.distributed.search.heuristics:dim",
    "lookup": "reference_models.distributed.search.heuristics:lookup",
    "size_lookup": "reference_models.distributed.search.heuristics:size_lookup",
    "greedy": "reference_models.distributed.search.heuristics:greedy",
    "local": "reference_models.distributed.search.local:local",
    "neuroshard": "reference_models.distributed.search.neuroshard:neuroshard",
    "autoshard": "reference_models.distributed.search.autoshard:autoshard",
    "optimal": "reference_models.distributed.search.optimal:optimal",
}


def find_search(name: str) -> Search:
    """Find a search. Raises ConfigError, with a suggestion, where there is none of that name."""
    if name not in SEARCHES:
        raise ConfigError(f"--by {name!r}: there is no such search.{did_you_mean(name, [*SEARCHES, TORCHREC])}")
    search: Search = find(SEARCHES[name])
    return search
