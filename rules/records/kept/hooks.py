"""hooks.json beside a repetition: the commands of --prepare and --cleanup that ran around it, off its clock."""

from typing import Annotated

from msgspec import Meta

from rules.records.codec import Amount, Document, Record

HOOKS_FILE = "hooks.json"
MAX_OUTPUT = 4000
"""Characters of a command's output that are kept: its last ones."""


class HookRecord(Record, frozen=True, kw_only=True):
    """A command that ran before or after a repetition."""

    command: str
    exit_code: int
    """Minus the signal where one ended it."""
    took_s: Amount
    """Measured by the clock of the process that started it."""
    output: Annotated[str, Meta(max_length=MAX_OUTPUT)]
    """The end of what it wrote to standard output and standard error."""


class HooksRecord(Document, frozen=True, kw_only=True):
    """What ran around one repetition; None where nothing was asked, or it did not come to an end."""

    prepare: HookRecord | None = None
    cleanup: HookRecord | None = None
