"""Many folded parts, one per configuration, in portions that a reader can take in."""

from collections.abc import Sequence

from reports.document.blocks import Fold

MOST_FOLDS = 24


def in_portions(folds: Sequence[Fold]) -> tuple[Fold, ...]:
    """`folds` as they are up to MOST_FOLDS of them; more are folded once again, so many at a time."""
    if len(folds) <= MOST_FOLDS:
        return tuple(folds)
    starts = range(0, len(folds), MOST_FOLDS)
    portions = (folds[start : start + MOST_FOLDS] for start in starts)
    return tuple(
        Fold(summary=f"Configurations {start + 1} to {start + len(portion)}", blocks=tuple(portion))
        for start, portion in zip(starts, portions, strict=True)
    )
