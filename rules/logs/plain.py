"""Read well-formed MLPerf logs and lines in a fraction of the time that reading arbitrary bytes takes.

The functions here return None for a log or line that is not well-formed. `rules.logs.log` calls them first. If they
return None, it uses its own slower parser, which reports what is wrong.
"""

import json
from typing import Any

import msgspec

from rules.logs.line import MAX_RECORD_BYTES, TOKEN, LogLine

_PLAIN = TOKEN + b" {"
_START = len(_PLAIN) - 1
_DECODER = json.JSONDecoder()


class _Row(msgspec.Struct, gc=False):
    """Fields of a record, as decoded from a well-formed line of an MLPerf log."""

    time_ms: Any
    event_type: str
    key: str
    value: Any
    metadata: dict[str, Any]
    namespace: str | msgspec.UnsetType = msgspec.UNSET


_decode_row = msgspec.json.Decoder(_Row).decode


def read_plain_log(data: bytes, path: str) -> list[LogLine] | None:
    """Return the records of a log in which each line is one well-formed record and nothing else, as in the logs that
    this harness writes. Return None for any other log. Escapes, lists, deeper objects, repeated keys and text that is
    not UTF-8 do not count as well-formed here."""
    if not (data.startswith(_PLAIN) and data.endswith(b"}\n") and len(data) <= MAX_RECORD_BYTES):
        return None
    texts = data[_START:-1].split(b"\n" + _PLAIN[:_START])
    if len(texts) != data.count(b"\n") or b"\\" in data or b"[" in data or b"\r" in data:
        return None
    lines: list[LogLine] = []
    num_keys = 0
    try:
        data.decode()
        for line_num, text in enumerate(texts, start=1):
            row = _decode_row(text)
            time_ms, key, value, metadata, namespace = row.time_ms, row.key, row.value, row.metadata, row.namespace
            if not (key and (type(time_ms) is int or type(time_ms) is float) and 0 <= time_ms < 1e15):
                return None
            num_keys += len(metadata) + (6 if type(namespace) is str else 5)
            if type(value) is dict:
                num_keys += len(value)
            lines.append(LogLine(path, line_num, time_ms, row.event_type, key, value, metadata, namespace or ""))
    except (ValueError, RecursionError):  # msgspec's errors and those of Unicode are ValueErrors
        return None
    # Each key has a colon: with as many as different keys none occurs twice, no deeper object holds anything, and no
    # line announces another record.
    return lines if data.count(b":") == num_keys + TOKEN.count(b":") * len(texts) else None


def read_plain_line(text: bytes, path: str, line_num: int, rank: int | None, is_glued: bool) -> LogLine | None:
    """Return the record of a log's line that is one well-formed record and nothing else, as nearly all are; None for
    any other line."""
    if not text.startswith(_PLAIN):
        return None
    try:
        line = text.decode()
        record, end = _DECODER.raw_decode(line, _START)
        key, value, time_ms = record["key"], record["value"], record["time_ms"]
        event_type, metadata, namespace = record["event_type"], record["metadata"], record.get("namespace", "")
    except (ValueError, KeyError, RecursionError):
        return None
    if not (type(metadata) is dict and type(key) is type(event_type) is type(namespace) is str and key):
        return None
    if not ((type(time_ms) is int or type(time_ms) is float) and 0 <= time_ms < 1e15):
        return None
    if "\\" in line or "[" in line or line.find("\r", 0, end) >= 0:
        return None
    # As many colons as different keys: no key occurs twice, and no deeper object holds anything.
    num_keys = len(record) + len(metadata) + (len(value) if type(value) is dict else 0)
    if line.count(":", _START) != num_keys or line[end:].strip():
        return None
    return LogLine(path, line_num, time_ms, event_type, key, value, metadata, namespace, (), rank, is_glued)
