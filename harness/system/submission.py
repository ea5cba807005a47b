"""Collect submission fields that only the submitter knows, from a configuration's [submission] table, the environment
and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.foundation.errors import HarnessError
from rules.errors import did_you_mean
from rules.records.system import SYSTEM_FIELDS
from rules.tree.system_desc import COUNTS, STATUSES

SUBMISSION_FIELDS = (*SYSTEM_FIELDS, "platform")
"""Names of the submission fields that a submitter may give. In logs, `submitter` is called submission_org and
`platform` submission_platform."""
LOGGED_STATUS = dict(zip(STATUSES, ("onprem", "cloud", "research", "preview"), strict=True))
"""Words for each submission status in logs, as mlperf_logging's common.yaml spelled them up to round 4.0. Submitters
still use them."""
DIVISIONS = ("closed", "open")
UNSPECIFIED = "unspecified"
ENVIRONMENT_PREFIX = "DLRMBENCH_SUBMISSION_"
DEFAULT = "default"
_VOCABULARIES = {"status": STATUSES, "division": DIVISIONS}
_LENGTH_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class SubmissionValue:
    """Value of a submission field, and its source: a file, a variable, an option, or 'default'."""

    value: str
    source: str


def make_submission_fields(
    config_table: Mapping[str, Any],
    environ: Mapping[str, str],
    options: Mapping[str, str | None],
    *,
    config_source: str = "[submission]",
) -> dict[str, SubmissionValue]:
    """Return all given submission fields. They come from the table, the environment and options; if a field has
    several values, an option wins over the environment, and the environment over the table.

    `submitter` and `platform` are always included, by default 'unspecified', since a log must name both. An option of
    None was not given. Raises HarnessError (exit code 2) on unknown fields and invalid values.
    """
    given = {name: SubmissionValue(UNSPECIFIED, DEFAULT) for name in ("submitter", "platform")}
    sources: list[tuple[str, str, Any]] = [(key, f"{config_source} {key}", config_table[key]) for key in config_table]
    sources += [
        (name.removeprefix(ENVIRONMENT_PREFIX).lower(), name, environ[name])
        for name in sorted(environ)
        if name.startswith(ENVIRONMENT_PREFIX)
    ]
    sources += [(key, f"--{key.replace('_', '-')}", value) for key, value in options.items() if value is not None]
    for key, source, value in sources:
        field, entry = check_field(key, value, source)
        given[field] = entry
    return given


def check_field(key: str, value: Any, source: str) -> tuple[str, SubmissionValue]:
    """Return one submission field under its MLPerf name, checked. Raises HarnessError (exit code 2) naming
    `source`."""
    by_plain_name = {field.replace("-", "_"): field for field in SUBMISSION_FIELDS}
    plain = str(key).replace("-", "_")
    if plain not in by_plain_name:
        hint = did_you_mean(plain, list(SUBMISSION_FIELDS))
        raise HarnessError(f"{source}: {key!r} is not a submission field.{hint}")
    field = by_plain_name[plain]
    return field, SubmissionValue(_checked(field, source, value), source)


def _checked(field: str, source: str, value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise HarnessError(f"{source} is {value!r}, expected a string in quotes.")
    text = str(value).strip()
    if len(text) > _LENGTH_LIMIT or any(not character.isprintable() for character in text):
        raise HarnessError(f"{source}: expected one line of at most {_LENGTH_LIMIT} printable characters.")
    allowed = _VOCABULARIES.get(field)
    if allowed and text not in allowed:
        hint = did_you_mean(text, list(allowed))
        raise HarnessError(f"{source} is {text!r}, which MLPerf's rules do not know.{hint}")
    if field in COUNTS and text and not (text.isascii() and text.isdecimal()):
        raise HarnessError(f"{source} is {text!r}, expected a whole number.")
    if field in ("submitter", "platform") and not text:
        raise HarnessError(f"{source} is empty, expected a name. Leave it out for 'unspecified'.")
    return text
