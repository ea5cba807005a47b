"""Reading JSON that anyone may have written: a wrong type reads as not known, and nothing raises."""

import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reports.text.formatting import num_bytes, printable

MAX_FILE_BYTES = 8 << 20
MAX_ITEMS = 500


def read_json(path: Path | None, problems: list[str]) -> Mapping[str, Any]:
    """The object in a file; {} where there is none. FIFOs, devices and huge files are not opened."""
    if path is None:
        return {}
    try:
        about = path.stat()
    except (OSError, ValueError):
        return {}
    if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
        problems.append(f"{printable(path)}: not a regular file of at most {num_bytes(MAX_FILE_BYTES)}; not read.")
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{printable(path)}: not readable JSON: {printable(error, 120)}")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{printable(path)}: holds no JSON object; not used.")
        return {}
    return content


def as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value[:MAX_ITEMS] if isinstance(value, list) else []


def items_of(value: object) -> list[tuple[str, Any]]:
    return list(as_mapping(value).items())[:MAX_ITEMS]


def text_of(content: Mapping[str, Any], key: str, max_chars: int = 400) -> str | None:
    value = content.get(key)
    return printable(value, max_chars) if isinstance(value, str) and value else None


def whole_of(content: Mapping[str, Any], key: str) -> int | None:
    value = content.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**128 else None


def positive_of(content: Mapping[str, Any], key: str) -> float | None:
    value = content.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if 0 < number < math.inf else None
