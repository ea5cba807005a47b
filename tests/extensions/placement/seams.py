"""What placement adds to tests of the core."""

import json
from typing import Any

WORDS = {
    "place": ((), "place dlrm_tiny --devices 2 --by dim"),
    "place learnt": ((), "place dlrm_tiny --devices 2 --by greedy --cost net"),
}
DEAR = {"place learnt": "trains a net"}
FILE_WORDS = {
    "tasks": "place --task-file {} --tables clicks.csv",
    "tables": "place --task-file clicks.csv --tables {}",
}
_TABLES = [
    {"row": rows, "pooling_factor": 2.0, **{f"bin_{number}": float(number == 0) for number in range(17)}}
    for rows in (1000, 2000, 500)
]


def _tasks() -> dict[str, Any]:
    files = {"tasks.txt": "0,1,2 16,32,64\n0,0,0,1 4,4,8,8\n", "tables.json": json.dumps(_TABLES)}
    words = "place --task-file tasks.txt --tables tables.json --devices 2 --by lookup,greedy"
    return {"files": files, "words": (words,), "share": 2}


def _plan() -> dict[str, Any]:
    words = "run dlrm_tiny -n 1 -q --threads 1 --implementation torchrec --ranks 2 --sharding plan:plan.json"
    return {
        "before": ("place dlrm_tiny --devices 2 --by dim -o plan.json",),
        "inputs": "plan.json",
        "words": (words,),
    }


FAMILIES = {"tasks": _tasks, "plan": _plan}
