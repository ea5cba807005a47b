"""Judge a system description, systems/<system>.json: MLPerf's 33 fields, all strings (system_desc_checker,
submission_rules.adoc)."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rules.benchmarks.rounds import is_before
from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import SetSubject
from rules.logs.text import letters, plural, show
from rules.records.system import SYSTEM_FIELDS
from rules.tree.system_desc import COUNTS, STATUSES, as_count

_JOINED = (
    "submitter",
    "system_name",
    "host_processor_model_name",
    "host_processor_core_count",
    "accelerator_model_name",
    "accelerators_per_node",
    "framework",
)
"""Fields of a system description that the official checker joins into a line of text: any value but a string crashes
it."""
_NEEDED_COUNTS = ("number_of_nodes", "host_processors_per_node", "accelerators_per_node")
_MEANINGFUL = (
    "submitter", "division", "status", "system_name", "number_of_nodes", "host_processors_per_node",
    "host_processor_model_name", "host_memory_capacity", "host_storage_type", "host_storage_capacity",
    "host_networking", "host_networking_topology", "host_memory_configuration",
    "accelerators_per_node", "accelerator_model_name", "accelerator_host_interconnect",
    "accelerator_memory_configuration", "accelerator_memory_capacity", "accelerator_interconnect", "cooling",
    "framework", "other_software_stack", "operating_system",
)  # fmt: skip
"""Fields of a system description for which submission_rules.adoc requires a meaningful response; published
descriptions leave many empty."""
_BEYOND_33 = ("system_type", "host_network_card_count")
_CORES = ("host_processor_core_count", "host_processor_vcpu_count")
"""Fields of a system description of which at least one is required, except for a preview system."""
_NODES = re.compile(r"(\d{1,6})x")
_METADATA = 'submission_rules.adoc, "<system_desc_id>.json metadata"'
_SOURCE = f"mlperf_logging system_desc_checker; {_METADATA}"


def _has_tree(subject: SetSubject) -> str | None:
    return None if subject.result_set.system is not None else "a bare directory of logs names no system"


def _file(subject: SetSubject) -> Path | None:
    return subject.result_set.system_json


def _has_desc(subject: SetSubject) -> str | None:
    return None if subject.system_fields else "there is no system description"


@rule(
    "SY101",
    "the system must have a description that can be read",
    source=_SOURCE,
    remedy="Write systems/<system>.json; 'dlrmbench system' fills in what this machine knows.",
    applies=_has_tree,
    place=_file,
)
def description_exists(subject: SetSubject) -> Iterator[Problem]:
    """systems/<system>.json beside results/ describes the system and can be read. For logs of this harness its
    absence is a warning."""
    severity: Severity = "warning" if subject.is_ours else "error"
    if subject.result_set.system_json is None:
        yield Problem(
            "the system has no description",
            found="no file",
            expected=f"systems/{subject.result_set.system}.json",
            severity=severity,
        )
    elif subject.system_desc is not None and not subject.system_fields:
        reason = subject.system_desc.error or "an empty object"
        yield Problem(reason, expected="a JSON object", severity=severity)


_rule = partial(rule, requires={"SY101"}, applies=_has_desc, place=_file)


@_rule(
    "SY102",
    "the system description must have all 33 fields",
    source=_SOURCE,
    remedy="Add the field; an empty string is allowed where it does not apply.",
)
def fields_present(subject: SetSubject) -> Iterator[Problem]:
    """Each of the 33 fields exists; its value may be empty. Before round 3.0, when fewer fields were required, a
    missing one is only a warning."""
    missing = [field for field in SYSTEM_FIELDS if field not in subject.system_fields]
    if missing:
        yield Problem(
            f"{len(missing)} of 33 fields {'is' if len(missing) == 1 else 'are'} missing",
            found=", ".join(missing[:5]) + (", …" if len(missing) > 5 else ""),
            expected="33 fields",
            keys=tuple(missing),
            severity="warning" if is_before(subject.round, "3.0") else "error",
        )


@_rule(
    "SY103",
    "every field of the system description must be a string",
    source=_SOURCE,
    remedy='Write numbers in quotes, such as "8"; an integer accelerators_per_node crashes the official checker.',
    severity="warning",
)
def fields_are_strings(subject: SetSubject) -> Iterator[Problem]:
    """Every field's value is a string; only other_software_stack may be an object or a list. Any other value is a
    warning. In official sets it is an error in seven fields: submitter, system_name, host_processor_model_name,
    host_processor_core_count, accelerator_model_name, accelerators_per_node and framework. The official checker joins
    these fields and crashes on anything but strings."""
    for field in SYSTEM_FIELDS:
        value = subject.system_fields.get(field, "")
        allowed = (str, dict, list) if field == "other_software_stack" else (str,)
        if not isinstance(value, allowed):
            crashes = field in _JOINED
            yield Problem(
                f"{field} is no string" + ("; the official checker crashes on it" if crashes else ""),
                found=show(value),
                expected="a string" if isinstance(value, dict | list) or value is None else show(str(value)[:40]),
                severity="error" if crashes and not subject.is_own else None,
            )


@_rule(
    "SY104",
    "the system's status must be a phrase that the rules name",
    source='submission_rules.adoc, "Results categories"; mlperf_logging system_desc_checker, 92c4281 and 191ed2c',
    remedy=f"Write one of the phrases: {' | '.join(STATUSES)}.",
)
def status_is_known(subject: SetSubject) -> Iterator[Problem]:
    """From round 4.0 on, status is one of four phrases of the rules: available on-premise, available in a cloud, RDI,
    preview.

    - Another spelling of a phrase is a warning.
    - Any other status is an error from round 4.1 on.
    - In round 4.0 any other status is only a warning, though the official checker rejects it. Words such as "onprem"
      were valid until May 2024 (92c4281). The checker's change of September 2024 (191ed2c) is titled "update rule
      change to start at v4.1 instead of v4.0", but still tests from version 4.0 on.
    - For own benchmarks any other status, such as an empty one, is only reported (info).
    """
    if is_before(subject.round, "4.0"):
        return
    status = subject.system_fields.get("status")
    if status not in STATUSES:
        is_spelling = isinstance(status, str) and letters(status) in map(letters, STATUSES)
        is_warning = is_spelling or is_before(subject.round, "4.1")
        yield Problem(
            "unknown status"
            + ("; before May 2024 other words were valid" if is_before(subject.round, "4.1") else ""),
            found=show(status),
            expected=" | ".join(STATUSES),
            severity="info" if subject.round is None else "warning" if is_warning else "error",
        )


@_rule(
    "SY105",
    "the system description must name the submitter as the directory does",
    source=f"mlcommons/logging#241; {_METADATA}",
    remedy="Write the organisation's name as its directory has it.",
    severity="warning",
)
def submitter_matches(subject: SetSubject) -> Iterator[Problem]:
    """submitter is the name of the organisation's directory, except for case and punctuation. Links in the table of
    results are built from it."""
    folder = subject.result_set.organization
    submitter = subject.system_fields.get("submitter")
    if folder is not None and isinstance(submitter, str) and letters(submitter) != letters(folder):
        yield Problem("submitter is not the directory's organisation", found=show(submitter), expected=show(folder))


@_rule(
    "SY106",
    "the system description must name the division that the logs name",
    source="mlperf_logging package_checker: seeds and RCPs are checked where division is 'closed'",
    remedy="Write closed or open, as the logs do.",
)
def division_matches(subject: SetSubject) -> Iterator[Problem]:
    """division is the division that the logs state. Any spelling but 'closed' switches the official checks of seeds
    and reference convergence points off: another spelling of the same word is a warning."""
    named = Counter(run.division for run in subject.runs if run.division)
    division = subject.system_fields.get("division")
    if named and isinstance(division, str) and division not in named:
        usual = named.most_common(1)[0][0]
        yield Problem(
            "division is not that of the logs",
            found=show(division),
            expected=show(usual),
            severity="warning" if letters(division) == letters(usual) else None,
        )


@_rule(
    "SY107",
    "counts in the system description must be whole numbers",
    source=f"{_SOURCE}; mlperf_logging result_summarizer: counts of processors and accelerators",
    remedy='Write a whole number in quotes, such as "8"; "0" where there is none.',
    requires={"SY101", "SY102"},
    reads=COUNTS,
)
def counts_are_whole(subject: SetSubject) -> Iterator[Problem]:
    """The counts in a system description are whole numbers. number_of_nodes (at least 1), host_processors_per_node
    and accelerators_per_node must be given: the official summarizer multiplies them and crashes on anything else. The
    counts of cores and of virtual processors may be empty; any other wrong value there is a warning. In own
    benchmarks a wrong value or an empty needed field is only a warning."""
    for field in COUNTS:
        value = subject.system_fields.get(field, "")
        number = as_count(value)
        if value == "" and field not in _NEEDED_COUNTS:
            continue
        if number is None or (field == "number_of_nodes" and number < 1):
            yield Problem(
                f"{field} is no count",
                found=show(value),
                expected="a whole number" + (" of at least 1" if field == "number_of_nodes" else ""),
                severity="warning" if subject.is_own or field not in _NEEDED_COUNTS else None,
            )


@_rule(
    "SY108",
    "required fields of the system description should be filled in",
    source=f"{_METADATA}: meaningful response required",
    remedy="Fill the field in.",
    severity="info",
    requires={"SY101", "SY102"},
    reads=_MEANINGFUL,
)
def responses_are_meaningful(subject: SetSubject) -> Iterator[Problem]:
    """No field is empty for which MLPerf's rules require a meaningful response. Fields of accelerators may be empty
    if the system has none. One of the two counts, of cores or of virtual processors, is enough; a preview needs
    neither. For official benchmarks, system_type and host_network_card_count are required too, though they are not
    among the 33 fields that the official checker tests. The official checker accepts empty fields, and published
    descriptions have many."""
    fields = subject.system_fields
    has_none = as_count(fields.get("accelerators_per_node")) == 0
    needed = [field for field in _MEANINGFUL if not (has_none and field.startswith("accelerator_"))]
    needed += [] if subject.is_own else _BEYOND_33
    empty = [field for field in needed if _is_empty(fields.get(field))]
    is_preview = isinstance(status := fields.get("status"), str) and letters(status) == "preview"
    if not is_preview and all(_is_empty(fields.get(field)) for field in _CORES):
        empty.append(" or ".join(_CORES))
    if empty:
        yield Problem(
            plural(len(empty), "empty field"),
            found=", ".join(empty[:5]) + (", …" if len(empty) > 5 else ""),
            expected="a meaningful response",
        )


def _is_empty(value: object) -> bool:
    return value in ("", None, {}, [])


@_rule(
    "SY109",
    "the system description must be JSON that every tool reads alike",
    source="RFC 8259; Python's json as the official tools use it",
    remedy="Write plain JSON in UTF-8, each key once.",
    severity="warning",
)
def plain_json(subject: SetSubject) -> Iterator[Problem]:
    """The file is UTF-8 without a byte order mark, no key occurs twice, and no value is NaN or infinite."""
    for oddity in subject.system_desc.oddities if subject.system_desc is not None else ():
        yield Problem(oddity)


@_rule(
    "SY110",
    "system_name should be the name of the system description's file",
    source="mlperf_logging system_desc_checker: the link to the details is made of system_name",
    remedy="Nothing, if system_name is meant for readers; the link in the table of results is then broken.",
    severity="info",
)
def name_matches(subject: SetSubject) -> Iterator[Problem]:
    """system_name is the name of the file and of the directory of results. In many published descriptions it is
    not."""
    name, system = subject.system_fields.get("system_name"), subject.result_set.system
    if not subject.is_own and isinstance(name, str) and system is not None and name != system:
        yield Problem("system_name is not the file's name", found=show(name), expected=show(system))


@_rule(
    "SY111",
    "the system description must state as many nodes as the logs name",
    source="a rule of dlrmbench, not of MLPerf: of 139 published sets whose submission_platform begins with a "
    "number, it is number_of_nodes in all",
    remedy="Look whether the description is that of the system that ran, and correct number_of_nodes where it is.",
    severity="warning",
    requires={"SY101", "SY102"},
    reads=("number_of_nodes",),
)
def nodes_match(subject: SetSubject) -> Iterator[Problem]:
    """Where submission_platform is "NxNAME", as in most published logs, number_of_nodes is N."""
    platforms = Counter(run.platform for run in subject.runs if run.platform)
    said = as_count(subject.system_fields.get("number_of_nodes"))
    match = _NODES.match(platforms.most_common(1)[0][0]) if platforms else None
    if match is not None and said is not None and not subject.is_ours and int(match[1]) != said:
        yield Problem(
            "number_of_nodes is not that of submission_platform",
            found=show(subject.system_fields["number_of_nodes"]),
            expected=f"{match[1]}, as in {show(platforms.most_common(1)[0][0])}",
        )
