"""Whole files beside the logs as this version writes them, with the members that a test is about changed."""

import json
from pathlib import Path
from typing import Any

from rules.benchmarks.seeds import derive_seeds
from rules.records.codec import VERSION, convert, encode
from rules.records.profile import ProfileRecord
from rules.records.system import SYSTEM_FIELDS

SETS = Path(__file__).parents[1] / "data" / "sets"
"""What `run dlrm_tiny -n 2`, a run by two ranks of torchrec, and a profiled sweep of throughputs left: paths and
the host's name are replaced; pages, specifications and streams are left out."""


def run_set_content(**changes: Any) -> dict[str, Any]:
    """run_set.json of a set of runs."""
    return {
        "schema_version": VERSION,
        "name": "example",
        "created_utc": "2026-11-21T03:00:00+00:00",
        "harness_version": "0.1.0",
        "command": "dlrmbench run dlrm_tiny",
        "kind": "training",
        "options": {},
        "benchmark": {"name": "dlrm_tiny", "version": 1, "status": "own", "definition_sha256": "a" * 64},
        "config": {},
        "num_runs": 5,
        "base_seed": 7,
        "seeds": derive_seeds(
            7, number if isinstance(number := changes.get("num_runs"), int) and 0 < number < 100 else 5
        ),
        "division": "closed",
        "timeout_s": None,
        "num_threads": 2,
        "dataset": {"dir": "data/tiny", "dataset_sha256": "d" * 64},
        "submission": {},
        "system": system_part(),
        "environment": {},
        "preflight": [],
        "code_sha256": "c" * 64,
        "until": None,
        **changes,
    }


def system_part(name: str = "example", **fields: str) -> dict[str, Any]:
    """The system description of a run_set.json."""
    return {"name": name, "fields": dict.fromkeys(SYSTEM_FIELDS, "") | fields, "provenance": {}}


def run_content(**changes: Any) -> dict[str, Any]:
    """run.json of an attempt of one process that met the target."""
    return {
        "schema_version": VERSION,
        "run_index": 0,
        "attempt": 0,
        "seed": 7,
        "status": "success",
        "reason": None,
        "exit_code": 0,
        "started_utc": "2026-11-21T03:00:00.000+00:00",
        "ended_utc": None,
        "peak_rss_bytes": None,
        "peak_device_bytes": None,
        "energy": None,
        "cache_clear": None,
        "blocks": [],
        "evaluations": [],
        "log_sha256": None,
        "ranks": [],
        "exchange": None,
        "read_data": [],
        **changes,
    }


def read_data(sha256: str, *, ctime_ns: int = 1_789_999_000_000_000_000, **changes: Any) -> dict[str, Any]:
    """What run.json says of one copy of the dataset: unchanged from its opening, at `ctime_ns`, to the hashing."""
    state = {"device": "fe00", "inode": "2a", "num_bytes": 1000, "mtime_ns": ctime_ns, "ctime_ns": ctime_ns}
    return {
        "host": "example",
        "ranks": [0],
        "scope": "whole",
        "hashed_bytes": 1000,
        "duration_s": 0.1,
        "sha256": sha256,
        "files": [{"name": "train_labels.npy", "opened": state, "hashed": state, "sha256": "f" * 64}],
        **changes,
    }


def cache_clear(cleared: bool) -> dict[str, Any]:
    """What run.json says of the page cache."""
    return {"cleared": cleared, "method": "none", "resident_bytes_before": None, "resident_bytes_after": None}


def process_content(**changes: Any) -> dict[str, Any]:
    """One process of throughput.json."""
    return {
        "num_steps": 10,
        "num_samples": 1000,
        "duration_s": 0.5,
        "samples_per_s": 2000.0,
        "cache_cleared": False,
        "hyperparameters": {},
        "peak_device_bytes": None,
        "peak_rss_bytes": None,
        "energy": None,
        "ranks": [],
        "exchange": None,
        "started_utc": None,
        "ended_utc": None,
        **changes,
    }


def throughput_content(processes: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """throughput.json of at least five processes."""
    return {
        "schema_version": VERSION,
        "warm_up_steps": 10,
        "data_kind": None,
        "computed": None,
        "processes": processes,
        **changes,
    }


def group_content(relation: str, reads_as: str, members: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """experiment.json of five repetitions of configurations; of `members` what is not given is nothing."""
    kind, options = changes.pop("kind", "training"), changes.pop("options", {})
    stage = {"kind": kind, "options": options, "repetitions": changes.pop("num_runs", 5), "order": "turns"}
    profile = {"kind": "profile", "options": {}, "repetitions": 1, "order": "after", "on_failure": "note"}
    nothing = {"values": {}, "folder": None, "python": None, "failure": None, "notes": {}}
    return {
        "schema_version": VERSION,
        "name": relation,
        "created_utc": "2026-11-21T03:00:00+00:00",
        "harness_version": "0.1.0",
        "command": "dlrmbench sweep",
        "relation": relation,
        "reads_as": reads_as,
        "on_other_code": "warn",
        "base_seed": 1,
        "stages": [
            {**stage, "on_failure": "leave_out"},
            *([profile] if changes.pop("with_profile", False) else []),
        ],
        "axes": [],
        "configurations": [{**nothing, **member} for member in members],
        "with_fit": False,
        "source": None,
        **changes,
    }


def sweep_content(*, configurations: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """experiment.json of a sweep of throughputs; axes must be given."""
    return group_content(
        "matrix", "table", configurations, **{"kind": "throughput", "options": {"num_steps": 10}, **changes}
    )


def pair_content(**changes: Any) -> dict[str, Any]:
    """experiment.json of five pairs of runs."""
    sides = [{"label": side, "folder": side} for side in ("base", "new")]
    return group_content("sides", "pair", sides, **{"name": "beside-dlrm_tiny-20261121T030000Z", **changes})


def experiment_content() -> dict[str, Any]:
    """experiment.json of a matrix with a configuration that failed, was not profiled, and had its own interpreter."""
    path = SETS / "throughput_sweep" / "experiment.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    failure = {"reason": "out of memory", "exit_code": 9, "run_index": 1}
    content["configurations"][-1] |= {"failure": failure, "notes": {"profile": "no memory"}, "python": "bin/python"}
    return content


def write_group(folder: Path, content: dict[str, Any]) -> Path:
    """Write experiment.json into a folder; returns the file."""
    path = folder / "experiment.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def profile_content() -> dict[str, Any]:
    """profile.json as a profile of dlrm_tiny left it."""
    folder = SETS / "throughput_sweep" / "01-global_batch_size-128"
    content = json.loads((folder / "extra" / "profile.json").read_text(encoding="utf-8"))
    return json.loads(encode(convert(content, ProfileRecord)))  # type: ignore[no-any-return]


def quality_process(*, num_samples: int = 100_352, auc: float = 0.75, **changes: Any) -> dict[str, Any]:
    """One process of quality.json."""
    evaluations = [
        {
            "samples_count": round(share * num_samples),
            "auc": auc - 0.05 * (1 - share),
            "log_loss": 0.5,
            "normalised_entropy": 0.8,
            "duration_s": 0.1,
        }
        for share in (0.25, 0.5, 1)
    ]
    return {
        "num_samples": num_samples,
        "training_flop": 3000 * num_samples,
        "train_s": 2.0,
        "evaluations": evaluations,
        "hyperparameters": {},
        "peak_device_bytes": None,
        "peak_rss_bytes": 2**28,
        "energy": None,
        "ranks": [],
        "started_utc": None,
        "ended_utc": None,
        **changes,
    }


def serve_process(**changes: Any) -> dict[str, Any]:
    """One process of serve.json: 100 queries a second, VALID twice, and not at 102."""
    rate = changes.get("queries_per_s", 100.0)
    run = {
        "folder": "run_1", "asked_per_s": rate, "completed_per_s": rate * 0.99, "num_queries": 200, "num_late": 3,
        "duration_s": 2.0, "mean_s": 0.01, "latency_s": 0.02, "is_valid": True, "reason": None,
    }  # fmt: skip
    late = {
        **run,
        "folder": "run_2",
        "asked_per_s": rate * 1.02,
        "completed_per_s": rate * 1.01,
        "num_late": 4,
        "latency_s": 0.024,
        "is_valid": False,
        "reason": "too few queries to be sure that enough are in time",
    }
    return {
        "completed_per_s": rate * 0.99,
        "spread_low_per_s": rate * 0.96,
        "spread_high_per_s": rate * 1.04,
        "invalid_per_s": rate * 1.02,
        "steady_state_per_s": rate * 1.25,
        "loadgen_share": 0.8,
        "queries_per_s": rate,
        "items_per_s": rate * 165,
        "latency_s": 0.02,
        "modelled_per_s": rate * 1.3,
        "alone_per_s": None,
        "overhead_s": 0.0001,
        "service": [{"items": 165.0, "num_queries": 1, "num_calls": 50, "mean_s": 0.005, "percentile_s": 0.006}],
        "curve": [{"queries_per_s": rate * share, "latency_s": 0.005 / (1.2 - share)} for share in (0.1, 0.5, 1.0)],
        "runs": [run, late, {**run, "folder": "run_3"}],
        "quality": None,
        "peak_rss_bytes": 2**28,
        "started_utc": "2026-11-21T03:00:00.000+00:00",
        "ended_utc": "2026-11-21T03:00:20.000+00:00",
        **changes,
    }


def serve_content(processes: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """serve.json."""
    return {
        "schema_version": VERSION,
        "scenario": "server",
        "target_latency_s": 0.025,
        "percentile": 95.0,
        "queries": "deeprecsys",
        "mean_items": 165.0,
        "problem_sha256": "c" * 64,
        "batch_items": None,
        "batch_wait_s": 0.0,
        "num_workers": 1,
        "num_threads": 2,
        "num_copies": 1,
        "is_oversubscribed": False,
        "weights": "random",
        "precision": "fp32",
        "table_precision": "fp32",
        "model_bytes": 400,
        "loadgen_version": "6.0.17",
        "processes": processes,
        **changes,
    }


def quality_content(processes: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """quality.json."""
    computed = {
        "num_parameters": 100,
        "embedding_bytes": 400,
        "num_lookups_per_sample": 2,
        "embedding_bytes_per_sample": 64,
        "forward_flop_per_sample": 1000,
        "training_flop_per_sample": 3000,
    }
    return {
        "schema_version": VERSION,
        "data_kind": "click_log",
        "dataset_sha256": "d" * 64,
        "eval_samples": 1000,
        "computed": computed,
        "processes": processes,
        **changes,
    }
