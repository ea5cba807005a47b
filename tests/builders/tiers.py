"""The tiers of tests: what `make test` runs, and what the others do. CONTRIBUTING.md has their table."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

NOT_IN_MAKE_TEST = ("slow", "long", "gpu")
QUICK_FILES = pytest.StashKey[dict[Path, bool]]()
"""The collected files that have more than long tests, and whether `make test` has a test of each."""


def note_files(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note in `QUICK_FILES` what is collected; to be called before any test is deselected."""
    files = config.stash[QUICK_FILES] = {}
    for item in items:
        if any(map(item.get_closest_marker, ("long", "gpu"))):
            continue
        is_quick = not any(map(item.get_closest_marker, NOT_IN_MAKE_TEST))
        files[item.path] = files.get(item.path, False) or is_quick


def quick_first(cases: Iterable[Any], number: int = 1) -> list[Any]:
    """Leave the first cases of a parametrised test to `make test`, and all others to `make test-all`."""
    return [
        case if at < number else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for at, case in enumerate(cases)
    ]
