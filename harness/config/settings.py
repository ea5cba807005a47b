"""Settings as a caller in Python gives them: keys of --set with their values."""

from collections.abc import Mapping
from typing import Any

from harness.config.run_config import OVERRIDABLE, SUBMISSION, Override
from harness.foundation.errors import HarnessError


def read_settings(settings: Mapping[str, Any] | None) -> list[Override]:
    """List what a caller sets. Raises HarnessError for a key without a known section."""
    known = (*OVERRIDABLE, SUBMISSION)
    overrides = []
    for key, value in (settings or {}).items():
        section, _, name = key.partition(".")
        if section not in known or not name:
            raise HarnessError(f"settings: {key!r}, expected section.key with a section of {', '.join(known)}.")
        listed = list(value) if isinstance(value, tuple) else value
        overrides.append(Override(key=key, value=listed, source="settings"))
    return overrides
