"""What memory adds to tests of the core."""

import gzip
import io
import json
from typing import Any

_TRACE = "trace rm1_deeprecsys --lookups 6400 -o t"
WORDS = {"trace": ((), _TRACE), "tiers": ((_TRACE,), "tiers --trace t --cache 5%")}
SHOWN_PAGES = {"trace": ("rm1_deeprecsys", "misses .* %"), "tiers": ("rm1_deeprecsys", "adds .*s to a query")}
MEASURING_NOTHING = {"trace": "misses are computed", "tiers": "waits are simulated"}
FILE_WORDS = {
    "tier": "tiers --trace results --tier {}.toml",
    "lookups": "trace {}.pt -o u",
    "lookups, packed": "trace {}.pt.gz -o u",
    "stack distances": "trace {}.log -o u",
    "tables": "trace {}.csv -o u",
    "tables, JSON": "trace {}.json -o u",
}


def _trace() -> dict[str, Any]:
    return {"before": (_TRACE,), "inputs": "t/*.*", "words": ("tiers --trace t --cache 5%", "report t/study.json")}


def _tier() -> dict[str, Any]:
    from harness.extensions.memory.tier import TIERS

    words = "tiers --trace t --tier mine.toml --devices 4 --pool host,switch --rate 200"
    return {"before": (_TRACE,), "files": {"mine.toml": TIERS["cxl"].read_text()}, "words": (words,)}


def _lookups() -> dict[str, Any]:
    import torch

    content = io.BytesIO()
    tensors = (torch.tensor([3, 0, 1, 1, 2]), torch.tensor([0, 1, 3, 3, 5]), torch.tensor([[1, 2], [0, 2]]))
    torch.save(tensors, content)
    return {"files": {"x.pt": content.getvalue()}, "words": ("trace x.pt -o t",)}


def _packed() -> dict[str, Any]:
    return {"files": {"x.pt.gz": gzip.compress(_lookups()["files"]["x.pt"])}, "words": ("trace x.pt.gz -o t",)}


def _distances() -> dict[str, Any]:
    content = "0, 1, 2, 3, 4, 5\n0, 1, 2, 5\n.2, .5, .9, 1\n"
    return {"files": {"x.log": content}, "words": ("trace x.log -o t --lookups 1000",)}


def _tables() -> dict[str, Any]:
    content = "name,rows,width,pooling,side,precision\na,900,16,2.5,user,int8\nb,50,32,1,item,\n"
    words = ("trace x.csv -o t --lookups 1000 --items 4", "tiers --trace t --cache 5%")
    return {"files": {"x.csv": content}, "words": words}


def _tables_json() -> dict[str, Any]:
    rows = [{"name": "a", "rows": 900, "width": 16, "pooling": 2}, {"name": "b", "rows": 9, "width": 4, "pooling": 1}]
    content = json.dumps(rows, indent=1)
    return {"files": {"x.json": content}, "words": ("trace x.json -o t --lookups 1000",)}


FAMILIES = {
    "trace": _trace,
    "tier": _tier,
    "lookups": _lookups,
    "lookups, packed": _packed,
    "stack distances": _distances,
    "tables": _tables,
    "tables, JSON": _tables_json,
}
COMPLETED = {"tiers --trace t --tier": ("nand,c", ["nand,cxl"])}
