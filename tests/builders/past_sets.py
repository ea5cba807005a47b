"""Past run sets of a folder, as plain values."""

from pathlib import Path
from typing import Any

from msgspec import to_builtins

from reports.comparison.history import read_history


def past_sets(folder: Path | str) -> list[dict[str, Any]]:
    """Return the members of every run set at or below `folder`, newest first."""
    found: list[dict[str, Any]] = to_builtins(read_history(Path(folder))[0])
    return found
