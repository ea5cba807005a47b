"""Which results may be compared (training_rules.adoc, compatibility table)."""

from rules.scoring.results import RunResult


def why_not_comparable(a: RunResult, b: RunResult) -> str | None:
    """Return why two runs' results may not be compared, or None.

    Other benchmark, version, target, definition, dataset or division is another problem. What one side does
    not say (published logs carry no digests) does not separate them. Nor does a dropped last partial batch,
    which the rules allow: some submitters leave it out of train_samples.
    """
    for what, first, other in (
        ("benchmark", a.benchmark, b.benchmark),
        ("benchmark version", a.benchmark_version, b.benchmark_version),
        ("quality target", a.quality_target, b.quality_target),
        ("definition", a.definition_sha256, b.definition_sha256),
        ("dataset", a.dataset_sha256, b.dataset_sha256),
        ("training samples", *_whole_batches(a, b)),
        ("evaluation samples", a.eval_samples, b.eval_samples),
        ("division", a.division, b.division),
    ):
        if first is not None and other is not None and first != other:
            return f"different {what}: {first} and {other}"
    if a.benchmark is None or b.benchmark is None:
        return "a log does not name its benchmark"
    return None


def _whole_batches(a: RunResult, b: RunResult) -> tuple[int | None, int | None]:
    """Both counts of training samples; the same count twice where they differ by less than one batch."""
    first, other = a.train_samples, b.train_samples
    batch_size = max(a.global_batch_size or 0, b.global_batch_size or 0)
    same = first is not None and other is not None and abs(first - other) < batch_size
    return (first, first) if same else (first, other)
