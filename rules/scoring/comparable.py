"""Decide whether results of two runs may be compared (training_rules.adoc, compatibility table)."""

from operator import attrgetter

from rules.scoring.results import MOST_LEFT_OUT, RunResult

problem_of = attrgetter(
    "benchmark", "benchmark_version", "quality_target", "definition_sha256", "dataset_sha256", "train_samples",
    "eval_samples", "global_batch_size", "division",
)  # fmt: skip
"""Function that returns those fields of a run's result on which it depends with which runs the run may be compared
(`why_not_comparable`)."""


def why_not_comparable(a: RunResult, b: RunResult) -> str | None:
    """Return the reason why the results of two runs may not be compared; None if they may.

    Two runs may not be compared if they differ in benchmark, version, target, definition, dataset or division,
    because they then trained different problems. A value counts as equal if one of the two logs does not state it, as
    published logs state no digests. The benchmark alone must be stated by both.

    Sample counts may differ by a last partial batch, which a run may drop by the rules. If a log states no digest,
    sample counts may differ by a hundredth. Submitters leave out batches of a size that their logs do not state, and
    rule HP103 only warns of this.
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
    """Return the sample counts of two runs, as they are to be compared. If they differ by no more than a run may
    leave out (a partial batch or, without digests, a hundredth), return the first count twice."""
    if first is None or other is None:
        return first, other
    difference = abs(first - other)
    same = difference < batch_size or (not is_known and difference <= MOST_LEFT_OUT * max(first, other))
    return (first, first) if same else (first, other)
