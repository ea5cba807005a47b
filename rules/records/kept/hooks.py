"""hooks.json beside a repetition: the commands of --prepare and --cleanup that ran around it, outside its timed
part."""

from typing import Annotated

from msgspec import Meta

from rules.records.codec import Amount, Document, Record

HOOKS_FILE = "hooks.json"
MAX_OUTPUT = 4000
"""Most characters of a command's output that are stored: the last ones."""


class HookRecord(Record, frozen=True, kw_only=True):
    """A command that ran before or after a repetition."""

    command: str
    exit_code: int
    """Exit code; the negative signal number where a signal ended the command."""
    took_s: Amount
    """Seconds by the clock of the process that started the command."""
    output: Annotated[str, Meta(max_length=MAX_OUTPUT)]
    """End of the command's standard output and standard error."""


class HooksRecord(Document, frozen=True, kw_only=True):
    """Commands that ran around one repetition; None where no command was given, or where it did not end."""

    prepare: HookRecord | None = None
    cleanup: HookRecord | None = None
