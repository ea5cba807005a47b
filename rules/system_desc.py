"""The system description: MLPerf's 33 fields, all strings (system_desc_checker, submission_rules.adoc)."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rules.rounds import round_number
from rules.rule import Problem, Rule, Severity, rule, show
from rules.subject import SetSubject

FIELDS = (
    "submitter", "division", "status", "system_name", "number_of_nodes", "host_processors_per_node",
    "host_processor_model_name", "host_processor_core_count", "host_processor_vcpu_count",
    "host_processor_frequency", "host_processor_caches", "host_processor_interconnect", "host_memory_capacity",
    "host_storage_type", "host_storage_capacity", "host_networking", "host_networking_topology",
    "host_memory_configuration", "accelerators_per_node", "accelerator_model_name",
    "accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories",
    "accelerator_memory_configuration", "accelerator_memory_capacity", "accelerator_interconnect",
    "accelerator_interconnect_topology", "cooling", "hw_notes", "framework", "other_software_stack",
    "operating_system", "sw_notes",
)  # fmt: skip
STATUSES = (
    "Available on-premise",
    "Available cloud",
    "Research, Development, or Internal (RDI)",
    "Preview",
)
"""What `status` may be from round 4.0 on."""
MAX_BYTES = 1 << 20
_SOURCE = "mlperf_logging system_desc_checker; submission_rules.adoc, system description"


def read_system_desc(path: Path) -> tuple[Mapping[str, Any] | None, str | None]:
    """The fields of one systems/<system>.json, or why it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None, f"larger than {MAX_BYTES} bytes"
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        return None, f"not readable as JSON: {str(error)[:120]}"
    return (content, None) if isinstance(content, dict) else (None, "not a JSON object")


def _has_tree(subject: SetSubject) -> str | None:
    return None if subject.result_set.system is not None else "a bare directory of logs names no system"


def _has_desc(subject: SetSubject) -> str | None:
    return None if subject.system_desc is not None else "there is no system description"


def _path(subject: SetSubject) -> str | None:
    return str(subject.result_set.system_json) if subject.result_set.system_json is not None else None


@rule(
    "SY101",
    "the system is described",
    source=_SOURCE,
    remedy="Write systems/<system>.json; 'dlrmbench system' fills in what this machine knows.",
    applies=_has_tree,
)
def description_exists(subject: SetSubject) -> Iterator[Problem]:
    """systems/<system>.json beside results/ describes the system and can be read."""
    severity: Severity = "warning" if subject.is_ours else "error"
    if subject.result_set.system_json is None:
        yield Problem(
            message="the system has no description",
            found="no file",
            expected=f"systems/{subject.result_set.system}.json",
            severity=severity,
        )
    elif subject.system_desc_error is not None:
        yield Problem(
            message=subject.system_desc_error, path=_path(subject), expected="a JSON object", severity=severity
        )


@rule(
    "SY102",
    "all 33 fields are there",
    source=_SOURCE,
    remedy="Add the field; an empty string is allowed where it does not apply.",
    requires={"SY101"},
    applies=_has_desc,
)
def fields_present(subject: SetSubject) -> Iterator[Problem]:
    """Each of the 33 fields exists; its value may be empty. Before round 3.0 the list was shorter: a warning."""
    missing = [field for field in FIELDS if field not in (subject.system_desc or {})]
    if missing:
        yield Problem(
            message=f"{len(missing)} of 33 fields are missing",
            path=_path(subject),
            found=", ".join(missing[:5]) + (", …" if len(missing) > 5 else ""),
            expected="33 fields",
            severity="warning" if subject.round is not None and round_number(subject.round) < (3, 0) else "error",
        )


@rule(
    "SY103",
    "fields are strings",
    source=_SOURCE,
    remedy='Write numbers in quotes, such as "8"; an integer accelerators_per_node crashes the official checker.',
    severity="warning",
    requires={"SY101"},
    applies=_has_desc,
)
def fields_are_strings(subject: SetSubject) -> Iterator[Problem]:
    """Every field's value is a string; other_software_stack may be an object or a list."""
    for field in FIELDS:
        value = (subject.system_desc or {}).get(field, "")
        allowed = (str, dict, list) if field == "other_software_stack" else (str,)
        if not isinstance(value, allowed):
            yield Problem(
                message=f"{field} is no string",
                path=_path(subject),
                found=show(value),
                expected=show(str(value)[:40]),
            )


@rule(
    "SY104",
    "the availability is one that the rules name",
    source="submission_rules.adoc, availability; system_desc_checker from round 4.0 on",
    remedy="Use one of the four words.",
    requires={"SY101"},
    applies=_has_desc,
)
def status_is_known(subject: SetSubject) -> Iterator[Problem]:
    """status is one of four: available on-premise or in a cloud, RDI, preview. Another spelling of one of them is a
    warning. Own benchmarks may leave it open."""
    if subject.round is not None and round_number(subject.round) < (4, 0):
        return
    status = (subject.system_desc or {}).get("status")
    if status not in STATUSES:
        is_spelling = isinstance(status, str) and _letters(status) in map(_letters, STATUSES)
        severity: Severity = "info" if subject.round is None else "warning" if is_spelling else "error"
        yield Problem(
            message="unknown status", path=_path(subject), found=show(status), expected=" | ".join(STATUSES),
            severity=severity,
        )  # fmt: skip


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


RULES: tuple[Rule[SetSubject], ...] = (description_exists, fields_present, fields_are_strings, status_is_known)
