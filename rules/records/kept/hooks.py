"""hooks.json records the user's commands of --prepare and --cleanup that ran before and after one repetition of a
measurement, outside its timed part."""

from typing import Annotated

from msgspec import Meta

from rules.records.codec import Amount, Document, Record

HOOKS_FILE = "hooks.json"
MAX_OUTPUT = 4000
"""Maximum number of characters stored of the output of a user's --prepare or --cleanup command: the last ones."""


class HookRecord(Record, frozen=True, kw_only=True):
    """User's command that ran before or after one repetition of a measurement (--prepare or --cleanup)."""

    command: str
    exit_code: int
    """Exit code of the user's command; the negative signal number where a signal ended it."""
    took_s: Amount
    """Seconds that the user's command took, by the clock of the process that started it."""
    output: Annotated[str, Meta(max_length=MAX_OUTPUT)]
    """Last characters of the standard output and standard error of the user's command."""


class HooksRecord(Document, frozen=True, kw_only=True):
    """Commands of --prepare and --cleanup that ran around one repetition of a measurement; a member is None where no
    such command was given, or where it did not end."""

    prepare: HookRecord | None = None
    cleanup: HookRecord | None = None
