"""What placement adds to tests of the core."""

import json
from typing import Any

WORDS = {
    "place": ((), "place dlrm_tiny --devices 2 --by dim"),
    "place learnt": ((), "place dlrm_tiny --devices 2 --by greedy --cost net"),
    "place-tasks": ((), "place-tasks -n 1 --devices 2 --by lookup"),
    "measure-costs": ((), "measure-costs dlrm_tiny -o costs.json"),
    "plan-devices": ((), "plan-devices dlrm_tiny --devices 2 --device-memory 8GB"),
}
SHOWN_PAGES = {
    "place": ("dlrm_tiny", "cheapest plan by the search 'dim'"),
    "place-tasks": ("1 task", "cheapest plan by the search 'local'"),
}
MEASURING = {
    "place": ((), "place dlrm_tiny --devices 2 --by dim --cost measured --format json"),
    "place-tasks": (
        (),
        "place-tasks --read tasks.txt tables.json --devices 2 --by dim --cost measured --format json",
    ),
    "measure-costs": ((), "measure-costs dlrm_tiny -o costs.json"),
}
MEASURED_SLOWLY = dict.fromkeys(MEASURING, "tables are really looked up")
MEASURING_NOTHING = {"plan-devices": "all of it is modelled"}
KEEPERS = {"place": "learning:learn"}
FILE_WORDS = {
    "tasks": "place-tasks --devices 2 --read {} clicks.csv",
    "tables": "place-tasks --devices 2 --read clicks.csv {}",
    "tables of a file": "place {}.csv --devices 2 --by dim",
    "costs": "place dlrm_tiny --devices 2 --by dim --costs {}",
    "the plan of today": "place dlrm_tiny --devices 2 --by dim --from {}",
}
_TABLES = [
    {"row": rows, "pooling_factor": 2.0, **{f"bin_{number}": float(number == 0) for number in range(17)}}
    for rows in (1000, 2000, 500)
]

FILES = {"tasks.txt": "0,1,2 16,32,64\n0,0,0,1 4,4,8,8\n", "tables.json": json.dumps(_TABLES)}


def _tasks() -> dict[str, Any]:
    words = "place-tasks --read tasks.txt tables.json --devices 2 --by lookup,greedy"
    return {"files": FILES, "words": (words,), "share": 2}


def _plan() -> dict[str, Any]:
    words = "run dlrm_tiny -n 1 -q --threads 1 --implementation torchrec --ranks 2 --sharding plan:plan.json"
    return {
        "before": ("place dlrm_tiny --devices 2 --by dim -o plan.json",),
        "inputs": "plan.json",
        "words": (words,),
    }


FAMILIES = {"tasks": _tasks, "plan": _plan}
COMPLETED = {"place --devices 2 --by": ("lookup,o", ["lookup,optimal"])}
