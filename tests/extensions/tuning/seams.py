"""What tuning adds to tests of the core."""

from typing import Any

WORDS = {
    "tune": (
        (),
        "tune dlrm_tiny --axis train.global_batch_size=256..2048:log --trials 2 -q --seed 5 --threads 1 --maximize "
        "samples_per_s --throughput 10",
    ),
}
SHOWN_PAGES = {"tune": ("dlrm_tiny", "(than|from|against) the default")}
MEASURING = WORDS
MEASURED_SLOWLY = {"tune": "it has several trials"}

KILLED = {
    "search": (
        (),
        "tune dlrm_tiny --axis runtime.threads=1,2 --axis train.global_batch_size=256..2048:log --trials 5 -q "
        "--seed 5 --maximize samples_per_s --constraint memory<=1GB --throughput 10",
    ),
    "search_side_by_side": (
        (),
        "tune dlrm_tiny --axis train.global_batch_size=256..2048:log --trials 5 -q --seed 5 --maximize samples_per_s "
        "--throughput 10 --threads 1 --parallel-trials 2",
    ),
}


def _search() -> dict[str, Any]:
    return {
        "before": (WORDS["tune"][1],),
        "inputs": "results/*/**/*.json",
        "share": 2,
        "words": ("resume results/latest -q", "report results/latest --no-second-opinion"),
    }


FAMILIES = {"search": _search}
COMPLETED = {"tune --maximize": ("samples", ["samples_per_s"]), "tune --minimize": ("time_to", ["time_to_train_s"])}
