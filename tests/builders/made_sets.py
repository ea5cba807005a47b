"""What a command made in its results folder, beside the link to the latest."""

from pathlib import Path


def made_in(results: Path) -> list[Path]:
    """Sets and sweeps, by name."""
    return sorted(path for path in results.iterdir() if not path.is_symlink())
