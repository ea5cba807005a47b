"""Whole files beside the logs as this version writes them, with the members that a test is about changed."""

import json
from pathlib import Path
from typing import Any

from rules.records.codec import VERSION, convert, encode
from rules.records.profile import ProfileRecord
from rules.records.system import SYSTEM_FIELDS


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
        "seeds": [],
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


def sweep_content(**changes: Any) -> dict[str, Any]:
    """sweep.json of throughputs; axes and configurations must be given."""
    return {
        "schema_version": VERSION,
        "name": "sweep",
        "created_utc": "2026-11-21T03:00:00+00:00",
        "harness_version": "0.1.0",
        "command": "dlrmbench sweep",
        "kind": "throughput",
        "options": {"num_steps": 10},
        "num_runs": 5,
        "base_seed": 1,
        "with_profile": False,
        **changes,
    }


def profile_content() -> dict[str, Any]:
    """profile.json as a profile of dlrm_tiny left it."""
    folder = Path(__file__).parents[1] / "data" / "version_1" / "throughput_sweep" / "01-global_batch_size-128"
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


def quality_content(processes: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """quality.json."""
    computed = {
        "num_parameters": 100, "embedding_bytes": 400, "num_lookups_per_sample": 2, "embedding_bytes_per_sample": 64,
        "forward_flop_per_sample": 1000, "training_flop_per_sample": 3000,
    }  # fmt: skip
    return {
        "schema_version": VERSION,
        "data_kind": "click_log",
        "dataset_sha256": "d" * 64,
        "eval_samples": 1000,
        "computed": computed,
        "processes": processes,
        **changes,
    }
