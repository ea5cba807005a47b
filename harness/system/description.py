"""Describe this system in MLPerf's 33 fields: detected values, given values, and empty ones where neither is known.

Nothing is guessed. Values are strings, as MLPerf's checker needs them. The result file has only the fields; the run
set records the source of each.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.foundation.files import write_text
from harness.system.accelerators import describe_accelerators, read_accelerators
from harness.system.hardware import DetectedValue, describe_hardware
from harness.system.resources import ROOT
from harness.system.software import describe_software, version_of
from harness.system.submission import UNSPECIFIED, SubmissionValue
from rules.records.codec import convert, encode
from rules.records.system import SYSTEM_FIELDS, SystemRecord
from rules.tree.system_desc import STATUSES

UNKNOWN = "unknown"
_SLUG_LIMIT = 80
_GIVEN = "given "
_LEAST_STATUS = STATUSES[2]
_NOT_UNIQUE = re.compile(r"\((r|tm|c)\)|[®™©]|\b(cpu|processor|\d+-core)\b|@.*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemDescription:
    """System description with the values of MLPerf's 33 `fields` and, for each, its `provenance`: 'detected (…)',
    'given (…)' or 'unknown …'."""

    fields: Mapping[str, str]
    provenance: Mapping[str, str]


def describe_system(
    given: Mapping[str, SubmissionValue | str], *, device: str = "any", root: Path = ROOT
) -> SystemDescription:
    """Return the system's description in MLPerf's 33 fields. A given value is used if there is one, otherwise the
    detected value.

    `given` are the values that make_submission_fields returns. Its key `platform` is ignored, since it is not one of
    the 33 fields and only goes into the log. If no system name is given, one is made of the hardware and the
    framework. The hardware is the accelerators, or the processors if there are no accelerators or the run's `device`
    is 'cpu'.
    """
    accelerators = read_accelerators(root)
    detected = (
        describe_hardware(root)
        | describe_accelerators(accelerators)
        | describe_software(accelerators, root)
        | {"number_of_nodes": DetectedValue("1", "processes of the run")}
    )
    values: dict[str, str] = {}
    provenance: dict[str, str] = {}
    for field in SYSTEM_FIELDS:
        entry = given.get(field)
        said = SubmissionValue(entry, "caller") if isinstance(entry, str) else entry
        if said is not None and said.value != UNSPECIFIED:
            values[field], provenance[field] = said.value, f"{_GIVEN}({said.source})"
        elif field in detected:
            values[field], provenance[field] = detected[field].value, f"detected ({detected[field].source})"
        else:
            values[field], provenance[field] = "", UNKNOWN
    if not values["submitter"]:
        values["submitter"] = UNSPECIFIED
    if not values["status"]:
        values["status"] = _LEAST_STATUS
        provenance["status"] = f"{UNKNOWN} (MLPerf accepts no empty status; this one claims least)"
    if not values["system_name"]:
        values["system_name"] = _slug(_hardware_name(values, device))
        provenance["system_name"] = "detected (from processor or accelerator, and framework)"
    return SystemDescription(fields=values, provenance=provenance)


def make_system_slug(description: SystemDescription) -> str:
    """Return the name of the system's file: a given name, or hardware and software, such as
    '2x-amd-epyc-9554_torch-2.13.0'.

    It has at most 80 characters of [a-z0-9._-] and never starts with a dot; a name that had to be cut ends in a
    digest, so that different systems keep different names.
    """
    is_given = description.provenance.get("system_name", "").startswith(_GIVEN)
    return _slug(description.fields.get("system_name", ""), with_software=not is_given)


def write_system_json(folder: Path, description: SystemDescription, *, name: str | None = None) -> Path:
    """Write the system's description to `<folder>/<name>.json` atomically, with the 33 fields as strings. Returns its
    path.

    Without `name`, `make_system_slug` makes one of the hardware and the software.
    """
    path = folder / f"{name or make_system_slug(description)}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, encode(convert(dict(description.fields), SystemRecord)))
    return path


def _hardware_name(fields: Mapping[str, str], device: str) -> str:
    num_nodes = fields.get("number_of_nodes", "")
    prefix = f"{num_nodes}n-" if num_nodes not in ("", "0", "1") else ""
    count, model = fields.get("accelerators_per_node", ""), fields.get("accelerator_model_name", "")
    if count in ("", "0") or device == "cpu":
        count = fields.get("host_processors_per_node", "")
        model = fields.get("host_processor_model_name", "") or "unknown processor"
    return f"{prefix}{count or 1}x-{_NOT_UNIQUE.sub(' ', model or 'unknown accelerator')}"


def _slug(name: str, *, with_software: bool = True) -> str:
    software = _safe(f"torch-{(version_of('torch') or 'none').removesuffix('+cpu')[:30]}") if with_software else ""
    named = _safe(name).removesuffix(software).rstrip("-._") or "system"
    limit = _SLUG_LIMIT - len(software) - 1
    if len(named) > limit:
        digest = hashlib.sha256(named.encode()).hexdigest()[:8]
        named = f"{named[: limit - 9].rstrip('-._')}-{digest}"
    return f"{named}_{software}" if with_software else named


def _safe(text: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", text.lower().encode("ascii", "ignore").decode()).strip("-._")
