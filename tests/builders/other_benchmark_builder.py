"""Logs of MLPerf's other benchmarks, in miniature: a language model whose quality is its loss."""

from pathlib import Path

from log_builder import Record, write_log

START_MS = 1_790_000_000_000


def make_other_run(benchmark: str = "llama31_8b", *, seed: int = 1, start_ms: int = START_MS) -> list[Record]:
    """Records of one run. As published ones it logs a loss as eval_accuracy, and sequences as samples."""
    values: list[tuple[str, str, object, int]] = [
        ("INTERVAL_START", "init_start", None, 0),
        ("POINT_IN_TIME", "submission_benchmark", benchmark, 1),
        ("POINT_IN_TIME", "submission_division", "closed", 1),
        ("POINT_IN_TIME", "submission_org", "Example", 1),
        ("POINT_IN_TIME", "submission_platform", "1x Example", 1),
        ("POINT_IN_TIME", "submission_status", "onprem", 1),
        ("POINT_IN_TIME", "seed", seed, 2),
        ("POINT_IN_TIME", "global_batch_size", 32, 2),
        ("POINT_IN_TIME", "train_samples", 1_574_207_408, 2),
        ("POINT_IN_TIME", "eval_samples", 1024, 2),
        ("INTERVAL_END", "init_stop", None, 60_000),
        ("INTERVAL_START", "run_start", None, 60_001),
        ("INTERVAL_START", "epoch_start", None, 60_002),
        ("POINT_IN_TIME", "eval_accuracy", 5.65, 900_000),
        ("POINT_IN_TIME", "eval_accuracy", 3.29005, 1_800_000),
        ("INTERVAL_END", "run_stop", None, 1_800_001),
    ]
    return [
        {
            "namespace": "",
            "time_ms": start_ms + after_ms,
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": {"file": "train.py", "lineno": 1, "samples_count": 12288, "status": "success"},
        }
        for kind, key, value, after_ms in values
    ]


def write_other_set(folder: Path, benchmark: str = "llama31_8b", num_runs: int = 3) -> Path:
    """Write result_<i>.txt of one set into `folder`."""
    for index in range(num_runs):
        records = make_other_run(benchmark, seed=index, start_ms=START_MS + index * 3_600_000)
        write_log(folder / f"result_{index}.txt", records)
    return folder
