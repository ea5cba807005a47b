"""Search algorithms for table placement by name, each imported when it is needed."""

from collections.abc import Callable, Mapping

from reference_models.data.spec import find
from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.task import PlacementPlan, Task
from reference_models.process.errors import ConfigError, did_you_mean

Search = Callable[[Task, SetCost, int], PlacementPlan]
"""Type of functions that search a plan within every device's memory, given a placement task, a cost and a random
seed.

They raise ConfigError if they find none.
"""
TORCHREC = "torchrec"
"""Name of TorchRec's own planner, `ModelSpec.plan_devices`, which plans whole models; it is no search over a task's
tables as the others are."""
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
    """Return a search algorithm by its name. Raises ConfigError, with a suggestion, for an unknown name."""
    if name not in SEARCHES:
        raise ConfigError(f"--by {name!r}: there is no such search.{did_you_mean(name, [*SEARCHES, TORCHREC])}")
    search: Search = find(SEARCHES[name])
    return search
