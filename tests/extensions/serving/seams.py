"""What serving adds to tests of the core."""

from typing import Any

WORDS = {
    "serve": ((), "serve dlrm_tiny -n 1 -q --seed 5"),
    "simulate": ((), "simulate dlrm_tiny --target-latency 10s --threads 1 -q --seed 5"),
}
SHOWN_PAGES = {"simulate": ("a queue", "")}  # as the scripted study has it: test_serving_queue has the real one
MEASURING = WORDS
MEASURED_SLOWLY = {"simulate": "it is shown by 'profile --forward'"}
KILLED = {"serve": ((), "serve dlrm_tiny -n 2 -q --seed 5")}
STAND_INS = {"harness.extensions.serving.loadgen:require_loadgen": "scripted_loadgen:require_nothing"}
RECORDS = {"harness.extensions.serving.records:ServeRecord": "served_records:make_content"}
FILE_WORDS = {
    "user.conf": "serve dlrm_tiny -n 1 -q --mlperf --user-conf {}",
    "queries": "serve dlrm_tiny -n 1 -q --queries file:{}",
    "queries, simulated": "simulate dlrm_tiny --queries file:{}",
    "queries of a definition": "serve asked.toml -n 1 -q",
    "queries by --set": "plan dlrm_tiny --no-measure --set serve.queries=file:{}",
    "weights": "serve dlrm_tiny -n 1 -q --weights {}",
}
FILE_LINES = {"queries of a definition": ('queries = "deeprecsys"', 'queries = "file:{}"')}
_USER_CONF = "dlrm-v2.Server.target_qps = 100\n*.Server.target_latency = 30\n*.Server.min_duration = 600000\n"
_QUERIES = "".join(f"{1 + number % 7}\n" for number in range(30))


def _user_conf() -> dict[str, Any]:
    return {"files": {"u.conf": _USER_CONF}, "words": ("serve dlrm_tiny -n 1 -q --mlperf --user-conf u.conf",)}


def _queries() -> dict[str, Any]:
    return {"files": {"q.txt": _QUERIES}, "words": ("serve dlrm_tiny -n 1 -q --queries file:q.txt",)}


FAMILIES = {"user.conf": _user_conf, "queries": _queries}
