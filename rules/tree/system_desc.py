"""Read a system description, systems/<system>.json: MLPerf's 33 fields, from a file with any content."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from rules.logs.text import show
from rules.records.system import Availability

STATUSES: tuple[str, ...] = get_args(Availability)
"""Allowed values of `status` (availability) in a system description from MLPerf's round 4.1 on."""
MAX_BYTES = 1 << 20
COUNTS = (
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "accelerators_per_node",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemDesc:
    """System description as read from systems/<system>.json: its fields, or the reason why there are none. `oddities`
    describes defects of the file that this harness tolerates, but that stricter readers, such as the official tools,
    do not."""

    fields: Mapping[str, Any] | None
    error: str | None = None
    oddities: tuple[str, ...] = ()


def as_count(value: object) -> int | None:
    """Return the whole number, of at most nine digits, that a field of a system description states as text or as a
    number; None for anything else."""
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def read_system_desc(path: Path) -> SystemDesc:
    """Read a system description, systems/<system>.json, from a file with any content."""
    try:
        if not path.is_file():
            return SystemDesc(fields=None, error="not a regular file")
        if path.stat().st_size > MAX_BYTES:
            return SystemDesc(fields=None, error=f"larger than {MAX_BYTES} bytes")
        return _parse(path.read_bytes())
    except (OSError, ValueError) as error:
        return SystemDesc(fields=None, error=f"not readable as JSON: {str(error)[:120]}")


@lru_cache(maxsize=32)
def _parse(data: bytes) -> SystemDesc:
    """Parse the bytes of a system description; cached, since many result sets of one system hold the same bytes."""
    oddities: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = sorted(key for key, count in Counter(key for key, _ in found).items() if count > 1)
        if twice and len(oddities) < 20:
            oddities.append(f"{show(twice[0])} is given more than once; the last one counts")
        return dict(found)

    def constant(text: str) -> float:
        oddities.append(f"{text} is no JSON")
        return float(text)

    try:
        if data.startswith(b"\xef\xbb\xbf"):
            oddities.append("begins with a byte order mark, on which the official tools crash")
        content = json.loads(data.decode("utf-8-sig"), object_pairs_hook=pairs, parse_constant=constant)
    except UnicodeDecodeError as error:
        return SystemDesc(fields=None, error=f"not UTF-8: {error.reason} at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return SystemDesc(fields=None, error=f"not readable as JSON: {str(error)[:120]}")
    if not isinstance(content, dict):
        return SystemDesc(fields=None, error="not a JSON object")
    return SystemDesc(fields=content, oddities=tuple(dict.fromkeys(oddities)))
