"""Decide whether results of two runs may be compared (training_rules.adoc, compatibility table)."""

from operator import attrgetter

from rules.scoring.results import MOST_LEFT_OUT, RunResult

problem_of = attrgetter(
    "benchmark", "benchmark_version", "quality_target", "definition_sha256", "dataset_sha256", "train_samples",
    "eval_samples", "global_batch_size", "division",
)  # fmt: skip
"""Function that returns the fields of a run's result that decide whether it may be compared; two runs with equal
fields may be compared with the same runs (`why_not_comparable`)."""


def why_not_comparable(a: RunResult, b: RunResult) -> str | None:
    """Return the reason why the results of two runs may not be compared; None where they may.

    Two runs that differ in benchmark, version, target, definition, dataset or division trained different problems. A
    value that one of the two logs does not state (published logs carry no digests) is not compared. Sample counts may
    differ by a dropped last partial batch, which the rules allow, and where a log carries no digest by a hundredth,
    for which HP103 only warns: submitters leave out batches of sizes that their logs do not state.
    """
    is_known = a.definition_sha256 is not None and b.definition_sha256 is not None
    for what, first, other in (
        ("benchmark", a.benchmark, b.benchmark),
        ("benchmark version", a.benchmark_version, b.benchmark_version),
        ("quality target", a.quality_target, b.quality_target),
        ("definition", a.definition_sha256, b.definition_sha256),
        ("dataset", a.dataset_sha256, b.dataset_sha256),
        ("training samples", *_counts(a.train_samples, b.train_samples, _batch_size(a, b), is_known)),
        ("evaluation samples", *_counts(a.eval_samples, b.eval_samples, 0, is_known)),
        ("division", a.division, b.division),
    ):
        if first is not None and other is not None and first != other:
            return f"different {what}: {first} and {other}"
    if a.benchmark is None or b.benchmark is None:
        return "a log does not name its benchmark"
    return None


def _batch_size(a: RunResult, b: RunResult) -> int:
    return max(a.global_batch_size or 0, b.global_batch_size or 0)


def _counts(first: int | None, other: int | None, batch_size: int, is_known: bool) -> tuple[int | None, int | None]:
    """Return the sample counts of two runs, to be compared; the first count twice where they differ by no more than a
    run may leave out (a partial batch or, without digests, a hundredth)."""
    if first is None or other is None:
        return first, other
    difference = abs(first - other)
    same = difference < batch_size or (not is_known and difference <= MOST_LEFT_OUT * max(first, other))
    return (first, first) if same else (first, other)
